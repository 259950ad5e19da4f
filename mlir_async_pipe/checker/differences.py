"""Which differences between the unknowns of two accesses let both touch one place.

    C[128 by + row, 128 bx + col]     row, col < 128, and by', bx' in the other block:
    128 (by - by') + row - row' = 0   |row - row'| <= 127, so by = by'

Each dimension is one constraint: low <= sum of factor * difference <= high. Bounds of one
unknown follow from those of the others; what can only be 0 is equal at both ends. Where
x div c and x mod c are equal, so is x.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from itertools import product
from math import gcd, prod
from typing import NamedTuple

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import Atom
from mlir_async_pipe.session.light_dataclass import dataclass

# Each round carries bounds from one dimension to the others.
ROUNDS = 8
# Quotients, and the remainders that belong to them.
REMAINDERS = {"div": "mod", "quotient": "remainder"}
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
    tells the numbers that both ends have alike."""

    is_fixed: Callable[[Atom], bool]
    bounds: dict[Atom, tuple[int | None, int | None]] = field(default_factory=dict)
    constraints: list[Constraint] = field(default_factory=list)

    def solve(self) -> bool:
        """Narrow all bounds; False if no differences satisfy the constraints."""
        joined: set[Atom] = set()
        for _ in range(ROUNDS):
            before = dict(self.bounds)
            if not all(self._narrow(constraint) for constraint in self.constraints):
                return False
            self._join_parts(joined)
            if self.bounds == before:
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

    def _join_parts(self, joined: set[Atom]) -> None:
        """Where quotient and remainder of one form by one number are equal, the form is."""
        for atom in list(self.bounds):
            if atom in joined or atom.kind != "call" or not self.is_zero(atom):
                continue
            name, arguments = forms.operator_of(atom)
            rest = REMAINDERS.get(name)
            if rest is None or not self.is_zero(Atom("call", (rest, arguments))):
                continue
            inner, divisor = arguments
            if not all(self.is_fixed(part) for part, _ in divisor.terms):
                continue
            joined.add(atom)
            own = tuple(term for term in inner.terms if not self.is_fixed(term[0]))
            for part, _ in own:
                self.bounds.setdefault(part, (None, None))
            self.constraints.append(Constraint(own, 0, 0))


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
