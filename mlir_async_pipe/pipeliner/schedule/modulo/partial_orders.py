"""Kernel orders built from the front, with bounds on what each beginning can become.

The moments of what is placed are known but for `slack` (the interval less what an iteration
holds the thread), which waits may use up anywhere. So every dependence has a least lag, and the
least lags give the fewest stages and versions that any order with this beginning needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from mlir_async_pipe.facts.flow.algorithms import reached
from mlir_async_pipe.pipeliner.schedule.modulo.bounds import TOLERANCE
from mlir_async_pipe.pipeliner.schedule.modulo.problem import (
    Buffer,
    Edge,
    Node,
    Problem,
)
from mlir_async_pipe.pipeliner.schedule.modulo.stages import earliest_stages, whole_steps


@dataclass
class PartialOrders:
    """Enumerates the orders of a problem that may keep `interval` within `largest` stages, with
    waits at the top of a step or before their consumers."""

    problem: Problem
    interval: float
    largest: int
    at_top: bool
    _commuting: dict[tuple[int, int], bool] = field(default_factory=dict)
    _spans: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Stages that all that depends on a copy spans after the copy's: with a delay of
        k II + r, 0 < r <= II, k only if it fits into the II - r cycles of a step that are left
        when the copy arrives, else k + 1."""
        for number, node in enumerate(self.problem.nodes):
            if node.asynchronous:
                whole = max(1, whole_steps(node.delay, self.interval))
                rest = node.delay - (whole - 1) * self.interval
                held = sum(self.problem.nodes[n].held for n in descendants(self.problem, number))
                fits = held <= self.interval - rest + TOLERANCE
                self._spans[number] = whole - 1 if fits else whole

    def complete(self, budget: Any, most_bytes: int | None = None) -> Iterator[tuple[int, ...]]:
        """Whole orders, those near to the text first; each beginning that is looked at is taken
        off `budget.beginnings`. With `most_bytes` only orders that may need fewer bytes."""
        slack = self.interval - self.problem.thread_cycles
        if slack < -TOLERANCE:
            return
        yield from self._extend([], [], self.problem.barrier, max(0.0, slack), budget, most_bytes)

    def _extend(
        self,
        order: list[int],
        begins: list[float],
        now: float,
        slack: float,
        budget: Any,
        most_bytes: int | None,
    ) -> Iterator[tuple[int, ...]]:
        budget.beginnings -= 1
        if budget.spent:
            return
        moments = dict(zip(order, begins, strict=True))
        lags = [self._least_lag(edge, moments, now, slack) for edge in self.problem.edges]
        stages = earliest_stages(self.problem, lags, self.largest)
        if stages is None or any(
            stages[copy] + behind >= self.largest for copy, behind in self._spans.items()
        ):
            return
        if most_bytes is not None and self._least_bytes(order, lags) >= most_bytes:
            return
        if len(order) == len(self.problem.nodes):
            yield tuple(order)
            return
        for node in range(len(self.problem.nodes)):
            if node in moments or (order and self._swaps(order[-1], node)):
                continue
            yield from self._extend(
                [*order, node],
                [*begins, now],
                now + self.problem.nodes[node].held,
                slack,
                budget,
                most_bytes,
            )

    def _least_lag(self, edge: Edge, moments: dict[int, float], now: float, slack: float) -> int:
        """Steps between the ends of a dependence in every order with this beginning."""
        source, target = self.problem.nodes[edge.source], self.problem.nodes[edge.target]
        begin, wait = moments.get(edge.source), moments.get(edge.target)
        # Whether the source comes first in order; None while both are free.
        first = None if begin is None and wait is None else wait is None
        if begin is not None and wait is not None:
            first = begin < wait or self._placed_first(edge, moments)
        if not source.asynchronous:
            return 0 if first or first is None else 1
        latest = self.interval - target.held
        if self.at_top:
            # A wait at the top of a step, at moment 0; in its own step it stands with the target.
            from_top = max(
                1, whole_steps(source.delay + (now if begin is None else begin), self.interval)
            )
            inside = (latest if wait is None else wait + slack) - (begin or 0)
            return 0 if first is not False and source.delay <= inside + TOLERANCE else from_top
        if first is False:
            behind = (now if begin is None else begin) - (wait or 0)
            return max(1, whole_steps(source.delay + behind, self.interval))
        inside = (latest if wait is None else wait + slack) - (begin or 0)
        return whole_steps(source.delay - inside, self.interval)

    @staticmethod
    def _placed_first(edge: Edge, moments: dict[int, float]) -> bool:
        """Nodes that hold the thread for no time begin together: the dict keeps their order."""
        placed = list(moments)
        return placed.index(edge.source) < placed.index(edge.target)

    def _least_bytes(self, order: list[int], lags: list[int]) -> int:
        """Bytes of versions that every order with this beginning needs."""
        places = {node: place for place, node in enumerate(order)}
        lag_of = {
            (edge.source, edge.target): lag - edge.distance
            for edge, lag in zip(self.problem.edges, lags, strict=True)
        }
        return sum(
            buffer.bytes * self._least_versions(buffer, places, lag_of)
            for buffer in self.problem.buffers
        )

    def _least_versions(
        self, buffer: Buffer, places: dict[int, int], lag_of: dict[tuple[int, int], int]
    ) -> int:
        needed = 1
        readers: dict[int, set[int]] = {}
        for x, w in buffer.pairs:
            steps = lag_of.get((w, x))
            if steps is None:
                continue
            reads, writes = places.get(x), places.get(w)
            if reads is None and writes is None:
                # First in order the write is 1 more; last in order its lag is at least 1.
                needed = max(needed, steps, 1)
            else:
                later = reads is None or (writes is not None and reads > writes)
                needed = max(needed, steps + (1 if later else 0))
            if x in buffer.readers:
                readers.setdefault(w, set()).add(x)
        for writer, users in readers.items():
            needed = max(needed, self._versions_of_copy(writer, users))
        return needed

    def _versions_of_copy(self, writer: int, users: set[int]) -> int:
        """A copy with delay k II + r, 0 < r <= II, takes k + 1 versions if everything that reads
        it fits into II - r cycles of a step, else k + 2: its readers either stand before it, and
        begin at most II - r earlier, or after it, at least r later."""
        copy = self.problem.nodes[writer]
        if not copy.asynchronous:
            return 1
        whole = max(1, whole_steps(copy.delay, self.interval))
        rest = copy.delay - (whole - 1) * self.interval
        held = sum(self.problem.nodes[user].held for user in users)
        return whole if held <= self.interval - rest + TOLERANCE else whole + 1

    def _swaps(self, before: int, node: int) -> bool:
        """Whether `node` after `before` is the same as the other way round, which is nearer to
        the text."""
        if node > before:
            return False
        pair = (node, before)
        if pair not in self._commuting:
            self._commuting[pair] = self._commute(node, before)
        return self._commuting[pair]

    def _commute(self, a: int, b: int) -> bool:
        """Neighbours that may change places without changing anything else: no dependence and no
        buffer between them, and the same copies to wait for, or copies that cost nothing."""
        if any({edge.source, edge.target} == {a, b} for edge in self.problem.edges):
            return False
        if any({x, w} == {a, b} for buffer in self.problem.buffers for x, w in buffer.pairs):
            return False
        first, second = self.problem.nodes[a], self.problem.nodes[b]
        if first.asynchronous != second.asynchronous:
            return False
        if first.asynchronous:
            return _alike(first, second)
        return self._awaited(a) == self._awaited(b)

    def _awaited(self, node: int) -> frozenset[tuple[int, int]]:
        return frozenset(
            (edge.source, edge.distance)
            for edge in self.problem.edges
            if edge.target == node and self.problem.nodes[edge.source].asynchronous
        )


def descendants(problem: Problem, node: int) -> set[int]:
    """All that depends on a node inside an iteration, without the node."""

    def after(source: int) -> list[int]:
        return [e.target for e in problem.edges if e.source == source and e.distance == 0]

    return reached(after(node), after)


def _alike(a: Node, b: Node) -> bool:
    """Copies of one queue that take no time to issue, no turn, and equally long to arrive."""
    free = (a.held, a.occupancy, b.held, b.occupancy) == (0, 0, 0, 0)
    return free and (a.queue, a.latency) == (b.queue, b.latency)
