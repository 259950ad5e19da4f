"""What a path knows of sums of unknowns: ranges of their differences, and residues.

    n - k        [1, …) in the body, [0, 0] after the last iteration
    k            7 mod 12

A range is kept for each *direction*, a sum without constant and common divisor, so that a
condition on n - k - 2 and one on 64 n - 64 k say something of each other. A loop's number k goes
on by moving the ranges of all directions that hold it: their number stays finite, since they are
cut only at the numbers that conditions name.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from math import gcd, prod

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import Atom, Form
from mlir_async_pipe.checker.phases.kinds_of_unknowns import (
    OPEN,
    Range,
    first_range,
    is_made_of,
    larger,
    near,
    smaller,
    stays,
)
from mlir_async_pipe.checker.phases.open_questions import (
    ModulusError,
    ResiduesError,
    UndecidedError,
)
from mlir_async_pipe.checker.phases.unknown_products import (
    PRODUCT,
    atoms_within,
    common_factors,
    factors,
    without_factor,
)

Direction = frozenset[tuple[Atom, int]]
# Slots times two, usually; of larger ones nothing is told.
LARGEST_MODULUS = 64
# A path for each remainder by slots times two.
MOST_RESIDUES = 16


@lru_cache(maxsize=1 << 14)
def _direction(terms: Direction) -> tuple[Direction, int]:
    """The direction of a sum, and what to multiply it with."""
    divisor = gcd(*(coefficient for _, coefficient in terms))
    first = min(terms, key=lambda term: repr(term[0]))
    factor = divisor if first[1] > 0 else -divisor
    return frozenset((atom, coefficient // factor) for atom, coefficient in terms), factor


@dataclass
class Knowledge:
    """The ranges and residues of one path. `past`: ranges that were known of numbers of the kernel
    that nothing asks for any more. `beside_roles`: what one role knows of a number decides where another
    one finds it."""

    ranges: dict[Direction, Range] = field(default_factory=dict)
    residues: dict[Atom, tuple[int, int]] = field(default_factory=dict)
    past: dict[Direction, Range] = field(default_factory=dict)
    beside_roles: bool = False

    def copy(self) -> Knowledge:
        """The same, to be changed on its own."""
        return Knowledge(dict(self.ranges), dict(self.residues), self.past, self.beside_roles)

    def key(self) -> Hashable:
        """What is equal for the same knowledge."""
        return frozenset(self.ranges.items()), frozenset(self.residues.items())

    def bounds(self, form: Form) -> Range:
        """The least and the largest number that a form may be."""
        if not form.terms:
            return form.constant, form.constant
        low, high = self._sum(form.terms)
        direction, factor = _direction(form.terms)
        known = self.ranges.get(direction)
        if known is not None:
            ends = known if factor > 0 else (known[1], known[0])
            first, last = (None if end is None else factor * end for end in ends)
            low = first if low is None else low if first is None else max(low, first)
            high = last if high is None else high if last is None else min(high, last)
        return (
            None if low is None else low + form.constant,
            None if high is None else high + form.constant,
        )

    def _sum(self, terms: Iterable[tuple[Atom, int]]) -> Range:
        low: int | None = 0
        high: int | None = 0
        for atom, coefficient in terms:
            ends = self._atom(atom)
            if coefficient < 0:
                ends = ends[1], ends[0]
            low = None if low is None or ends[0] is None else low + coefficient * ends[0]
            high = None if high is None or ends[1] is None else high + coefficient * ends[1]
        return low, high

    def _atom(self, atom: Atom) -> Range:
        known = self.ranges.get(frozenset({(atom, 1)}))
        if known is not None:
            return known[0], first_range(atom)[1] if known[1] is None else known[1]
        if atom.kind == "call":
            name, (operand, divisor) = forms.operator_of(atom)
            if name == "rem":
                return 0, divisor.constant - 1
            low, high = self.bounds(operand)
            by = divisor.constant
            return None if low is None else low // by, None if high is None else high // by
        if atom.kind == PRODUCT:
            lows = [
                low for low, _ in map(self._atom, factors(atom)) if low is not None and low >= 0
            ]
            return prod(lows) if len(lows) == len(factors(atom)) else None, None
        return first_range(atom)

    def at_least_one(self, form: Form) -> bool:
        """Whether a form is 1 or more. Raises UndecidedError."""
        form = self.without_factors(form)
        for same in (form, self.coarse(form)):
            low, high = self.bounds(same)
            if low is not None and low >= 1:
                return True
            if high is not None and high <= 0:
                return False
        raise UndecidedError(same)

    def coarse(self, form: Form) -> Form:
        """A form that is 1 or more exactly where this one is, without what is too small to matter:
        q - k + 1 for 64 q - 64 k + r + 1 with r from 0 to 63."""
        by = gcd(*(c for atom, c in form.terms if atom.kind != "remainder"))
        found = self.parts(form, by)
        if found is None:
            return form
        large, low, high = found
        # by D + s >= 1 for all s if D >= t; for none if D <= u.
        least, most = -((low - 1) // by), -high // by
        return forms.add(large, Form(1 - least)) if most == least - 1 else form

    def without_factors(self, form: Form) -> Form:
        """A form that is 1 or more exactly where this one is, without unknowns that all of it is a
        multiple of: of s g + c g, or g + 1, where s is large enough for c."""
        for atom in common_factors(form):
            low, c = self._atom(atom)[0], form.constant
            if low is None or low < max(c, 1 - c):
                break
            form = forms.add(without_factor(form, atom), Form(int(c >= 1)))
        return form

    def parts(self, form: Form, by: int) -> tuple[Form, int, int] | None:
        """A form as `by` times one without constant, plus what is from a least to a largest number;
        None if that is nothing else than the form, or not bounded."""
        if by < 2:
            return None
        large = frozenset((a, c // by) for a, c in form.terms if c % by == 0)
        small = frozenset((a, c) for a, c in form.terms if c % by)
        low, high = self.bounds(Form(form.constant, small))
        if not large or low is None or high is None:
            return None
        return Form(0, large), low, high

    def halves(self, form: Form) -> list[Knowledge]:
        """What is known where a form is 1 or more, and where it is not."""
        direction, ways = self._cut(form)
        found = []
        for ends in ways:
            half = self.copy()
            half.ranges[direction] = ends
            if half._is_open(direction):
                found.append(half)
        return found

    def _is_open(self, direction: Direction) -> bool:
        """Whether a number is left in a direction just learned, and in sums with that: of q at most 1
        in the first iteration q - k is, too. Of a later k less is known."""
        ((atom, _), *more) = direction
        others = [other for other in self.ranges if len(other) > 1 and atom in dict(other)]
        for other in [] if more else others:
            self.ranges[other] = self._within(other)
        return not any(map(self._is_empty, [direction, *others]))

    def _is_empty(self, direction: Direction) -> bool:
        """Whether no number of the residue of a direction is in its range."""
        low, high = self.ranges[direction]
        if low is None or high is None:
            return False
        for modulus in {modulus for _, modulus in self.residues.values()}:
            residue = self.residue(Form(0, direction), modulus)
            if residue is not None and low + (residue - low) % modulus > high:
                return True
        return low > high

    def _within(self, direction: Direction) -> Range:
        """The range of a direction, and what its unknowns leave of it."""
        (low, high), (first, last) = self.ranges[direction], self._sum(direction)
        low = low if first is None else larger(low, first)
        return low, high if last is None else smaller(high, last)

    def suppose(self, form: Form) -> None:
        """A form is 1 or more, for else nobody says what happens."""
        direction, (ends, _) = self._cut(form)
        self.ranges[direction] = ends

    def _cut(self, form: Form) -> tuple[Direction, list[Range]]:
        direction, factor = _direction(form.terms)
        low, high = self.ranges.get(direction) or (
            self._atom(next(iter(direction))[0]) if len(direction) == 1 else OPEN
        )
        # factor * d + c >= 1: d >= ceil((1 - c) / factor), for a factor below 0 d <= floor(…).
        least = -((form.constant - 1) // factor) if factor > 0 else (1 - form.constant) // factor
        if factor > 0:
            ways = [(larger(low, least), high), (low, smaller(high, least - 1))]
        else:
            ways = [(low, smaller(high, least)), (larger(low, least + 1), high)]
        return direction, ways

    def learn(self, form: Form, low: int | None, high: int | None) -> None:
        """A form is in a range, and nothing was known of its direction."""
        direction, factor = _direction(form.terms)
        assert abs(factor) == 1
        ends = [None if end is None else end - form.constant for end in (low, high)]
        if factor < 0:
            ends = [None if end is None else -end for end in reversed(ends)]
        self.ranges[direction] = ends[0], ends[1]

    def residue(self, form: Form, modulus: int) -> int | None:
        """The residue of a form, None if it is not known."""
        total = form.constant
        for atom, coefficient in form.terms:
            needed = modulus // gcd(coefficient, modulus)
            if needed == 1:
                continue
            known = self._residue_of(atom, needed)
            if known is None:
                return None
            total += coefficient * known
        return total % modulus

    def _residue_of(self, atom: Atom, modulus: int) -> int | None:
        if atom in self.residues:
            residue, known = self.residues[atom]
            if known % modulus and modulus <= LARGEST_MODULUS:
                raise ModulusError(modulus)
            return residue % modulus if known % modulus == 0 else None
        if atom.kind != "call":
            return None
        name, (operand, divisor) = forms.operator_of(atom)
        by = divisor.constant
        if name == "rem":
            return self.residue(operand, modulus) if by % modulus == 0 else None
        inner = self.residue(operand, by * modulus)
        return None if inner is None else inner // by % modulus

    def ask_residue(self, form: Form, by: int) -> None:
        """The remainder of a number of iterations says how many slots another role is on: it is not kept
        as an unknown. Raises ResiduesError."""
        if not self.beside_roles or by > MOST_RESIDUES or len(form.terms) != 1:
            return
        ((atom, factor),) = form.terms
        if abs(factor) == 1 and atom.kind in ("size", "quotient") and atom not in self.residues:
            raise ResiduesError(atom, by)

    def with_residues(self, atom: Atom, modulus: int) -> list[Knowledge]:
        """What is known for each residue that an unknown may have."""
        alone, found = frozenset({(atom, 1)}), []
        for residue in range(modulus):
            one = self.copy()
            one.ranges[alone] = self._atom(atom)
            one.residues[atom] = residue, modulus
            if not one._is_empty(alone):
                found.append(one)
        return found

    def learn_residue(self, form: Form, modulus: int) -> None:
        """A form is one number: of the unknown in it whose residue is not known it says it."""
        low, high = self.bounds(form)
        unknown = [(a, c) for a, c in form.terms if self._residue_of(a, modulus) is None]
        if low is None or low != high or len(unknown) != 1 or abs(unknown[0][1]) != 1:
            return
        ((atom, factor),) = unknown
        rest = Form(form.constant - low, form.terms - {(atom, factor)})
        residue = self.residue(rest, modulus)
        if residue is not None and atom.kind != "call":
            self.residues[atom] = -factor * residue % modulus, modulus

    def forget(self, atom: Atom) -> None:
        """An unknown gets another value: nothing is known of it."""
        self._drop_residues(atom)
        self.ranges = {
            direction: known
            for direction, known in self.ranges.items()
            if not any(atom in atoms_within(inner) for inner, _ in direction)
        }

    def keep(self, atoms: set[Atom]) -> None:
        """Only what is made of some unknowns, and of ids and sizes of the launch, is asked for later."""
        over = {d for d in self.ranges if not all(is_made_of(atom, atoms) for atom, _ in d)}
        if over:
            self.past = {
                **self.past,
                **{d: self.ranges[d] for d in over if all(stays(atom) for atom, _ in d)},
            }
            self.ranges = {d: known for d, known in self.ranges.items() if d not in over}
        if not all(is_made_of(atom, atoms) for atom in self.residues):
            self.residues = {a: r for a, r in self.residues.items() if is_made_of(a, atoms)}

    def advance(self, atom: Atom, step: int) -> None:
        """An unknown becomes itself plus `step`."""
        alone = frozenset({(atom, 1)})
        moved: dict[Direction, Range] = {}
        for direction, (low, high) in self.ranges.items():
            if any(inner != atom and atom in atoms_within(inner) for inner, _ in direction):
                continue
            by = step * dict(direction).get(atom, 0)
            # What is left of a loop gets less; its number stays above the first one.
            if direction == alone and atom.kind == "trip":
                moved[direction] = low, first_range(atom)[1]
                continue
            if direction == alone and atom.kind != "rest":
                continue
            moved[direction] = near(low, high, by)
        self.ranges = moved
        own = self.residues.get(atom)
        self._drop_residues(atom)
        if own is not None:
            residue, modulus = own
            self.residues[atom] = (residue + step) % modulus, modulus

    def _drop_residues(self, atom: Atom) -> None:
        self.residues = {
            other: known
            for other, known in self.residues.items()
            if atom not in atoms_within(other)
        }
