"""Which idle commits may go so that no wait of their queue gets stricter on any path.

The counts are derived again as if the commits had gone, and compared with what is left of the
groups that each wait let stay in flight before. Where that fails the commits are halved, so those
that do no harm still go.

    kept[j]  =  the most that are left, over all paths, of the j groups committed last

A wait that let N groups stay in flight lets the same ops stay if its new count is at least
kept[N]: then it is stricter on no path. (A prologue that commits as many groups as the iterations
of its loop may not lose one: the loop's count would sink, and with it what the loop overlaps.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.facts.flow.items import Item
from mlir_async_pipe.facts.flow.solver import Domain, Solver
from mlir_async_pipe.vocabulary import Queue
from mlir_async_pipe.waits.count import Analysis
from mlir_async_pipe.waits.redundant.in_flight import starts_thread
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


# -- what is left of the youngest groups ----------------------------------------------------------------

NONE = -(1 << 60)

Change = Literal["kept", "dropped", "any", "none"]
"""What an op does: it commits a group that stays, or that joins the next one, or it may commit
any number that stay, or none."""


class Kept(NamedTuple):
    """What paths keep: `last[j]` the most of their j youngest groups, `NONE` if all have fewer;
    `all[n]` the most on those that commit n groups, up to as many as `last` tells."""

    last: tuple[int, ...]
    all: dict[int, int]


class KeptGroups(Domain[Kept]):
    """The domain, for windows of 0 to `most` groups; `change` says what items do."""

    def __init__(self, most: int, change: Callable[[Item], Change]) -> None:
        self.most = most
        self.unit = self._path(0)
        self.never = Kept((NONE,) * (most + 1), {})
        # Nobody knows how many groups there are, and all may stay.
        self.outside = Kept(tuple(range(most + 1)), {n: n for n in range(most + 1)})
        # There are no groups before: the youngest ones are none.
        self.nothing = Kept((0,) * (most + 1), {})
        worth = {"none": self.unit, "any": self.outside}
        worth |= {"kept": self._path(0, 1), "dropped": self._path(0, 0)}
        self.over = lambda item: worth[change(item)]

    def _path(self, *kept: int) -> Kept:
        """A path on which so many of its youngest groups stay; the last number is for all."""
        room = self.most + 1
        last = (*kept, *[NONE] * room)[:room]
        return Kept(last, {len(kept) - 1: kept[-1]} if len(kept) <= room else {})

    def then(self, first: Kept, later: Kept) -> Kept:
        """Some youngest groups are all of the later path, or reach back into the first one."""
        if self.never in (first, later):
            return self.never
        last = list(later.last)
        every: dict[int, int] = {}
        for number, kept in later.all.items():
            for before, more in enumerate(first.last[: self.most + 1 - number]):
                if more != NONE:
                    last[number + before] = max(last[number + before], more + kept)
            for before, more in first.all.items():
                if number + before <= self.most:
                    every[number + before] = max(every.get(number + before, 0), more + kept)
        return Kept(tuple(last), every)

    def join(self, first: Kept, second: Kept) -> Kept:
        """The path that keeps more."""
        every = first.all | second.all
        for number in first.all.keys() & second.all.keys():
            every[number] = max(first.all[number], second.all[number])
        return Kept(tuple(map(max, first.last, second.last)), every)

    def past(self, item: Item, through: list[Kept]) -> Kept:
        """What may have been committed in another thread is not known."""
        return self.outside
