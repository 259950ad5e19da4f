"""The least sum over all paths of what ops add and take away.

    sum at p = min over all paths to p of the weights of the ops on the way

Commits weigh +1 and `consumer_wait` -1, so their sum is producer head minus consumer head.
Weights may be negative, so a loop that takes more than it adds has no least sum when its trip
count is unknown: the sum is then `UNBOUNDED`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mlir_async_pipe.flow.conditions import Conditions
from mlir_async_pipe.flow.items import Item
from mlir_async_pipe.flow.solver import Domain, Solver
from mlir_async_pipe.waits.algebra.count_rows import FOREVER

UNBOUNDED = -(1 << 58)

Weight = Callable[[Item], int]
Balance = Solver[int]


def balance(conditions: Conditions, items: Iterable[Item], weight: Weight) -> Balance:
    """The least sums at some items of a module, from the start of their functions."""
    return Solver(conditions, items, LeastSum(weight), lambda root: 0)


def is_reached(found: Balance, item: Item) -> bool:
    """Whether some path comes to an item."""
    return found.before.get(item, FOREVER) < FOREVER


@dataclass(frozen=True)
class LeastSum(Domain[int]):
    """The domain: sums, of which paths that meet give the least."""

    over: Weight
    unit: int = 0
    never: int = FOREVER
    outside: int = 0

    def then(self, first: int, later: int) -> int:
        """The sum, as far as it is bounded."""
        if first >= FOREVER or later >= FOREVER:
            return FOREVER
        return max(UNBOUNDED, first + later)

    def join(self, first: int, second: int) -> int:
        """The path that adds less."""
        return min(first, second)

    def power(self, body: int, times: int) -> int:
        """The same sum again and again."""
        return 0 if times == 0 else max(UNBOUNDED, min(FOREVER, body * times))

    def star(self, body: int, most: int | None = None) -> int:
        """No iteration, or as many as there may be if each takes more than it adds."""
        if body >= 0:
            return 0
        return UNBOUNDED if most is None else self.power(body, most)

    def widen(self, before: int, now: int, visits: int, blocks: int) -> int:
        """What still sinks after one round a block is in a cycle that takes more than it adds
        (Bellman and Ford)."""
        return UNBOUNDED if visits > blocks else now
