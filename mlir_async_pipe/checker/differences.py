"""Which differences between the unknowns of two accesses let both touch one place.

    C[128 by + row, 128 bx + col]     row, col < 128, and by', bx' in the other block:
    128 (by - by') + row - row' = 0   |row - row'| <= 127, so by = by'

Each dimension is one constraint: low <= sum of factor * difference <= high. Bounds of one
unknown follow from those of the others; what can only be 0 is equal at both ends. Where
x div c and x mod c are equal to y div c and y mod c, x is y: what follows from that is asked for
(`of_equal`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import product
from math import gcd, prod
from typing import NamedTuple

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import Atom, Form

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


@dataclass
class Differences:
    """The differences of unknowns, each with its bounds (None: none on that side). `is_fixed`
    tells the numbers that both ends have alike; `of_equal` is given a form of each end that are one
    number, and gives what follows from that, with bounds of the unknowns in it."""

    is_fixed: Callable[[Atom], bool]
    of_equal: Callable[[Form, Form, Differences], list[Constraint]]
    bounds: dict[Atom, tuple[int | None, int | None]] = field(default_factory=dict)
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
            low, high = constraint.low, constraint.high
            least: int | None = 0
            most: int | None = 0
            for atom, factor in constraint.factors:
                down, up = _scaled(self.bounds[atom], factor)
                least = None if least is None or down is None else least + down
                most = None if most is None or up is None else most + up
            low = least if low is None else low if least is None else max(low, least)
            high = most if high is None else high if most is None else min(high, most)
            step = gcd(*(factor for _, factor in constraint.factors))
            if not step:
                found.append([0])
                continue
            if low is None or high is None or (high - low) // step > MANY_SUMS:
                return None
            found.append(list(range(-(-low // step) * step, high + 1, step)))
        total = prod(map(len, found))
        return None if total > MANY_SUMS else list(product(*found))

    def _narrow(self, constraint: Constraint) -> bool:
        for atom, factor in constraint.factors:
            low, high = constraint.low, constraint.high
            for other, other_factor in constraint.factors:
                if other == atom:
                    continue
                least, most = _scaled(self.bounds[other], other_factor)
                low = None if low is None or most is None else low - most
                high = None if high is None or least is None else high - least
            if not self._cut(atom, factor, low, high):
                return False
        return bool(constraint.factors) or _holds_zero(constraint)

    def _cut(self, atom: Atom, factor: int, low: int | None, high: int | None) -> bool:
        """low <= factor * atom <= high."""
        if factor < 0:
            low, high, factor = _negative(high), _negative(low), -factor
        first, last = self.bounds[atom]
        if low is not None:
            least = -(-low // factor)
            first = least if first is None else max(first, least)
        if high is not None:
            most = high // factor
            last = most if last is None else min(last, most)
        self.bounds[atom] = (first, last)
        return first is None or last is None or first <= last

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
            if len(constraint.factors) == 2 and _is_zero_only(constraint):
                (one, factor), (other, other_factor) = constraint.factors
                ends = {number: atom for number, atom in (end_of(one), end_of(other))}
                if factor == -other_factor and ends.keys() == {0, 1}:
                    found[ends[0], ends[1]] = None
        return {pair: None for pair in found if all(map(_is_part, pair))}


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


def _is_part(atom: Atom) -> bool:
    return atom.kind == "call" and forms.operator_of(atom)[0] in PARTS


def _rest(name: str, *arguments: Form) -> Atom:
    return Atom("call", (REMAINDERS[name], arguments))


def _is_zero_only(constraint: Constraint) -> bool:
    """Whether the sum of two multiples of one number can only be 0."""
    factor = abs(constraint.factors[0][1])
    low, high = constraint.low, constraint.high
    return low is not None and high is not None and -factor < low and high < factor


def _scaled(bounds: tuple[int | None, int | None], factor: int) -> tuple[int | None, int | None]:
    low, high = bounds if factor > 0 else (bounds[1], bounds[0])
    return (
        None if low is None else low * factor,
        None if high is None else high * factor,
    )


def _negative(value: int | None) -> int | None:
    return None if value is None else -value


def _holds_zero(constraint: Constraint) -> bool:
    low, high = constraint.low, constraint.high
    return (low is None or low <= 0) and (high is None or high >= 0)


def width_of(
    a: tuple[int | None, int | None], b: tuple[int | None, int | None]
) -> tuple[int | None, int | None]:
    """Bounds of x - y for x in `a` and y in `b`."""
    low = None if a[0] is None or b[1] is None else a[0] - b[1]
    high = None if a[1] is None or b[0] is None else a[1] - b[0]
    return low, high


def around(ends: Iterable[tuple[int | None, int | None]]) -> tuple[int | None, int | None]:
    """The range that holds all ranges; None is no bound."""
    found = list(ends)
    lows = [low for low, _ in found if low is not None]
    highs = [high for _, high in found if high is not None]
    every = len(found)
    return min(lows) if len(lows) == every else None, max(highs) if len(highs) == every else None
