"""The least sum over all paths of what ops add and take away.

    sum at p = min over all paths to p of the weights of the ops on the way

Commits weigh +1 and `consumer_wait` -1, so their sum is producer head minus consumer head.
Weights may be negative, so a loop that takes more than it adds has no least sum when its trip
count is unknown: the sum is then `UNBOUNDED`. The solver keeps what came before each block, so the
path with a least sum is read from there: the witness of `async_pipe.consumer_wait`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mlir_async_pipe.facts.flow.conditions import Conditions
from mlir_async_pipe.facts.flow.items import Frame, Item, Node
from mlir_async_pipe.facts.flow.solver import Domain, Solver
from mlir_async_pipe.waits.minplus import FOREVER
from mlir_async_pipe.waits.records import WitnessStep
from mlir_async_pipe.waits.witness_paths import Path, Witnesses, step

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


_WHAT = {
    "commit": "a group is committed",
    "wait": "the oldest group is taken",
    "call": "a call",
}


class Paths:
    """The paths of one balance: those to the start of each block are kept, since others go on."""

    def __init__(self, found: Balance) -> None:
        self.found = found
        self._to_block: dict[Node, Path] = {}
        self._witnesses = Witnesses()

    def to(self, wait: Item) -> tuple[WitnessStep, ...]:
        """The steps to a wait that paths reach, its own included.

        Their groups (below 0 for a group that is taken) add up to the sum at the wait, but where
        it has no lower bound: a step that takes any number of groups shows 0.
        """
        return self._witnesses.read(self._before(wait) + self._over(wait))[1]

    def _over(self, item: Item) -> Path:
        what = _WHAT.get(item.kind, "past '{}'")
        return step(_shown(self.found.change[item]), what, item.op)

    def _before(self, item: Item) -> Path:
        assert item.node is not None
        path = self._start(item.node)
        for other in self.found.of[item.node]:
            if other is item:
                break
            path += self._over(other)
        return path

    def _start(self, node: Node) -> Path:
        """The path to the start of a block: on from the nearest block before it that is known, or
        from the entry of its frame."""
        came_from = self.found.came_from
        blocks = {node: None}
        known = self._to_block.get(node)
        while known is None and node in came_from:
            node = came_from[node]
            known = self._to_block.get(node)
            if node in blocks:
                what = "a cycle of blocks that takes more than it commits"
                known = self._into(node.frame) + step(0, what, node.frame.item.op)
            blocks[node] = None
        path = self._into(node.frame) if known is None else known
        self._to_block[node] = path
        *after, _ = blocks
        for block in reversed(after):
            for item in self.found.of.get(node, ()):
                path += self._over(item)
            path += step(0, f"through block {node.number}", node.frame.item.op)
            node = block
            self._to_block[node] = path
        return path

    def _into(self, frame: Frame) -> Path:
        """The path to the start of a frame."""
        item = frame.item
        if frame not in self.found.entered:
            return step(0, "nothing is committed yet", item.op)
        before = self.found.entered[frame]
        what = "earlier iterations of '{}'" if before else "into '{}'"
        return self._before(item) + step(_shown(before), what, item.op)


def _shown(groups: int) -> int:
    return 0 if groups <= UNBOUNDED // 2 else groups
