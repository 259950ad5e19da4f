"""What a path knows of sums of unknowns: ranges of their differences, and residues.

    n - k        [1, …) in the body, [0, 0] after the last iteration
    k            7 mod 12

A range is kept for each *direction*, a sum without constant and common divisor, so that a
condition on n - k - 2 and one on 64 n - 64 k say something of each other. A loop's number k goes
on by moving the ranges of all directions that hold it: their number stays finite, since they are
cut only at the numbers that conditions name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from math import gcd
from operator import and_
from typing import Any

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import (
    PRODUCT,
    ZERO,
    Atom,
    AtomRange,
    Form,
    atoms_within,
    factors,
    multiplied,
    of_product,
)
from mlir_async_pipe.checker.precision import OpenError, RefineError
from mlir_async_pipe.facts.values import sums

Direction = frozenset[tuple[Atom, int]]
# Slots times two, usually; of larger ones nothing is kept.
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
    that nothing asks for any more. `aligned`: by what addresses of buffers can be divided. `beside_roles`: what one role knows of a number decides where another
    one finds it."""

    ranges: dict[Direction, Range] = field(default_factory=dict)
    residues: dict[Atom, tuple[int, int]] = field(default_factory=dict)
    past: dict[Direction, Range] = field(default_factory=dict)
    beside_roles: bool = False
    aligned: dict[Atom, int] = field(default_factory=dict)

    def copy(self) -> Knowledge:
        return replace(self, ranges=dict(self.ranges), residues=dict(self.residues))

    def key(self) -> Hashable:
        return frozenset(self.ranges.items()), frozenset(self.residues.items())

    def get(self, atom: Atom) -> AtomRange | None:
        """What is known of an unknown, or of a direction by the atom of this sum, as `forms` asks for it; None of operators and
        products of which no condition says more than what they are made of."""
        if atom.kind == "sum":
            ends = self.ranges.get(forms.terms_of(atom))
            return None if ends is None else AtomRange(*ends)
        known, first = self.ranges.get(frozenset({(atom, 1)})), first_range(atom)
        if known is None and atom.kind in ("call", PRODUCT):
            return None
        low, high = known or first
        return AtomRange(low, first[1] if high is None else high, *self.residues.get(atom, (0, 1)))

    def bounds(self, form: Form) -> Range:
        """The least and the largest number that a form may be."""
        return forms.bounds(form, self)

    def at_least_one(self, form: Form) -> bool:
        """Whether a form is 1 or more. Raises OpenError."""
        form = self.without_factors(form)
        for same in (form, self.coarse(form)):
            low, high = self.bounds(same)
            if low is not None and low >= 1:
                return True
            if high is not None and high <= 0:
                return False
        raise OpenError(same)

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
            low, c = forms.knowledge(atom, self).low, form.constant
            if low is None or low < max(c, 1 - c):
                break
            form = forms.add(without_factor(form, atom), Form(int(c >= 1)))
        return form

    def parts(self, form: Form, by: int) -> tuple[Form, int, int] | None:
        """A form as `by` times a form without constant, plus what is from low to high; None if that says nothing."""
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
        direction, cuts = self._cut(form)
        found = []
        for ends in cuts:
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
            if residue is not None and AtomRange(low, high, residue, modulus).tightened().is_empty:
                return True
        return low > high

    def _within(self, direction: Direction) -> Range:
        """The range of a direction, and what its unknowns leave of it."""
        alone = sums.interval_of(Form(0, direction), lambda atom: forms.knowledge(atom, self))
        return sums.both(self.ranges[direction], alone)

    def suppose(self, form: Form) -> None:
        """A form is 1 or more, for else nobody says what happens."""
        direction, (ends, _) = self._cut(form)
        self.ranges[direction] = ends

    def _cut(self, form: Form) -> tuple[Direction, list[Range]]:
        direction, factor = _direction(form.terms)
        known = self.ranges.get(direction) or (
            self.bounds(Form(0, direction)) if len(direction) == 1 else OPEN
        )
        # factor * d + c >= 1, and factor * d + c <= 0.
        sides = (1 - form.constant, None), (None, -form.constant)
        return direction, [sums.both(known, sums.factor(side, factor)) for side in sides]

    def learn(self, form: Form, low: int | None, high: int | None) -> None:
        """A form is in a range, and nothing was known of its direction."""
        direction, factor = _direction(form.terms)
        assert abs(factor) == 1
        self.ranges[direction] = sums.scaled(sums.moved((low, high), -form.constant), factor)

    def residue(self, form: Form, modulus: int) -> int | None:
        """A form modulo a number, where it is known. Raises RefineError of the first unknown whose residue would be known by a
        larger modulus, whatever the others are."""
        return forms.residue_by(form, modulus, self._residue_of)

    def _residue_of(self, atom: Atom, modulus: int) -> int | None:
        residue, known = self.residues.get(atom, (None, modulus))
        if known % modulus == 0:
            return residue
        if modulus <= LARGEST_MODULUS:
            raise RefineError(modulus=modulus)
        return None

    def ask_residue(self, form: Form, by: int) -> None:
        """A remainder of a number of iterations is not kept as an unknown: it says how many slots apart roles are."""
        if not self.beside_roles or by > MOST_RESIDUES or len(form.terms) != 1:
            return
        ((atom, factor),) = form.terms
        if abs(factor) == 1 and atom.kind in ("size", "quotient") and atom not in self.residues:
            raise OpenError(atom, by)

    def with_residues(self, atom: Atom, modulus: int) -> list[Knowledge]:
        """What is known for each residue that an unknown may have."""
        alone, found = frozenset({(atom, 1)}), []
        for residue in range(modulus):
            one = self.supposing(atom, residue, modulus)
            one.ranges[alone] = forms.knowledge(atom, self).ends
            if not one._is_empty(alone):
                found.append(one)
        return found

    def supposing(self, atom: Atom, residue: int, modulus: int) -> Knowledge:
        one = self.copy()
        one.residues[atom] = residue, modulus
        return one

    def beside(self, atom: Atom) -> set[Atom]:
        """The unknowns of whose sum or difference with one something is known."""
        pairs = (dict(d) for d in self.ranges if len(d) == 2)
        return {other for pair in pairs if atom in pair for other in pair} - {atom}

    def learn_residue(self, form: Form, modulus: int) -> None:
        """A form is one number: of the unknown in it whose residue is not known it says it."""
        low, high = self.bounds(form)
        unknown = [
            (atom, c)
            for atom, c in form.terms
            if atom not in self.residues
            and (atom.kind != "call" or self.residue(forms.of_atom(atom), modulus) is None)
        ]
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
            if not mentions(Form(0, direction), atom)
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


