"""Which idle commits may go so that no wait of their queue gets stricter on any path.

The counts are derived again as if the commits had gone, and compared with what is left of the
groups that each wait let stay in flight before (`kept_groups`). Where that fails the commits are
halved, so those that do no harm still go.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.flow.items import Item
from mlir_async_pipe.vocabulary import Queue
from mlir_async_pipe.waits.count import Analysis
from mlir_async_pipe.waits.redundant.in_flight import starts_thread
from mlir_async_pipe.waits.redundant.kept_groups import Change, KeptGroups
from mlir_async_pipe.waits.ssa.forward import Forward
from mlir_async_pipe.waits.ssa.skeleton import Skeleton
from mlir_async_pipe.waits.write_counts import largest_count, wait_rule

# Counting again takes as long as the pass: after so many tries the other commits stay.
MOST_TRIES = 64

Positions = frozenset[int]
"""Ops by their number in pre-order, which every analysis of one module shares."""


def droppable(module_op: Any, target: Target | None, candidates: list[Item]) -> list[Any]:
    """Those of the candidates that may go together, as ops."""
    trial = _Trial(module_op, target)
    chosen = trial.most_of([item.position for item in candidates], frozenset())
    return [item.op for item in candidates if item.position in chosen]


class _Trial:
    """Counts a module again and again, with other commits left out."""

    def __init__(self, module_op: Any, target: Target | None) -> None:
        self.module_op = module_op
        self.target = target
        self.tries = 0
        self.before = self._counts(Analysis(module_op.operation, target))

    def most_of(self, candidates: list[int], chosen: Positions) -> Positions:
        """Add as many candidates as go well with what is chosen."""
        if not candidates or self.tries >= MOST_TRIES:
            return chosen
        self.tries += 1
        together = chosen | set(candidates)
        if self._is_harmless(together):
            return together
        if len(candidates) == 1:
            return chosen
        half = len(candidates) // 2
        return self.most_of(candidates[half:], self.most_of(candidates[:half], chosen))

    def _counts(self, analysis: Analysis) -> dict[int, int]:
        """What each wait can let stay in flight, by position; without those never reached."""
        found = {}
        for counted in analysis.count():
            if counted.count is not None:
                largest = largest_count(counted.item.queue, wait_rule(counted.item.op))
                found[counted.item.position] = min(largest, max(0, counted.count))
        return found

    def _is_harmless(self, dropped: Positions) -> bool:
        analysis = Analysis(self.module_op.operation, self.target)
        gone = [item for item in analysis.graph.commits if item.position in dropped]
        queues = {item: item.queue for item in gone}
        for item in gone:
            item.queue = None
        after = self._counts(analysis)
        for item, queue in queues.items():
            item.queue = queue
        roots = {
            (analysis.graph.root_of(item), item.queue): item.queue
            for item in analysis.waits
            if item.queue in queues.values() and after.get(item.position) is not None
        }
        return all(
            self._stays_as_loose(analysis, root, queue, dropped, after)
            for (root, _), queue in roots.items()
            if queue is not None
        )

    def _stays_as_loose(
        self,
        analysis: Analysis,
        root: Item,
        queue: Queue,
        dropped: Positions,
        after: dict[int, int],
    ) -> bool:
        waits = {item.op: item for item in analysis.waits if item.queue == queue}
        commits = {item.op: item for item in analysis.graph.commits if item.queue in (queue, None)}
        calls = {item.op for item in analysis.graph.calls} if queue.scope == "thread" else set()

        def change(op: Any) -> Change:
            if op in calls:
                return "any"
            item = commits.get(op)
            if item is None:
                return "none"
            return (
                "any" if item.queue is None else "dropped" if item.position in dropped else "kept"
            )

        most = max((self.before.get(item.position, 0) for item in waits.values()), default=0)
        kept = KeptGroups(most, change)
        skeleton = Skeleton(
            root.op,
            lambda op: op in waits or op in commits or op in calls,
            lambda op: op in commits or op in calls,
        )
        start = kept.none if queue.scope == "function" or starts_thread(root.op) else kept.all
        flow = Forward(skeleton, kept, start, exact=True)
        for block, state in list(flow.at_block.items()):
            for op, here in flow.through(block, state):
                item = waits.get(op)
                if item is None or item.position not in after:
                    continue
                if after[item.position] < here[self.before[item.position]]:
                    return False
        return True
