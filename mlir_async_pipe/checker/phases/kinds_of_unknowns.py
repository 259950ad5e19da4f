"""What the kinds of unknowns on a path say of them: how small they may be, how long they are the same.

size        an argument or a size: 0 or more, as long as the kernel runs
loop        the number of an iteration now: 0 or more
ratio       a quotient, rounded down, of a number of 0 or more by one of 1 or more
"""

from __future__ import annotations

from mlir_async_pipe.checker.forms import Atom
from mlir_async_pipe.checker.phases.unknown_products import atoms_within

Range = tuple[int | None, int | None]
OPEN: Range = (None, None)
RATIO = "ratio"
# Ends of ranges are told apart up to so many iterations.
FARTHEST = 128


def first_range(atom: Atom) -> Range:
    """What an atom may be before any condition: sizes and ids are not negative, bits 0 or 1, and a
    loop's number not below the first one."""
    if atom.kind in ("size", "carried", "loop", RATIO):
        return 0, None
    if atom.kind == "trip":
        trips: int | None = atom.key[1]  # type: ignore[index]
        return 0, trips
    if atom.kind == "bit":
        return 0, 1
    if atom.kind == "rest":
        total: int = atom.key[1]  # type: ignore[index]
        return None, total
    if atom.kind == "remainder":
        by: int = atom.key[1]  # type: ignore[index]
        return 0, by - 1
    return OPEN


def is_made_of(atom: Atom, atoms: set[Atom]) -> bool:
    """Whether an unknown is named by some others only, and by what ops may give again: ids and sizes
    of the launch, answers of tests of a phase."""
    return all(
        inner in atoms or len(atoms_within(inner)) > 1 or _is_given_again(inner)
        for inner in atoms_within(atom)
    )


def _is_given_again(atom: Atom) -> bool:
    return atom.kind in ("size", "bit") and isinstance(atom.key, tuple)


def stays(atom: Atom) -> bool:
    """Whether an unknown is the same number as long as the kernel runs."""
    given = atom.kind in ("size", "unknown", "bit") and isinstance(atom.key, int)
    return (
        given
        or atom.kind in ("quotient", "remainder")
        or (atom.kind == "size" and isinstance(atom.key, tuple))
    )


def near(low: int | None, high: int | None, by: int) -> Range:
    """A range moved; ends that are far away are the same for all that are further, so that there is an
    end to states where k goes on beyond what it is compared with."""
    far = FARTHEST * abs(by)
    low, high = (None if end is None else end + by for end in (low, high))
    return (
        None if low is None or (far and low < -far) else min(low, far) if far else low,
        None if high is None or (far and high > far) else max(high, -far) if far else high,
    )


def larger(one: int | None, other: int) -> int:
    """The larger of two lower ends."""
    return other if one is None else max(one, other)


def smaller(one: int | None, other: int) -> int:
    """The smaller of two upper ends."""
    return other if one is None else min(one, other)
