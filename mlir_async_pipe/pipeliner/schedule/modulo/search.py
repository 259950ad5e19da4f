"""The best schedule of a loop: exact by search for few nodes, the best of some orders for many.

Best is: the smallest interval, then the fewest stages, then the fewest bytes of versions, then
the fewest barriers, then the order nearest to the text. The candidates of `orders` come first;
where they meet the lower bounds nothing is left to search. Else kernel orders are built from the
front, and a beginning is dropped as soon as every order that begins so would need more stages
than allowed (branch and bound; E. R. Altman and G. R. Gao, "Optimal Modulo Scheduling Through
Enumeration", IJPP 1998). Neighbours that do not interact are kept in textual order only.

Of each beginning it is known what it can become. The moments of what is placed are known but for `slack` (the interval less what an iteration
holds the thread), which waits may use up anywhere. So every dependence has a least lag, and the
least lags give the fewest stages and versions that any order with this beginning needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from mlir_async_pipe.facts.flow.algorithms import reached
from mlir_async_pipe.pipeliner.schedule.modulo.problem import (
    TOLERANCE,
    DependenceEdge,
    Problem,
    Schedule,
    ScheduledNode,
    VersionedMemory,
    all_bounds,
    largest_ratio,
    needed_by,
)
from mlir_async_pipe.pipeliner.schedule.modulo.stages import (
    Stager,
    earliest_stages,
    is_legal,
    moments,
    whole_steps,
)
from mlir_async_pipe.pipeliner.schedule.modulo.trial import TrialResult


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
            stages[copy] + lag >= self.largest for copy, lag in self._spans.items()
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

    def _least_lag(
        self, edge: DependenceEdge, moments: dict[int, float], now: float, slack: float
    ) -> int:
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
            lag = (now if begin is None else begin) - (wait or 0)
            return max(1, whole_steps(source.delay + lag, self.interval))
        inside = (latest if wait is None else wait + slack) - (begin or 0)
        return whole_steps(source.delay - inside, self.interval)

    @staticmethod
    def _placed_first(edge: DependenceEdge, moments: dict[int, float]) -> bool:
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
        self, buffer: VersionedMemory, places: dict[int, int], lag_of: dict[tuple[int, int], int]
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


def _alike(a: ScheduledNode, b: ScheduledNode) -> bool:
    """Copies of one queue that take no time to issue, of the thread or the queue, and equally long to arrive."""
    free = (a.held, a.occupancy, b.held, b.occupancy) == (0, 0, 0, 0)
    return free and (a.queue, a.latency) == (b.queue, b.latency)


EXACT_NODES = 12
# Beginnings of orders, sets of lags, and schedules that one search looks at before it gives up
# proving: together below a second.
LARGEST_SEARCH = 6000
LARGEST_TRIES = 2000
LARGEST_TRIALS = 200


class ScheduleJudge(Protocol):
    """Tells what a schedule gives; None if it is refused."""

    def outcome(self, schedule: Schedule) -> TrialResult | None:
        """The outcome of one schedule."""


@dataclass(frozen=True)
class Found:
    """The best schedule, and whether it is proven to be the best there is."""

    best: TrialResult
    proven: bool


@dataclass
class _Budget:
    beginnings: int = LARGEST_SEARCH
    tries: int = LARGEST_TRIES
    trials: int = LARGEST_TRIALS

    @property
    def spent(self) -> bool:
        return min(self.beginnings, self.tries, self.trials) <= 0


@dataclass
class Search:
    """One search; `best` is the best outcome so far."""

    problem: Problem
    judge: ScheduleJudge
    best: TrialResult | None = None
    budget: _Budget = field(default_factory=_Budget)

    def run(self) -> Found | None:
        """The best schedule; None if every schedule is refused."""
        least = max(1e-3, all_bounds(self.problem)[0].cycles)
        self._try_candidates(least)
        self._try_usual(least)
        if self.best is None:
            return None
        if len(self.problem.nodes) > EXACT_NODES:
            return Found(self.best, proven=False)
        self._smaller_interval(least)
        self._fewer_stages()
        self._fewer_bytes()
        return Found(self.best, proven=not self.budget.spent)

    def _take(self, schedule: Schedule | None) -> bool:
        """Try a schedule; whether it is the best so far."""
        if schedule is None:
            return False
        found = self.judge.outcome(schedule)
        if found is None or (self.best is not None and found.key >= self.best.key):
            return False
        self.best = found
        return True

    def _try_candidates(self, least: float) -> None:
        """The candidate orders at the lower bound; where none keeps it within the largest number
        of stages, at the smallest interval that one keeps, within 0.5 %."""
        low, high = least, None
        interval = least
        while True:
            if self._try_orders(interval):
                high = interval
            else:
                low = interval
            if high is None:
                interval = 2 * low
                if interval > 1e12:
                    return
            elif high <= least or high <= low * 1.005:
                return
            else:
                interval = (low + high) / 2

    def _try_usual(self, least: float) -> None:
        """What `num_stages` gives, where the graph of moments says that it may be better."""
        for schedule in usual_schedules(self.problem):
            if is_legal(self.problem, schedule):
                interval, _ = largest_ratio(*moments(self.problem, schedule), least)
                hoped = (round(interval, 6), schedule.stage_count)
                if self.best is None or hoped <= self.best.key[:2]:
                    self._take(schedule)

    def _try_orders(self, interval: float) -> bool:
        """Try the candidate orders at an interval; whether one keeps it within the stages."""
        exact = len(self.problem.nodes) <= EXACT_NODES
        stager = Stager(self.problem, interval, self.problem.largest_stages, exact)
        kept = False
        for order in candidate_orders(self.problem, interval):
            for at_top in self.problem.wait_modes:
                schedule = stager.stages(order, at_top)
                kept = kept or (schedule is not None and self.judge.outcome(schedule) is not None)
                self._take(schedule)
        return kept

    def _smaller_interval(self, least: float) -> None:
        """Ask for less than the best until nothing gives less, or the bound is met."""
        assert self.best is not None
        if self.best.interval <= least + TOLERANCE:
            return
        asked = [least]
        while not self.budget.spent:
            interval = asked.pop() if asked else self.best.interval - 10 * TOLERANCE
            found = False
            for schedule in self._schedules(interval, self.problem.largest_stages):
                if self._take(schedule):
                    found = True
                    break
            if self.best.interval <= least + TOLERANCE:
                return
            if not found and not asked and interval > least:
                return

    def _fewer_stages(self) -> None:
        """The same interval with fewer stages."""
        assert self.best is not None
        improved = True
        while improved and self.best.schedule.stage_count > 1 and not self.budget.spent:
            improved = False
            largest = self.best.schedule.stage_count - 1
            for schedule in self._schedules(self.best.interval, largest):
                if self._take(schedule):
                    improved = True
                    break

    def _fewer_bytes(self) -> None:
        """The same interval and stages with fewer bytes, or with as many and fewer barriers."""
        assert self.best is not None
        improved = True
        while improved and not self.budget.spent:
            improved = False
            best = self.best
            everything = best.shared_bytes + best.private_bytes
            fewest = 1 if self.problem.has_barriers else 0
            # As many bytes again are of use only where that may save a barrier.
            most = everything if best.barriers <= fewest else everything + 1
            stages = best.schedule.stage_count
            for schedule in self._schedules(best.interval, stages, most):
                if self._take(schedule):
                    improved = True
                    break

    def _schedules(
        self, interval: float, largest: int, most_bytes: int | None = None
    ) -> Iterator[Schedule]:
        """Schedules that may keep the interval within `largest` stages, one an order."""
        stager = Stager(self.problem, interval, largest)
        for at_top in self.problem.wait_modes:
            partial = PartialOrders(self.problem, interval, largest, at_top)
            for order in partial.complete(self.budget, most_bytes):
                before = stager.tries
                schedule = stager.stages(order, at_top, most_bytes)
                self.budget.tries -= stager.tries - before
                if schedule is not None:
                    self.budget.trials -= 1
                    yield schedule
                if self.budget.spent:
                    return


# Orders --------------------------------------------------------------------------------------
#
# Kernel orders that are worth trying first, and all there are for loops of any size.
#
# A list scheduler places the nodes by their height, the longest path of delays to a sink at the
# interval, as B. R. Rau's iterative modulo scheduling does ("Iterative Modulo Scheduling", MICRO
# 1994); the order in the kernel is the order of the flat times modulo the interval. Beside it stand
# the orders that people write: what copies need and the copies first, or last, or the text's.


def candidate_orders(problem: Problem, interval: float) -> list[tuple[int, ...]]:
    """Orders to try, without repeats."""
    ahead = _with_producers(problem)
    textual = range(len(problem.nodes))
    found = [
        _copies_first(problem),
        tuple(textual),
        tuple(sorted(textual, key=lambda n: (n in ahead, n))),
        _after_last_user(problem),
        _list_schedule(problem, interval),
    ]
    return list(dict.fromkeys(found))


def _copies_first(problem: Problem) -> tuple[int, ...]:
    ahead = _with_producers(problem)
    return tuple(sorted(range(len(problem.nodes)), key=lambda n: (n not in ahead, n)))


def usual_schedules(problem: Problem) -> list[Schedule]:
    """What `num_stages` gives: what copies need and the copies in stage 0 and first in order, all
    others in the last stage."""
    ahead = _with_producers(problem)
    order = _copies_first(problem)
    return [
        Schedule(tuple(0 if n in ahead else last for n in range(len(order))), order, at_top)
        for last in range(1, problem.largest_stages)
        for at_top in problem.wait_modes
    ]


def _with_producers(problem: Problem) -> set[int]:
    """The copies, and what they depend on inside one iteration."""
    return needed_by(problem, (n for n, node in enumerate(problem.nodes) if node.asynchronous))


def _after_last_user(problem: Problem) -> tuple[int, ...]:
    """Each copy right after the last node that uses the buffers it writes: one version less."""
    order = [n for n, node in enumerate(problem.nodes) if not node.asynchronous]
    for number, node in enumerate(problem.nodes):
        if node.asynchronous:
            users = [e.target for e in problem.edges if e.source == number and e.target in order]
            last = max((order.index(user) for user in users), default=-1)
            order.insert(last + 1, number)
    return tuple(order)


def heights(problem: Problem, interval: float) -> list[float]:
    """The longest path of delays from each node to a sink, less the interval for each iteration
    of distance; paths that gain around a cycle are cut after one round of all nodes."""
    found = [node.delay for node in problem.nodes]
    for _ in problem.nodes:
        for edge in problem.edges:
            delay = problem.nodes[edge.source].delay
            over = delay + found[edge.target] - interval * edge.distance
            found[edge.source] = max(found[edge.source], over)
    return found


def _list_schedule(problem: Problem, interval: float) -> tuple[int, ...]:
    """The highest node that is ready goes to the first moment, modulo the interval, at which the
    thread is free for it; without such a moment, after what is there."""
    height = heights(problem, interval)
    begins: dict[int, float] = {}
    waiting = set(range(len(problem.nodes)))
    while waiting:
        ready = [n for n in waiting if not _unplaced_sources(problem, n, waiting)] or list(waiting)
        node = min(ready, key=lambda n: (-height[n], n))
        waiting.discard(node)
        earliest = 0.0
        for edge in problem.edges:
            if edge.target == node and edge.source in begins:
                delay = problem.nodes[edge.source].delay
                earliest = max(earliest, begins[edge.source] + delay - interval * edge.distance)
        begins[node] = _first_free(problem, node, earliest, begins, interval)
    return tuple(sorted(begins, key=lambda n: (begins[n] % interval, begins[n], n)))


def _unplaced_sources(problem: Problem, node: int, waiting: set[int]) -> bool:
    return any(
        e.target == node and e.distance == 0 and e.source in waiting and e.source != node
        for e in problem.edges
    )


def _first_free(
    problem: Problem, node: int, earliest: float, begins: dict[int, float], interval: float
) -> float:
    held = problem.nodes[node].held
    taken = [
        (begin % interval, begin % interval + problem.nodes[other].held)
        for other, begin in begins.items()
        if problem.nodes[other].held > 0
    ]
    if held <= 0:
        return earliest
    moments = [earliest, *(earliest + (end - earliest) % interval for _, end in taken)]
    for moment in sorted(moments):
        place = moment % interval
        if place + held <= interval and all(
            place + held <= begin or place >= end for begin, end in taken
        ):
            return moment
    return max(moments)
