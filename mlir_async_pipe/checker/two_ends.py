"""Two groups of accesses that touch one place: their digits in a mixed radix as constraints.

    64 trips (j - j') + 64 (i - i') + (t - t') = 0      j - j' = 0, i - i' = 0, |t - t'| <= 0

Only for dimensions with numbers that all blocks have alike: constants need no radix. The size of the
grid is one, and the id of a block is below it: block + size (2 j + group) has the digits block and
2 j + group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations_with_replacement, product

from mlir_async_pipe.checker import forms, mixed_radix
from mlir_async_pipe.checker.differences import Constraint, Differences, at_end, width_of
from mlir_async_pipe.checker.footprints import Group, alone, joint_launch
from mlir_async_pipe.checker.forms import ANYTHING, Atom, Form
from mlir_async_pipe.checker.grid_blocks import grid_size_of, is_of_launch
from mlir_async_pipe.checker.mixed_radix import Ends, Polynomial, Terms, Unknown
from mlir_async_pipe.checker.operators import substitute
from mlir_async_pipe.checker.thread_grid import Threads

# Accesses of two groups are compared one by one where there are no more pairs.
MOST_PAIRS = 64
# Stands for 1 in sums with a constant.
ONE = Atom("any", (("one",), ANYTHING))

Range = tuple[int | None, int | None]


@dataclass(frozen=True)
class TwoEnds:
    """Two groups; `is_fixed` tells the numbers that both have alike, `range_of` bounds an unknown
    of one group, `limits` are what iterations of loops in summary code are below."""

    a: Group
    b: Group
    is_fixed: Callable[[Atom], bool]
    range_of: Callable[[Atom, Group], Range]
    limits: Mapping[Atom, Form | None]

    def constrain(self, dimension: int, found: Differences) -> list[Constraint] | None:
        """Add what is left of one dimension; what its digits say besides. None where a radix says
        nothing about it."""
        terms = self._terms(dimension)
        low, high = width_of(self.a.bounds[dimension], self.b.bounds[dimension])
        if terms is None or low is None or high is None:
            return None
        # start of a - start of b: between minus the length of b and that of a.
        least, most = 1 - self.a.spans[dimension] - high, self.b.spans[dimension] - 1 - low
        split = mixed_radix.digits(terms, least, most, self._ends())
        if split.apart:
            found.constraints.append(Constraint((), 1, 1))
            return []
        if any(fixed for fixed, _ in split.rest):
            return None
        rest = {unknown: c for (_, unknown), c in split.rest.items()}
        found.constraints.append(self._constraint(rest, least, most, found))
        return [self._constraint(digit, 0, 0, found) for digit in split.zero]

    def of_equal(self, one: Form, other: Form, found: Differences) -> list[Constraint]:
        """What the digits of two forms say that are one number."""
        terms = mixed_radix.difference(one, other, self._ends())
        if terms is None:
            return []
        split = mixed_radix.digits(terms, 0, 0, self._ends())
        if split.apart:
            return [Constraint((), 1, 1)]
        digits = list(split.zero)
        if not any(fixed for fixed, _ in split.rest):
            digits.append({unknown: c for (_, unknown), c in split.rest.items()})
        return [self._constraint(digit, 0, 0, found) for digit in digits]

    def _constraint(
        self, total: dict[Unknown | None, int], low: int, high: int, found: Differences
    ) -> Constraint:
        """low <= total <= high"""
        factors = []
        for unknown, factor in total.items():
            name = ONE if unknown is None else _name(unknown)
            found.bounds.setdefault(name, (1, 1) if unknown is None else self._range(unknown))
            factors.append((name, factor))
        return Constraint(tuple(factors), low, high)

    def one_by_one(self, threads: Threads) -> list[tuple[Group, Group]]:
        """The pairs of single accesses, each with what its own path knows of the numbers that
        both have alike; none where that tells no more, or they are many."""
        mixed = any(self._terms(d) for d in range(len(self.a.shared)))
        sizes = len(self.a.members), len(self.b.members)
        if not mixed or not 1 < sizes[0] * sizes[1] <= MOST_PAIRS:
            return []
        ours = alone(self.a, threads)
        if self.a is self.b:
            return list(combinations_with_replacement(ours, 2))
        return list(product(ours, alone(self.b, threads)))

    def _terms(self, dimension: int) -> Terms | None:
        """The difference of both starts, if it has fixed numbers."""
        launch = joint_launch(self.a.launch, self.b.launch)
        exact: dict[Atom, Form] = {
            atom: Form(known.exact) for atom, known in launch.items() if known.exact is not None
        }
        starts = [
            substitute(group.shared[dimension], exact, {}) if exact else group.shared[dimension]
            for group in (self.a, self.b)
        ]
        terms = mixed_radix.difference(starts[0], starts[1], self._ends())
        return terms if _mentions(starts, self.is_fixed) else None

    def _ends(self) -> Ends:
        launch = joint_launch(self.a.launch, self.b.launch)

        def least(atom: Atom) -> int | None:
            known = forms.bounds(forms.of_atom(atom), launch)[0]
            # What runs has a grid and blocks of at least one.
            return max(known or 0, 1) if is_of_launch(atom) else known

        return Ends(self.is_fixed, least, self._limits)

    def _range(self, unknown: Unknown) -> Range:
        if unknown.end is not None:
            return self.range_of(unknown.atom, (self.a, self.b)[unknown.end])
        return width_of(self.range_of(unknown.atom, self.a), self.range_of(unknown.atom, self.b))

    def _limits(self, unknown: Unknown) -> tuple[list[Polynomial], list[Polynomial]]:
        """What an unknown is never below and never above: sums of fixed numbers, then a number."""
        if unknown.end is not None:
            return self._limits_of(unknown.atom, (self.a, self.b)[unknown.end])
        (low, high), (other_low, other_high) = (
            self._limits_of(unknown.atom, group) for group in (self.a, self.b)
        )
        return _each_difference(low, other_high), _each_difference(high, other_low)

    def _limits_of(self, atom: Atom, group: Group) -> tuple[list[Polynomial], list[Polynomial]]:
        lows: list[Polynomial] = []
        highs: list[Polynomial] = []
        below = self.limits.get(atom) or grid_size_of(atom)
        if below is not None:
            self._add_limit(highs, below, 1, -1)
        for sum_, known in group.facts.items():
            sign = dict(forms.terms_of(sum_)).get(atom, 0) if sum_.kind == "sum" else 0
            if abs(sign) != 1:
                continue
            rest = Form(0, forms.terms_of(sum_) - {(atom, sign)})
            for number, bounded in ((known.low, lows), (known.high, highs)):
                if number is not None:
                    # rest + atom >= number, and rest - atom >= number.
                    mine = bounded if sign > 0 else (highs if bounded is lows else lows)
                    self._add_limit(mine, rest, -sign, sign * number)
        low, high = self.range_of(atom, group)
        for number, bounded in ((low, lows), (high, highs)):
            if number is not None:
                bounded.append({(): number} if number else {})
        return lows, highs

    def _add_limit(self, limits: list[Polynomial], form: Form, factor: int, number: int) -> None:
        """factor * form + number, if all numbers in it are fixed."""
        polynomial = mixed_radix.expanded(form)
        if polynomial is not None and all(self.is_fixed(a) for p in polynomial for a in p):
            limits.append(mixed_radix.plus({(): number} if number else {}, polynomial, factor))


def _name(unknown: Unknown) -> Atom:
    """The atom that stands for an unknown among differences."""
    if unknown.end is None:
        return unknown.atom
    return at_end(unknown.end, unknown.atom)


def _each_difference(a: list[Polynomial], b: list[Polynomial]) -> list[Polynomial]:
    if not a or not b:
        return []
    return [mixed_radix.plus(a[0], b[0], -1), mixed_radix.plus(a[-1], b[-1], -1)]


def _mentions(starts: list[Form], is_fixed: Callable[[Atom], bool]) -> bool:
    return (
        any(
            is_fixed(atom)
            for start in starts
            for atom in forms.atoms_of(start)
            if atom.kind == "symbol"
        )
        or starts[0] != starts[1]
    )
