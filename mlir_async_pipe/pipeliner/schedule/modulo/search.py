"""The best schedule of a loop: exact by search for few nodes, the best of some orders for many.

Best is: the smallest interval, then the fewest stages, then the fewest bytes of versions, then
the fewest barriers, then the order nearest to the text. The candidates of `orders` come first;
where they meet the lower bounds nothing is left to search. Else kernel orders are built from the
front, and a beginning is dropped as soon as every order that begins so would need more stages
than allowed (branch and bound; E. R. Altman and G. R. Gao, "Optimal Modulo Scheduling Through
Enumeration", IJPP 1998). Neighbours that do not interact are kept in textual order only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from mlir_async_pipe.pipeliner.schedule.modulo.bounds import TOLERANCE, all_bounds, largest_ratio
from mlir_async_pipe.pipeliner.schedule.modulo.partial_orders import PartialOrders
from mlir_async_pipe.pipeliner.schedule.modulo.problem import Problem, Schedule, needed_by
from mlir_async_pipe.pipeliner.schedule.modulo.speed import is_legal, moments
from mlir_async_pipe.pipeliner.schedule.modulo.stages import Stager
from mlir_async_pipe.pipeliner.schedule.modulo.trial import Outcome

EXACT_NODES = 12
# Beginnings of orders, sets of lags, and schedules that one search looks at before it gives up
# proving: together below a second.
LARGEST_SEARCH = 6000
LARGEST_TRIES = 2000
LARGEST_TRIALS = 200


class Judge(Protocol):
    """Tells what a schedule gives; None if it is refused."""

    def outcome(self, schedule: Schedule) -> Outcome | None:
        """The outcome of one schedule."""


@dataclass(frozen=True)
class Found:
    """The best schedule, and whether it is proven to be the best there is."""

    best: Outcome
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
    judge: Judge
    best: Outcome | None = None
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
        _behind_last_user(problem),
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


def _behind_last_user(problem: Problem) -> tuple[int, ...]:
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
