"""Two groups of accesses that touch one place: which differences between their unknowns let both do so.

    C[128 by + row, 128 bx + col]     row, col < 128, and by', bx' in the other block:
    128 (by - by') + row - row' = 0   |row - row'| <= 127, so by = by'

Each dimension is one constraint: low <= sum of factor * difference <= high. Bounds of one
unknown follow from those of the others; what can only be 0 is equal at both ends. Where
x div c and x mod c are equal to y div c and y mod c, x is y: what follows from that is asked for
(`of_equal`). Of a dimension with numbers that all blocks have alike the digits in a mixed radix are constraints.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from math import gcd, prod
from typing import NamedTuple

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.footprints import AccessGroup, alone, joint_launch
from mlir_async_pipe.checker.forms import ANYTHING, Atom, Form, substitute
from mlir_async_pipe.checker.grid_blocks import grid_size_of, is_of_launch
from mlir_async_pipe.checker.thread_grid import Threads
from mlir_async_pipe.facts.values import sums
from mlir_async_pipe.facts.values.sums import Interval

# Each round carries bounds from one dimension to the others.
ROUNDS = 8
# Quotients, and the remainders that belong to them.
REMAINDERS = {"div": "mod", "quotient": "remainder"}
PARTS = frozenset({*REMAINDERS, *REMAINDERS.values()})
# An unknown of the first end and one of the second.
Pair = tuple[Atom, Atom]
# What is tried one by one: neighbours in each of two dimensions.
MANY_SUMS = 9


class Constraint(NamedTuple):
    """low <= sum of factor * unknown <= high; None is no bound."""

    factors: tuple[tuple[Atom, int], ...]
    low: int | None
    high: int | None

    @property
    def ends(self) -> Interval:
        return self.low, self.high


@dataclass
class Differences:
    """The differences of unknowns, each with its bounds (None: none on that side). `is_fixed`
    tells the numbers that both ends have alike; `of_equal` is given a form of each end that are one
    number, and gives what follows from that, with bounds of the unknowns in it."""

    is_fixed: Callable[[Atom], bool]
    of_equal: Callable[[Form, Form, Differences], list[Constraint]]
    bounds: dict[Atom, Interval] = field(default_factory=dict)
    constraints: list[Constraint] = field(default_factory=list)

    def solve(self) -> bool:
        """Narrow all bounds; False if no differences satisfy the constraints."""
        joined: set[Pair] = set()
        for _ in range(ROUNDS):
            before = dict(self.bounds), len(self.constraints)
            if not all(self._narrow(constraint) for constraint in self.constraints):
                return False
            self._join_parts(joined)
            if (self.bounds, len(self.constraints)) == before:
                break
        return True

    def is_zero(self, atom: Atom) -> bool:
        """Whether both ends have the same value."""
        return self.bounds.get(atom) == (0, 0)

    def sums(self, number: int) -> list[tuple[int, ...]] | None:
        """The numbers that the sums of the first `number` constraints may be; None for many.

        512 (k - trips) between -1535 and -513 is -1024, whatever k and trips are.
        """
        found: list[list[int]] = []
        for constraint in self.constraints[:number]:
            low, high = sums.both(constraint.ends, self._sum(constraint.factors))
            step = gcd(*(factor for _, factor in constraint.factors))
            if not step:
                found.append([0])
                continue
            if low is None or high is None or (high - low) // step > MANY_SUMS:
                return None
            found.append(list(range(-(-low // step) * step, high + 1, step)))
        total = prod(map(len, found))
        return None if total > MANY_SUMS else list(itertools.product(*found))

    def _sum(self, factors: tuple[tuple[Atom, int], ...]) -> Interval:
        return sums.interval_of(Form(0, frozenset(factors)), self.bounds.__getitem__)

    def _narrow(self, constraint: Constraint) -> bool:
        for atom, factor in constraint.factors:
            others = tuple(term for term in constraint.factors if term[0] != atom)
            left = sums.difference(constraint.ends, self._sum(others))
            first, last = self.bounds[atom] = sums.both(
                self.bounds[atom], sums.factor(left, factor)
            )
            if first is not None and last is not None and first > last:
                return False
        low, high = constraint.ends
        holds_zero = (low is None or low <= 0) and (high is None or high >= 0)
        return bool(constraint.factors) or holds_zero

    def _join_parts(self, joined: set[Pair]) -> None:
        """Where quotients and remainders of two forms by one number are equal, the forms are."""
        equal = self._equal_parts()
        for one, other in equal:
            (name, (x, divisor)), (rest, (y, by)) = forms.operator_of(one), forms.operator_of(other)
            if (one, other) in joined or name not in REMAINDERS or (name, divisor) != (rest, by):
                continue
            if (_rest(name, x, divisor), _rest(name, y, divisor)) not in equal:
                continue
            if not all(self.is_fixed(part) for part, _ in divisor.terms):
                continue
            joined.add((one, other))
            if x == y:
                own = tuple(term for term in x.terms if not self.is_fixed(term[0]))
                for part, _ in own:
                    self.bounds.setdefault(part, (None, None))
                self.constraints.append(Constraint(own, 0, 0))
            self.constraints += self.of_equal(x, y, self)

    def _equal_parts(self) -> dict[Pair, None]:
        """Quotients and remainders of the first end with those of the second that are one number."""
        found: dict[Pair, None] = {(a, a): None for a in self.bounds if self.is_zero(a)}
        for constraint in self.constraints:
            if len(constraint.factors) != 2 or None in constraint.ends:
                continue
            (one, factor), (other, other_factor) = constraint.factors
            ends = {number: atom for number, atom in (end_of(one), end_of(other))}
            # Between two multiples of one number there is only 0.
            zero = all(abs(end or 0) < abs(factor) for end in constraint.ends)
            if zero and factor == -other_factor and ends.keys() == {0, 1}:
                found[ends[0], ends[1]] = None
        return {pair: None for pair in found if all(forms.operator_of(a)[0] in PARTS for a in pair)}


def at_end(number: int, atom: Atom) -> Atom:
    """An unknown of the first end (0) or the second one (1) only."""
    return Atom("any", ((number, atom), forms.ANYTHING))


def end_of(unknown: Atom) -> tuple[int, Atom]:
    """The end and the unknown of it; -1 if it is what both ends differ by."""
    if unknown.kind == "any":
        name = unknown.key[0]  # type: ignore[index]
        if len(name) == 2 and isinstance(name[1], Atom):
            return name
    return -1, unknown


def _rest(name: str, *arguments: Form) -> Atom:
    return Atom("call", (REMAINDERS[name], arguments))


# The digits of two accesses that touch one place, in a mixed radix.
#
#     64 trips (j - j') + 64 (i - i') + (t - t') = 0      j - j' = 0, i - i' = 0, |t - t'| <= 0
#
# Only for dimensions with numbers that all blocks have alike: constants need no radix. The size of the
# grid is one, and the id of a block is below it: block + size (2 j + group) has the digits block and
# 2 j + group. Equal numbers have equal digits:
#
#     (block * trips + i) * 64 + t        digits block, i < trips and t < 64
#     64 trips (b - b') + 64 (i - i') + (t - t') = 0
#         |64 (i - i') + (t - t')| <= 64 (trips - 1) + 63 < 64 trips, so b = b', and so on
#
# The difference of two subscripts is a sum of products of numbers that all blocks have alike
# (trips) and unknowns of either end. A radix R splits it into R * Q + S; where |S| < R is proven
# for every such number, Q = 0. Bounds of unknowns may be such numbers themselves: i <= trips - 1.

# Accesses of two groups are compared one by one where there are no more pairs.
MOST_PAIRS = 64
# Stands for 1 in sums with a constant.
ONE = Atom("any", (("one",), ANYTHING))


# A product of atoms, sorted; () is 1.
Product = tuple[Atom, ...]
# Coefficients of products: a polynomial.
Polynomial = dict[Product, int]
# Products longer than this are not taken apart.
LONGEST_PRODUCT = 6


class Unknown(NamedTuple):
    """An unknown of the difference: a number of one end (0 or 1), or what both ends differ by (end None)."""

    atom: Atom
    end: int | None

    @property
    def name(self) -> Atom:
        """The atom that stands for it among differences."""
        return self.atom if self.end is None else at_end(self.end, self.atom)


# A difference: for each product of fixed numbers, multiples of unknowns (None: of 1).
Terms = dict[tuple[Product, Unknown | None], int]
Digit = dict[Unknown | None, int]
# What an unknown is never below and never above: sums of fixed numbers, then a number.
Limits = tuple[list[Polynomial], list[Polynomial]]


class Digits(NamedTuple):
    """What a difference comes to: sums of multiples of unknowns that are 0 (`zero`), and what is
    left, between `low` and `high`; `apart`: there is none."""

    zero: list[Digit]
    rest: Terms
    low: int
    high: int
    apart: bool


@dataclass
class TwoEnds:
    """Two groups; `is_fixed` tells the numbers that both have alike, `range_of` bounds an unknown
    of one group, `limits` are what iterations of loops in summary code are below."""

    a: AccessGroup
    b: AccessGroup
    is_fixed: Callable[[Atom], bool]
    range_of: Callable[[Atom, AccessGroup], Interval]
    limits: Mapping[Atom, Form | None]

    def __post_init__(self) -> None:
        self._launch = joint_launch(self.a.launch, self.b.launch)
        # Radix after radix asks for the same few numbers.
        self.is_fixed, self._least = cache(self.is_fixed), cache(self._least_of)
        self._limits = cache(self._limits_of)

    def constrain(self, dimension: int, found: Differences) -> list[Constraint] | None:
        """Add what is left of one dimension; what its digits say besides. None where a radix says nothing about it."""
        terms = self._terms(dimension)
        low, high = sums.difference(self.a.bounds[dimension], self.b.bounds[dimension])
        if terms is None or low is None or high is None:
            return None
        # start of a - start of b: between minus the length of b and that of a.
        least, most = 1 - self.a.spans[dimension] - high, self.b.spans[dimension] - 1 - low
        split = self._digits(terms, least, most)
        rest = self._rest(split, found)
        if rest is None:
            return None
        found.constraints.append(rest)
        return self._zeros(split, found)

    def of_equal(self, one: Form, other: Form, found: Differences) -> list[Constraint]:
        """What the digits of two forms say that are one number."""
        terms = self._difference(one, other)
        if terms is None:
            return []
        split = self._digits(terms, 0, 0)
        rest = self._rest(split, found)
        return [*self._zeros(split, found), *([] if rest is None else [rest])]

    def _zeros(self, split: Digits, found: Differences) -> list[Constraint]:
        return [self._constraint(digit, 0, 0, found) for digit in split.zero]

    def _rest(self, split: Digits, found: Differences) -> Constraint | None:
        """What is left beside digits; None where it has fixed numbers."""
        if split.apart:
            return Constraint((), 1, 1)
        if any(fixed for fixed, _ in split.rest):
            return None
        rest = {unknown: c for (_, unknown), c in split.rest.items()}
        return self._constraint(rest, split.low, split.high, found)

    def _constraint(self, total: Digit, low: int, high: int, found: Differences) -> Constraint:
        """low <= total <= high"""
        factors = []
        for unknown, factor in total.items():
            name = ONE if unknown is None else unknown.name
            found.bounds.setdefault(name, (1, 1) if unknown is None else self._range(unknown))
            factors.append((name, factor))
        return Constraint(tuple(factors), low, high)

    def one_by_one(self, threads: Threads) -> list[tuple[AccessGroup, AccessGroup]]:
        """The pairs of single accesses, each with what its own path knows of the numbers that
        both have alike; none where that tells no more, or they are many."""
        mixed = any(self._terms(d) for d in range(len(self.a.shared)))
        sizes = len(self.a.members), len(self.b.members)
        if not mixed or not 1 < sizes[0] * sizes[1] <= MOST_PAIRS:
            return []
        ours = alone(self.a, threads)
        if self.a is self.b:
            return list(itertools.combinations_with_replacement(ours, 2))
        return list(itertools.product(ours, alone(self.b, threads)))

    # The difference -----------------------------------------------------------------------

    def _terms(self, dimension: int) -> Terms | None:
        """The difference of both starts, if it has fixed numbers."""
        exact: dict[Atom, Form] = {
            atom: Form(known.exact)
            for atom, known in self._launch.items()
            if known.exact is not None
        }
        given = [group.shared[dimension] for group in (self.a, self.b)]
        starts = [substitute(start, exact, {}) for start in given] if exact else given
        if starts == given and starts[0] == starts[1]:
            atoms = forms.atoms_of(starts[0])
            if not any(self.is_fixed(atom) for atom in atoms if atom.kind == "symbol"):
                return None
        return self._difference(*starts)

    def _difference(self, a: Form, b: Form) -> Terms | None:
        """a - b; None where it is no sum of unknowns times fixed numbers."""
        sides: list[dict[tuple[Product, Atom | None], int]] = []
        for form in (a, b):
            polynomial = expanded(form, self.is_fixed)
            if polynomial is None:
                return None
            found: dict[tuple[Product, Atom | None], int] = {}
            for product, coefficient in polynomial.items():
                own = [atom for atom in product if not self.is_fixed(atom)]
                if len(own) > 1:
                    return None
                fixed = tuple(atom for atom in product if self.is_fixed(atom))
                found[fixed, own[0] if own else None] = coefficient
            sides.append(found)
        terms: Terms = {}
        ours, theirs = sides
        alike = {
            atom
            for atom in {atom for side in sides for _, atom in side}
            if {k: c for k, c in ours.items() if k[1] == atom}
            == {k: c for k, c in theirs.items() if k[1] == atom}
        }
        for end, side in enumerate(sides):
            for (fixed, atom), coefficient in side.items():
                signed = -coefficient if end else coefficient
                if atom is None:
                    terms[fixed, None] = terms.get((fixed, None), 0) + signed
                elif atom not in alike:
                    terms[fixed, Unknown(atom, end)] = signed
                elif end == 0:
                    terms[fixed, Unknown(atom, None)] = coefficient
        return {key: coefficient for key, coefficient in terms.items() if coefficient}

    # What is known of its numbers ---------------------------------------------------------

    def _least_of(self, atom: Atom) -> int | None:
        """What a number that both ends have alike is at least."""
        known = forms.bounds(forms.of_atom(atom), self._launch)[0]
        # What runs has a grid and blocks of at least one.
        return max(known or 0, 1) if is_of_launch(atom) else known

    def _range(self, unknown: Unknown) -> Interval:
        if unknown.end is not None:
            return self.range_of(unknown.atom, (self.a, self.b)[unknown.end])
        return sums.difference(
            self.range_of(unknown.atom, self.a), self.range_of(unknown.atom, self.b)
        )

    def _limits_of(self, unknown: Unknown) -> Limits:
        if unknown.end is not None:
            return self._limits_at(unknown.atom, (self.a, self.b)[unknown.end])
        (low, high), (other_low, other_high) = (
            self._limits_at(unknown.atom, group) for group in (self.a, self.b)
        )
        return _each_difference(low, other_high), _each_difference(high, other_low)

    def _limits_at(self, atom: Atom, group: AccessGroup) -> Limits:
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
            # rest + atom >= number, and rest - atom >= number.
            ends = (lows, highs) if sign > 0 else (highs, lows)
            for number, bounded in zip(known.ends, ends, strict=True):
                if number is not None:
                    self._add_limit(bounded, rest, -sign, sign * number)
        for number, bounded in zip(self.range_of(atom, group), (lows, highs), strict=True):
            if number is not None:
                bounded.append(_of_number(number))
        return lows, highs

    def _add_limit(self, limits: list[Polynomial], form: Form, factor: int, number: int) -> None:
        """factor * form + number, if all numbers in it are fixed."""
        polynomial = expanded(form)
        if polynomial is not None and all(self.is_fixed(a) for p in polynomial for a in p):
            limits.append(plus(_of_number(number), polynomial, factor))

    # Its digits ---------------------------------------------------------------------------

    def _digits(self, terms: Terms, low: int, high: int) -> Digits:
        """Take one radix after the other from low <= terms <= high."""
        zero: list[Digit] = []
        while True:
            if self._is_outside(terms, low, high):
                return Digits(zero, terms, low, high, apart=True)
            for radix in _radices(terms):
                found = _split(terms, radix)
                digit = None if found is None else self._digit(found[1], low, high, radix)
                if found is not None and digit is not None:
                    above, terms = found
                    if digit:
                        above = {**above, None: above.get(None, 0) - digit}
                    zero.append(above)
                    low, high = (end - digit * radix[1] for end in (low, high))
                    break
            else:
                return Digits(zero, terms, low, high, apart=False)

    def _digit(self, rest: Terms, low: int, high: int, radix: tuple[Product, int]) -> int | None:
        """The one number Q with low <= radix * Q + rest <= high, None where several are possible.

        0 where radix * Q is less than the radix; of a constant radix the only multiple in reach:

            3 <= 2 Q + (b - b') <= 3, b and b' below 2        2 <= 2 Q <= 4 is no single one
            2 <= 2 Q + (b - b') <= 2                           1 <= 2 Q <= 3, so Q = 1
        """
        mosts, leasts = self._bounds(rest, up=True), self._bounds(rest, up=False)
        size: Polynomial = {radix[0]: radix[1]}
        # radix * Q = difference - S lies between low - most and high - least.
        if any(
            self._is_positive(plus(plus(size, {(): high}, -1), least)) for least in leasts
        ) and any(self._is_positive(plus(plus(size, {(): low}), most, -1)) for most in mosts):
            return 0
        most, least = (
            [bound.get((), 0) for bound in bounds if set(bound) <= {()}]
            for bounds in (mosts, leasts)
        )
        if radix[0] or not most or not least:
            return None
        first, last = -((min(most) - low) // radix[1]), (high - max(least)) // radix[1]
        return first if first == last else None

    def _is_outside(self, terms: Terms, low: int, high: int) -> bool:
        mosts, leasts = self._bounds(terms, up=True), self._bounds(terms, up=False)
        return any(self._is_positive(plus({(): low}, most, -1)) for most in mosts) or any(
            self._is_positive(plus(least, {(): high}, -1)) for least in leasts
        )

    def _bounds(self, terms: Terms, *, up: bool) -> list[Polynomial]:
        """Polynomials of fixed numbers that the terms are never above (below): with the first bound
        of each unknown, and with the last."""
        found = []
        for place in (0, -1):
            total: Polynomial | None = {}
            for (fixed, unknown), coefficient in terms.items():
                bound: Polynomial = {(): 1}
                if unknown is not None:
                    leasts = [self._least(atom) for atom in fixed]
                    lows, highs = self._limits(unknown)
                    known = highs if up == (coefficient > 0) else lows
                    if not known or any(least is None or least < 0 for least in leasts):
                        total = None
                        break
                    bound = known[place]
                total = plus(total or {}, times({fixed: 1}, bound), coefficient)
            if total is not None and total not in found:
                found.append(total)
        return found

    def _is_positive(self, polynomial: Polynomial) -> bool:
        """Whether the polynomial is above 0: with every number written as its least value and what
        it is more, no coefficient is negative."""
        total: Polynomial = {}
        for product, coefficient in polynomial.items():
            moved: Polynomial = {(): coefficient}
            for atom in product:
                least = self._least(atom)
                if least is None:
                    return False
                moved = times(moved, {(atom,): 1, (): least} if least else {(atom,): 1})
            total = plus(total, moved)
        return total.get((), 0) > 0 and all(coefficient >= 0 for coefficient in total.values())


def _each_difference(a: list[Polynomial], b: list[Polynomial]) -> list[Polynomial]:
    if not a or not b:
        return []
    return [plus(a[0], b[0], -1), plus(a[-1], b[-1], -1)]


def _of_number(number: int) -> Polynomial:
    return {(): number} if number else {}


def expanded(form: Form, is_fixed: Callable[[Atom], bool] = lambda atom: True) -> Polynomial | None:
    """The form with its products multiplied out; None if they are too long. A product of unknowns alone is one
    unknown."""
    total = _of_number(form.constant)
    for atom, coefficient in form.terms:
        product: Polynomial = {(atom,): 1}
        name, arguments = forms.operator_of(atom)
        if name == "mul":
            factors = [expanded(argument, is_fixed) for argument in arguments]
            if None in factors:
                return None
            made = times(*(f for f in factors if f is not None))
            if any(is_fixed(a) for p in made for a in p):
                product = made
        if any(len(p) > LONGEST_PRODUCT for p in product):
            return None
        total = plus(total, product, coefficient)
    return total


def plus(a: Polynomial, b: Polynomial, factor: int = 1) -> Polynomial:
    """a + factor * b."""
    total = dict(a)
    for product, coefficient in b.items():
        total[product] = total.get(product, 0) + factor * coefficient
    return {product: coefficient for product, coefficient in total.items() if coefficient}


def times(a: Polynomial, b: Polynomial) -> Polynomial:
    """a * b."""
    total: Polynomial = {}
    for x, c in a.items():
        for y, d in b.items():
            # Each of the two is in order.
            product = tuple(sorted((*x, *y), key=repr)) if x and y else x or y
            total[product] = total.get(product, 0) + c * d
    return {product: coefficient for product, coefficient in total.items() if coefficient}


def _radices(terms: Terms) -> list[tuple[Product, int]]:
    """Radices to try, the largest first."""
    found = set()
    for (fixed, unknown), coefficient in terms.items():
        if unknown is not None:
            found.add((fixed, abs(coefficient)))
    return sorted(found, key=lambda radix: (len(radix[0]), radix[1], repr(radix)), reverse=True)


def _split(terms: Terms, radix: tuple[Product, int]) -> tuple[Digit, Terms] | None:
    """Q and S of radix * Q + S: what is a multiple of the radix, and the rest."""
    product, factor = radix
    high, rest = {}, {}
    for (fixed, unknown), coefficient in terms.items():
        if fixed == product and coefficient % factor == 0 and (unknown is not None or fixed):
            high[unknown] = coefficient // factor
        else:
            rest[fixed, unknown] = coefficient
    return (high, rest) if rest or product or factor > 1 else None