# What the kinds of unknowns on a path say of them: how small they may be, how long they are the same.
#
# size        an argument or a size: 0 or more, as long as the kernel runs
# loop        the number of an iteration now: 0 or more
# ratio       a quotient, rounded down, of a number of 0 or more by one of 1 or more

Range = sums.Interval
OPEN = sums.ANYTHING
RATIO = "ratio"
# Ends of ranges are distinguished up to so many iterations.
FARTHEST = 128


def first_range(atom: Atom) -> Range:
    """What an atom may be before any condition: sizes, ids and iterations from 0 on, bits 0 or 1."""
    key: Any = atom.key
    match atom.kind:
        case "size" | "carried" | "loop" | "ratio":
            return 0, None
        case "trip":
            return 0, key[1]
        case "bit":
            return 0, 1
        case "rest":
            return None, key[1]
        case "remainder":
            return 0, key[1] - 1
    return OPEN


def is_made_of(atom: Atom, atoms: set[Atom]) -> bool:
    """Whether an unknown is named by some others only, and by ids and sizes of the launch and answers of tests."""
    return all(
        inner in atoms
        or len(atoms_within(inner)) > 1
        or (inner.kind in ("size", "bit") and isinstance(inner.key, tuple))
        for inner in atoms_within(atom)
    )


def stays(atom: Atom) -> bool:
    """Whether an unknown is the same number as long as the kernel runs."""
    if isinstance(atom.key, int):
        return atom.kind in ("size", "unknown", "bit")
    return atom.kind in ("quotient", "remainder", "size")


def near(low: int | None, high: int | None, by: int) -> Range:
    """A range moved; ends that are far away are the same for all that are further, so that there is an
    end to states where k goes on beyond what it is compared with."""
    limit = FARTHEST * abs(by)
    low, high = sums.moved((low, high), by)
    return (
        None if low is None or (limit and low < -limit) else min(low, limit) if limit else low,
        None if high is None or (limit and high > limit) else max(high, -limit) if limit else high,
    )


# Products of unknowns in sums of them: the bounds of a loop whose step s is not known.
#
# lb + k s < lb + (q + 1 - 2) s        s q - s k - s is 1 or more where q - k - 1 is, as s is
# an iteration later                   what was k s is k s - s


def parts_of(atom: Atom) -> tuple[Form, ...]:
    """The forms that an atom is named by."""
    return atom.key  # type: ignore[return-value]


@lru_cache(maxsize=1 << 12)
def common_factors(form: Form) -> tuple[Atom, ...]:
    """The unknowns that each term of a sum is a multiple of."""
    each = [Counter(factors(atom)) for atom, _ in form.terms]
    return tuple(reduce(and_, each).elements()) if each else ()


def without_factor(form: Form, atom: Atom) -> Form:
    """The terms of a sum, of each of which `atom` is a factor, divided by it."""
    made = ZERO
    for term, coefficient in form.terms:
        left = list(factors(term))
        left.remove(atom)
        made = forms.add(made, forms.scale(of_product(left), coefficient))
    return made


@lru_cache(maxsize=1 << 12)
def exact_quotient(a: Form, b: Form) -> Form | None:
    """a / b if b is a multiple of one product, and all of a are multiples of that."""
    if b.constant or len(b.terms) != 1 or a.constant:
        return None
    ((divisor, by),) = b.terms
    if any(coefficient % by for _, coefficient in a.terms):
        return None
    for atom in factors(divisor) if a.terms else ():
        if atom not in common_factors(a):
            return None
        a = without_factor(a, atom)
    return Form(a.constant // by, frozenset((atom, c // by) for atom, c in a.terms))


@lru_cache(maxsize=1 << 14)
def moved(form: Form, atom: Atom, by: int) -> Form | None:
    """A form after an unknown grew by `by`: n - k is then n - k + by. None if that is no sum of products."""
    before = forms.add(forms.of_atom(atom), Form(-by))
    made: Form = Form(form.constant)
    for term, coefficient in form.terms:
        parts = factors(term)
        if atom not in parts:
            if mentions(forms.of_atom(term), atom):
                return None
            made = forms.add(made, Form(0, frozenset({(term, coefficient)})))
            continue
        whole: Form = Form(coefficient)
        for part in parts:
            whole = multiplied(whole, before if part == atom else forms.of_atom(part))
        made = forms.add(made, whole)
    return made


def mentions(form: Form, atom: Atom) -> bool:
    return atom in forms.atoms_of(form)
