"""Which idle commits may go so that no wait of their queue gets stricter on any path.

The counts are derived again as if the commits had gone, and compared with what is left of the
groups that each wait let stay in flight before (`kept_groups`). Where that fails the commits are
halved, so those that do no harm still go.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.flow.items import Item
from mlir_async_pipe.flow.solver import Solver
from mlir_async_pipe.vocabulary import Queue
from mlir_async_pipe.waits.count import Analysis
from mlir_async_pipe.waits.redundant.in_flight import starts_thread
from mlir_async_pipe.waits.redundant.kept_groups import Change, Kept, KeptGroups
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
        waiting: dict[Queue, list[Item]] = {}
        for item in analysis.waits:
            if item.queue in queues.values() and after.get(item.position) is not None:
                assert item.queue is not None
                waiting.setdefault(item.queue, []).append(item)
        return all(
            self._stays_as_loose(analysis, queue, waits, dropped, after)
            for queue, waits in waiting.items()
        )

    def _stays_as_loose(
        self,
        analysis: Analysis,
        queue: Queue,
        waits: list[Item],
        dropped: Positions,
        after: dict[int, int],
    ) -> bool:
        graph = analysis.graph
        commits = [item for item in graph.commits if item.queue in (queue, None)]
        calls = graph.calls if queue.scope == "thread" else []

        def change(item: Item) -> Change:
            if item.kind == "wait":
                return "none"
            if item.queue is None:
                return "any"
            return "dropped" if item.position in dropped else "kept"

        def start(root: Item) -> Kept:
            known = queue.scope == "function" or starts_thread(root.op)
            return kept.nothing if known else kept.outside

        kept = KeptGroups(max(self.before.get(item.position, 0) for item in waits), change)
        found = Solver(analysis.conditions, [*waits, *commits, *calls], kept, start)
        return all(
            after[wait.position] >= found.before[wait].last[self.before[wait.position]]
            for wait in waits
            if wait in found.before
        )
