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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, reduce
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


def _of_end(end: int, atom: Atom) -> Atom:
    return atom if end < 0 else at_end(end, atom)


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


# A product of numbers that both ends have alike; () is 1.
Product = tuple[Atom, ...]
# Products longer than this are not taken apart.
LONGEST_PRODUCT = 6
# A difference: for each product of fixed numbers, multiples of unknowns, or of `ONE`.
Terms = dict[tuple[Product, Atom], int]
Digit = dict[Atom, int]
# What an unknown is never below and never above: sums of products of fixed numbers, then a number.
Limits = tuple[list[Form], list[Form]]


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

    def differences(self) -> Differences:
        """The constraints of two accesses that touch one place."""
        found = Differences(self.is_fixed, self.of_equal)
        digits: list[Constraint] = []
        for dimension, starts in enumerate(zip(self.a.shared, self.b.shared, strict=True)):
            # start of a - start of b: between minus the length of b and that of a.
            low, high = sums.difference(self.a.bounds[dimension], self.b.bounds[dimension])
            least = None if high is None else 1 - self.a.spans[dimension] - high
            most = None if low is None else self.b.spans[dimension] - 1 - low
            terms = self._terms(dimension)
            if terms is not None and least is not None and most is not None:
                split = self._digits(terms, least, most)
                rest = self._rest(split, found)
                if rest is not None:
                    found.constraints.append(rest)
                    digits += self._zeros(split, found)
                    continue
            # A radix says nothing about it.
            sides: list[Terms] = [{((), atom): c for atom, c in start.terms} for start in starts]
            left = {unknown: c for (_, unknown), c in self._by_end(*sides).items()}
            found.constraints.append(self._constraint(left, least, most, found))
        found.constraints += digits
        return found

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

    def _constraint(
        self, total: Digit, low: int | None, high: int | None, found: Differences
    ) -> Constraint:
        """low <= total <= high"""
        for unknown in total:
            found.bounds.setdefault(unknown, self._range(unknown))
        return Constraint(tuple(total.items()), low, high)

    def one_by_one(self, threads: Threads) -> list[tuple[AccessGroup, AccessGroup]]:
        """The pairs of single accesses, each with what its own path knows of the numbers that
        both have alike; none where that tells no more, or they are many."""
        mixed = any(self._terms(d) for d in range(len(self.a.shared)))
        size, other = len(self.a.members), len(self.b.members)
        pairs = size * (size + 1) // 2 if self.a is self.b else size * other
        if not mixed or not size * other > 1 or pairs > MOST_PAIRS:
            return []
        ours = alone(self.a, threads)
        if self.a is self.b:
            return list(itertools.combinations_with_replacement(ours, 2))
        return list(itertools.product(ours, alone(self.b, threads)))

    # The difference -----------------------------------------------------------------------

    def _terms(self, dimension: int) -> Terms | None:
        """The difference of both starts, if it has fixed numbers."""
        given = [group.shared[dimension] for group in (self.a, self.b)]
        named = (atom for start in given for atom in forms.atoms_of(start))
        known = {atom: forms.knowledge(atom, self._launch) for atom in named if self.is_fixed(atom)}
        exact: dict[Atom, Form] = {
            a: Form(k.exact) for a, k in known.items() if k.exact is not None
        }
        starts = [substitute(start, exact, {}) for start in given] if exact else given
        if starts == given and starts[0] == starts[1]:
            atoms = forms.atoms_of(starts[0])
            if not any(self.is_fixed(atom) for atom in atoms if atom.kind == "symbol"):
                return None
        return self._difference(*starts)

    def _difference(self, a: Form, b: Form) -> Terms | None:
        """a - b; None where it is no sum of unknowns times fixed numbers."""
        sides: list[Terms] = []
        for form in (a, b):
            whole = expanded(form, self.is_fixed)
            if whole is None:
                return None
            found: Terms = {}
            for product, coefficient in forms.products_of(whole):
                own = [atom for atom in product if not self.is_fixed(atom)]
                if len(own) > 1:
                    return None
                fixed = tuple(atom for atom in product if self.is_fixed(atom))
                found[fixed, own[0] if own else ONE] = coefficient
            sides.append(found)
        return self._by_end(*sides)

    def _by_end(self, ours: Terms, theirs: Terms) -> Terms:
        """The difference of both sides: of an unknown that they have the same multiples of, those of what both ends differ
        by, else of that of each end."""

        def multiples(side: Terms, atom: Atom) -> dict[Product, int]:
            return {fixed: c for (fixed, unknown), c in side.items() if unknown == atom}

        terms: Terms = {}
        for atom in dict.fromkeys(atom for _, atom in (*ours, *theirs)):
            one, other = multiples(ours, atom), multiples(theirs, atom)
            if atom == ONE or self.is_fixed(atom):
                for fixed in one.keys() | other.keys():
                    terms[fixed, atom] = one.get(fixed, 0) - other.get(fixed, 0)
            elif one == other:
                terms |= {(fixed, atom): c for fixed, c in one.items()}
            else:
                terms |= {(fixed, at_end(0, atom)): c for fixed, c in one.items()}
                terms |= {(fixed, at_end(1, atom)): -c for fixed, c in other.items()}
        return {key: coefficient for key, coefficient in terms.items() if coefficient}

    # What is known of its numbers ---------------------------------------------------------

    def _least_of(self, atom: Atom) -> int | None:
        """What a number that both ends have alike is at least."""
        known = forms.bounds(forms.of_atom(atom), self._launch)[0]
        # What runs has a grid and blocks of at least one.
        return max(known or 0, 1) if is_of_launch(atom) else known

    def _range(self, unknown: Atom) -> Interval:
        if unknown == ONE:
            return 1, 1
        end, atom = end_of(unknown)
        if end >= 0 or self.is_fixed(atom):
            return self.range_of(atom, (self.a, self.b)[max(end, 0)])
        return sums.difference(self.range_of(atom, self.a), self.range_of(atom, self.b))

    def _limits_of(self, unknown: Atom) -> Limits:
        if unknown == ONE:
            return [Form(1)], [Form(1)]
        end, atom = end_of(unknown)
        if end >= 0:
            return self._limits_at(atom, (self.a, self.b)[end])
        (low, high), (other_low, other_high) = (
            self._limits_at(atom, group) for group in (self.a, self.b)
        )
        return _each_difference(low, other_high), _each_difference(high, other_low)

    def _limits_at(self, atom: Atom, group: AccessGroup) -> Limits:
        lows: list[Form] = []
        highs: list[Form] = []
        below = self.limits.get(atom) or grid_size_of(atom)
        if below is not None:
            self._add_limit(highs, below, 1, -1)
        part = forms.form_under(atom).terms
        for sum_, known in group.facts.items():
            held = forms.terms_of(sum_) if sum_.kind == "sum" else frozenset()
            for sign in (1, -1):
                own = {(one, sign * c) for one, c in part}
                if not own <= held:
                    continue
                # rest + atom >= number, and rest - atom >= number.
                ends = (lows, highs) if sign > 0 else (highs, lows)
                for number, bounded in zip(known.ends, ends, strict=True):
                    if number is not None:
                        self._add_limit(bounded, Form(0, held - own), -sign, sign * number)
        range_ = sums.interval_of(Form(0, part), lambda one: self.range_of(one, group))
        for number, bounded in zip(range_, (lows, highs), strict=True):
            if number is not None:
                bounded.append(Form(number))
        return lows, highs

    def _add_limit(self, limits: list[Form], form: Form, factor: int, number: int) -> None:
        """factor * form + number, if all numbers in it are fixed."""
        whole = expanded(form)
        if whole is not None and all(
            self.is_fixed(a) for product, _ in forms.products_of(whole) for a in product
        ):
            limits.append(sums.add(Form(number), whole, factor))

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
                        above = {**above, ONE: above.get(ONE, 0) - digit}
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
        size = sums.scale(forms.of_product(radix[0]), radix[1])
        # radix * Q = difference - S lies between low - most and high - least.
        if any(
            self._is_positive(sums.add(size, sums.subtract(least, Form(high)))) for least in leasts
        ) and any(
            self._is_positive(sums.add(size, sums.subtract(Form(low), most))) for most in mosts
        ):
            return 0
        most, least = (
            [bound.constant for bound in bounds if bound.is_constant] for bounds in (mosts, leasts)
        )
        if radix[0] or not most or not least:
            return None
        first, last = -((min(most) - low) // radix[1]), (high - max(least)) // radix[1]
        return first if first == last else None

    def _is_outside(self, terms: Terms, low: int, high: int) -> bool:
        mosts, leasts = self._bounds(terms, up=True), self._bounds(terms, up=False)
        return any(self._is_positive(sums.subtract(Form(low), most)) for most in mosts) or any(
            self._is_positive(sums.subtract(least, Form(high))) for least in leasts
        )

    def _bounds(self, terms: Terms, *, up: bool) -> list[Form]:
        """Sums of fixed numbers that the terms are never above (below): with the first bound of each unknown, and with the
        last; also with what is known of sums of unknowns."""
        found: list[Form] = []
        ways = (terms, *self._in_sums(terms), *self._in_sums(self._apart(terms)))
        for said, place in itertools.product(ways, (0, -1)):
            total: Form = forms.ZERO
            for (fixed, unknown), coefficient in said.items():
                lows, highs = self._limits(unknown)
                known = highs if up == (coefficient > 0) else lows
                if not known or (unknown != ONE and not all(map(self._is_not_negative, fixed))):
                    break
                bound = forms.multiplied(forms.of_product(fixed), known[place])
                total = sums.add(total, bound, coefficient)
            else:
                if total not in found:
                    found.append(total)
        return found

    def _in_sums(self, terms: Terms) -> Iterator[Terms]:
        """The terms with sums of unknowns of which something is known, each as one unknown.

        1024 b + 4 t    with n - 256 b - t >= 1    -->    4 (256 b + t), which is below 4 n
        32 k            with n - 8 k >= 1          -->    4 (8 k)
        """
        known = {sum_ for group in (self.a, self.b) for sum_ in group.facts if sum_.kind == "sum"}
        free = [[t for t in forms.terms_of(sum_) if not self.is_fixed(t[0])] for sum_ in known]
        places = {(fixed, end_of(unknown)[0]) for fixed, unknown in terms if unknown != ONE}
        for parts, (fixed, end) in itertools.product(free, places):
            keys = {(fixed, _of_end(end, atom)): c for atom, c in parts}
            factors = {divmod(terms.get(key, 0), c) for key, c in keys.items()}
            # One of an unknown by itself is one of its limits.
            if sum(abs(c) for _, c in parts) < 2 or len(factors) > 1:
                continue
            ((factor, rest),) = factors
            if factor and not rest:
                others = {key: c for key, c in terms.items() if key not in keys}
                whole = _of_end(end, Atom("sum", frozenset(parts)))
                made = {**others, (fixed, whole): factor}
                yield made
                yield from self._in_sums(made)

    def _apart(self, terms: Terms) -> Terms:
        """What both ends differ by as an unknown of each end, where others are: t - t' + 256 k as (t + 256 k) - t'."""
        ends = {unknown: end_of(unknown)[0] for _, unknown in terms}
        if max(ends.values(), default=-1) < 0:
            return {}
        found: Terms = {}
        for (fixed, unknown), coefficient in terms.items():
            if ends[unknown] >= 0 or unknown == ONE or self.is_fixed(unknown):
                found[fixed, unknown] = coefficient
            else:
                found[fixed, at_end(0, unknown)] = coefficient
                found[fixed, at_end(1, unknown)] = -coefficient
        return found

    def _is_not_negative(self, atom: Atom) -> bool:
        least = self._least(atom)
        return least is not None and least >= 0

    def _is_positive(self, form: Form) -> bool:
        """Whether a sum of products of fixed numbers is above 0: with every number written as its least value and what it is
        more, no coefficient is negative; a remainder is at its largest where it is subtracted."""
        total: Form = forms.ZERO
        for product, coefficient in forms.products_of(in_quotients(form)):
            made: Form = Form(coefficient)
            for atom in product:
                modulus = forms.modulus_of(atom) if coefficient < 0 and len(product) == 1 else None
                least = self._least(atom) if modulus is None else modulus - 1
                if least is None:
                    return False
                rest = frozenset({(atom, 1)} if modulus is None else ())
                made = forms.multiplied(made, Form(least, rest))
            total = sums.add(total, made)
        return total.constant > 0 and all(coefficient >= 0 for _, coefficient in total.terms)


def in_quotients(form: Form) -> Form:
    """A sum of products with 4 (n div 4) + (n mod 4) for n where it has a part of these."""
    products = list(forms.products_of(form))
    atoms = {atom for product, _ in products for atom in product}
    for atom in sorted(atoms, key=repr):
        name, arguments = forms.operator_of(atom)
        if name not in ("div", "mod") or not arguments[1].is_constant:
            continue
        x, divisor = arguments
        for whole in (part for part, factor in x.terms if factor == 1 and part in atoms):
            rest = expanded(forms.subtract(x, forms.of_atom(whole)))
            if rest is None:
                continue
            quotient, remainder = (forms.call(n, x, divisor) for n in ("div", "mod"))
            parts = sums.add(sums.scale(quotient, divisor.constant), remainder)
            made: Form = forms.ZERO
            for product, coefficient in products:
                of = [
                    sums.subtract(parts, rest) if one == whole else forms.of_atom(one)
                    for one in product
                ]
                made = sums.add(made, reduce(forms.multiplied, of, Form(coefficient)))
            return made
    return form


def _each_difference(a: list[Form], b: list[Form]) -> list[Form]:
    if not a or not b:
        return []
    return [sums.subtract(a[0], b[0]), sums.subtract(a[-1], b[-1])]


def expanded(form: Form, is_fixed: Callable[[Atom], bool] = lambda atom: True) -> Form | None:
    """The form with its products multiplied out; None if they are too long. A product of unknowns alone is one
    unknown."""
    total: Form = Form(form.constant)
    for atom, coefficient in form.terms:
        made = forms.of_atom(atom)
        name, arguments = forms.operator_of(atom)
        if name == "mul":
            one, other = (expanded(argument, is_fixed) for argument in arguments)
            if one is None or other is None:
                return None
            whole = forms.multiplied(one, other)
            if any(is_fixed(a) for product, _ in forms.products_of(whole) for a in product):
                made = whole
        if any(len(product) > LONGEST_PRODUCT for product, _ in forms.products_of(made)):
            return None
        total = sums.add(total, made, coefficient)
    return total


def _radices(terms: Terms) -> list[tuple[Product, int]]:
    """Radices to try, the largest first."""
    found = {(fixed, abs(c)) for (fixed, unknown), c in terms.items() if unknown != ONE}
    return sorted(found, key=lambda radix: (len(radix[0]), radix[1], repr(radix)), reverse=True)


def _split(terms: Terms, radix: tuple[Product, int]) -> tuple[Digit, Terms] | None:
    """Q and S of radix * Q + S: what is a multiple of the radix, and the rest."""
    product, factor = radix
    high, rest = {}, {}
    for (fixed, unknown), coefficient in terms.items():
        if fixed == product and coefficient % factor == 0 and (unknown != ONE or fixed):
            high[unknown] = coefficient // factor
        else:
            rest[fixed, unknown] = coefficient
    return (high, rest) if rest or product or factor > 1 else None
