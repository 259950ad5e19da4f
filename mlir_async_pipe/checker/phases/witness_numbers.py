"""Numbers of a kernel with which a path is taken, if there are such numbers.

    n - 64 k in [1, 64], k = 1 mod 6        k = 1, n = 65; k = 1, n = 66; k = 7, n = 449; …

What a path knows is less than what led to it: of quotients of unknowns, of two loops with one
bound or of three conditions in a circle no numbers may be left. So these are tried: the kernel is
followed with them (`followed_kernel`), and only a fault that is met then is told for certain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import count, islice, zip_longest
from itertools import product as pairs
from math import prod
from typing import NamedTuple

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import Atom, Form
from mlir_async_pipe.checker.phases.kinds_of_unknowns import RATIO, Range, first_range
from mlir_async_pipe.checker.phases.path_numbers import PathNumbers
from mlir_async_pipe.checker.phases.path_state import PathState
from mlir_async_pipe.checker.phases.ranges_of_sums import Direction
from mlir_async_pipe.checker.phases.unknown_products import factors, mentions, parts_of, product

Numbers = Mapping[Atom, int]


class Conditions(NamedTuple):
    """What chosen numbers must fit, and what unknowns without conditions are multiples of."""

    ranges: Mapping[Direction, Range]
    residues: Mapping[Atom, tuple[int, int]]
    grains: Mapping[Atom, int]


# Steps away from the smallest numbers that are gone, and numbers that are chosen in all: conditions that
# no numbers fit would be tried with each choice of all others.
FARTHEST = 12
CHOICES = 4000
# Ids, and what they are below.
_IDS = {"block": "grid_size", "cluster": "cluster_count"}
# What a path counts by, or takes arguments apart into: these are chosen first.
_COUNTING = ("loop", "trip", "rest", "quotient", "remainder", RATIO)


def witnesses(state: PathState, kernel: PathNumbers) -> Iterator[dict[Atom, int]]:
    """The unknowns of a kernel as numbers with which the path to a state may be taken, small ones
    first. By turns the quotients of unknowns are chosen, and the ends of loops from these, or the
    ends themselves."""
    atoms = {atom for direction in state.known.ranges for atom, _ in direction}
    ratios = sorted((atom for atom in atoms if atom.kind == RATIO), key=repr)
    ways = [_choices(state, kernel, chosen) for chosen in ([ratios, []] if ratios else [[]])]
    return (
        numbers for together in zip_longest(*ways) for numbers in together if numbers is not None
    )


def _choices(
    state: PathState, kernel: PathNumbers, ratios: list[Atom]
) -> Iterator[dict[Atom, int]]:
    known, given = state.known, kernel.unknowns
    made = {number: _made_of(number, atom, state, ratios) for number, atom in given.items()}
    ranges = {
        direction: ends
        for direction, ends in {**known.past, **known.ranges}.items()
        if all(_is_free(atom) or atom in ratios for atom, _ in direction)
    }
    wanted = {part for form in made.values() for atom, _ in form.terms for part in factors(atom)}
    wanted |= {atom for direction in ranges for atom, _ in direction}
    ranges |= _ids_within_sizes(wanted)
    order = sorted(wanted, key=lambda atom: (atom.kind not in _COUNTING, repr(atom)))
    conditions, choices = Conditions(ranges, known.residues, kernel.divisors()), count(1)
    for far in range(FARTHEST + 1):
        for numbers in _chosen(order, conditions, {}, far, choices):
            yield {given[n]: _number(form, numbers) for n, form in made.items()}


def _made_of(number: int, atom: Atom, state: PathState, ratios: list[Atom]) -> Form:
    """What the kernel was given: an unknown, or quotients and a remainder of one taken apart; the end of
    a loop whose step s is not known as its beginning, 1 and q s."""
    value, own = state.env.get(number), forms.of_atom(atom)
    if isinstance(value, Form):
        return value
    for quotient in {inner for direction in state.known.ranges for inner, _ in direction}:
        if quotient.kind == "quotient" and quotient.key[0] == atom:  # type: ignore[index]
            return Form(0, frozenset({(quotient, quotient.key[1])}))  # type: ignore[index]
    for ratio in ratios:
        total, step = parts_of(ratio)
        rest = forms.subtract(own, total)
        if not mentions(rest, atom) and not mentions(step, atom):
            return forms.add(product(forms.of_atom(ratio), step), rest)
    return own


def _is_free(atom: Atom) -> bool:
    """Whether nothing but its conditions says what an unknown is."""
    own = isinstance(atom.key, int) or (atom.kind == "size" and isinstance(atom.key[0], str))  # type: ignore[index]
    return atom.kind in _COUNTING[:-1] or (own and atom.kind in ("size", "unknown", "bit"))


def _ids_within_sizes(atoms: set[Atom]) -> dict[Direction, Range]:
    """Ids of blocks are below the size of the grid, those of clusters below their number."""
    found: dict[Direction, Range] = {}
    for axis, (block, grid) in pairs(range(3), _IDS.items()):
        one, size = Atom("size", (block, axis)), Atom("size", (grid, axis))
        if one in atoms and size in atoms:
            found[frozenset({(size, 1), (one, -1)})] = 1, None
    return found


def _chosen(
    order: list[Atom],
    conditions: Conditions,
    numbers: dict[Atom, int],
    far: int,
    choices: Iterator[int],
) -> Iterator[dict[Atom, int]]:
    """Numbers for the unknowns in `order` beside those chosen already, `far` steps from the smallest
    ones together; `choices` counts them."""
    if not order:
        if not far:
            yield numbers
        return
    atom, rest = order[0], order[1:]
    ends = _ends(atom, conditions.ranges, numbers)
    for position, number in enumerate(islice(_candidates(atom, ends, conditions), far + 1)):
        if next(choices) > CHOICES:
            return
        yield from _chosen(rest, conditions, {**numbers, atom: number}, far - position, choices)


def _ends(atom: Atom, ranges: Mapping[Direction, Range], numbers: Numbers) -> Range:
    """What is left for an unknown by the conditions on it and chosen numbers."""
    low, high = first_range(atom)
    for direction, (first, last) in ranges.items():
        terms = dict(direction)
        by = terms.pop(atom, 0)
        if not by or any(other not in numbers for other in terms):
            continue
        sum_ = sum(factor * numbers[other] for other, factor in terms.items())
        if by < 0:
            first, last = last, first
        # by x + s >= f: x >= ceil((f - s) / by); with by below 0 the ends are the other way round.
        if first is not None:
            least = -((sum_ - first) // by)
            low = least if low is None else max(low, least)
        if last is not None:
            most = (last - sum_) // by
            high = most if high is None else min(high, most)
    return low, high


def _candidates(atom: Atom, ends: Range, conditions: Conditions) -> Iterable[int]:
    """Numbers in a range with a residue, from the smallest one; of one without conditions one, two,
    three times what it is divided by."""
    low, high = ends
    if not low and high is None and atom not in conditions.residues and not _from_zero(atom):
        grain = conditions.grains.get(atom, 1)
        return count(grain, grain)
    residue, modulus = conditions.residues.get(atom, (0, 1))
    if low is None and high is not None:
        return count(high - (high - residue) % modulus, -modulus)
    first = (low or 0) + (residue - (low or 0)) % modulus
    return count(first, modulus) if high is None else range(first, high + 1, modulus)


def _from_zero(atom: Atom) -> bool:
    """Whether an unknown is a count or an id: 0 tells the most. Of sizes and steps 1 does."""
    return atom.kind in _COUNTING or (isinstance(atom.key, tuple) and atom.key[0] in _IDS)


def _number(form: Form, numbers: Numbers) -> int:
    return form.constant + sum(
        coefficient * prod(numbers[part] for part in factors(atom))
        for atom, coefficient in form.terms
    )
