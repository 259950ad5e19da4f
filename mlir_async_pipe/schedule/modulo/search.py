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

from mlir_async_pipe.schedule.modulo.bounds import TOLERANCE, all_bounds, largest_ratio
from mlir_async_pipe.schedule.modulo.orders import candidate_orders, usual_schedules
from mlir_async_pipe.schedule.modulo.partial_orders import PartialOrders
from mlir_async_pipe.schedule.modulo.problem import Problem, Schedule
from mlir_async_pipe.schedule.modulo.speed import is_legal, moments
from mlir_async_pipe.schedule.modulo.stages import Stager
from mlir_async_pipe.schedule.modulo.trial import Outcome

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
