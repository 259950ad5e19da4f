"""Stages for a given kernel order: the fewest, then those with the fewest bytes of versions.

For a fixed order every dependence asks for a number of steps between its ends, so the stages
solve difference constraints: the earliest ones are longest paths (stage scheduling: A. E.
Eichenberger and E. S. Davidson, MICRO 1995). Where an interval is not kept, some copy on the
critical cycle needs one step more, and each of them is tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import ceil

from mlir_async_pipe.pipeliner.schedule.modulo.bounds import TOLERANCE, positive_cycle
from mlir_async_pipe.pipeliner.schedule.modulo.problem import Problem, Schedule, bytes_of, needed_by
from mlir_async_pipe.pipeliner.schedule.modulo.speed import lag, last_of_group, moments

# Tries to raise lags of one order; each is one longest-path computation.
LARGEST_TRIES = 400


def whole_steps(cycles: float, interval: float) -> int:
    """The smallest number of intervals that cover `cycles`."""
    return max(0, ceil(cycles / interval - TOLERANCE))


def least_lags(problem: Problem, order: Sequence[int], interval: float) -> list[int]:
    """Steps that each dependence needs at least: 0 if its source is first in order, else 1; and
    for a copy, what its delay takes where its target begins as late as it can."""
    places = {node: place for place, node in enumerate(order)}
    lags = []
    for edge in problem.edges:
        source, target = problem.nodes[edge.source], problem.nodes[edge.target]
        least = 0 if places[edge.source] < places[edge.target] else 1
        if source.asynchronous:
            late = whole_steps(source.delay - interval + target.held, interval)
            least = max(least, late)
        lags.append(least)
    return lags


def earliest_stages(problem: Problem, lags: Sequence[int], largest: int) -> list[int] | None:
    """The smallest stages with stage_target + distance - stage_source >= lag for every
    dependence; None if they need more than `largest` stages, or do not exist."""
    stages = [0] * len(problem.nodes)
    for _ in range(len(stages) * largest + 1):
        changed = False
        for edge, steps in zip(problem.edges, lags, strict=True):
            needed = stages[edge.source] + steps - edge.distance
            if needed > stages[edge.target]:
                stages[edge.target] = needed
                changed = True
                if needed >= largest:
                    return None
        if not changed:
            return stages
    return None


@dataclass
class Stager:
    """Finds stages for kernel orders under one interval, within `largest` stages; `tries` counts
    the sets of lags that were looked at."""

    problem: Problem
    interval: float
    largest: int
    every_way: bool = True
    tries: int = 0

    def stages(
        self, order: tuple[int, ...], at_top: bool, most_bytes: int | None = None
    ) -> Schedule | None:
        """The schedule of an order with the fewest stages that keeps the interval, and with
        those the fewest bytes; None if there is none, or none with less than `most_bytes`.

        Best first: least lags give stages; where a copy arrives too late under them, one of the
        lags on the critical cycle has to grow; without `every_way` all of them do.
        """
        places = [0] * len(order)
        for place, node in enumerate(order):
            places[node] = place
        pending: list[tuple[int, tuple[int, int], int, tuple[int, ...], tuple[int, ...]]] = []
        seen: set[tuple[int, ...]] = set()

        def consider(lags: tuple[int, ...]) -> None:
            if lags in seen or len(seen) >= LARGEST_TRIES:
                return
            seen.add(lags)
            self.tries += 1
            earliest = earliest_stages(self.problem, lags, self.largest)
            if earliest is not None:
                stages = self._moved_later(lags, earliest, places)
                cost = bytes_of(self.problem, stages, places)
                if most_bytes is not None and sum(cost) >= most_bytes:
                    return
                heappush(pending, (max(stages), cost, len(seen), lags, tuple(stages)))

        consider(tuple(least_lags(self.problem, order, self.interval)))
        while pending:
            _, _, _, lags, stages = heappop(pending)
            schedule = Schedule(stages, order, at_top)
            late = self._too_late(schedule)
            if late is None:
                return schedule
            longer = {number: lag(self.problem.edges[number], stages) + 1 for number in late}
            for chosen in [[number] for number in late] if self.every_way else [late]:
                consider(tuple(longer[n] if n in chosen else old for n, old in enumerate(lags)))
        return None

    def _too_late(self, schedule: Schedule) -> list[int] | None:
        """The dependences on a critical cycle that exceeds the interval, and those on the copy
        that is committed last with one of them; None if the interval is kept."""
        count, arcs = moments(self.problem, schedule)
        cycle = positive_cycle(count, arcs, self.interval)
        if cycle is None:
            return None
        edges = self.problem.edges
        late = list(dict.fromkeys(arc.edge for arc in cycle if arc.edge >= 0))
        last = last_of_group(self.problem, schedule)
        if not self.every_way:
            return late
        with_them = {last[edges[n].source] for n in late} - {edges[n].source for n in late}
        return late + [n for n, edge in enumerate(edges) if edge.source in with_them]

    def _moved_later(self, lags: Sequence[int], stages: list[int], places: list[int]) -> list[int]:
        """Move nodes to later stages where that saves bytes, alone or with all that they depend
        on; the last stage stays."""
        problem = self.problem
        last = _latest_stages(problem, lags, max(stages))
        cost = bytes_of(problem, stages, places)
        improved = True
        while improved:
            improved = False
            for node in sorted(range(len(stages)), key=lambda n: (-last[n], -n)):
                for group in ({node}, needed_by(problem, [node])):
                    moved = [stage + (n in group) for n, stage in enumerate(stages)]
                    if any(stage > high for stage, high in zip(moved, last, strict=True)):
                        continue
                    found = bytes_of(problem, moved, places)
                    if found < cost and _keeps(problem, lags, moved):
                        cost, stages, improved = found, moved, True
        return stages


def _latest_stages(problem: Problem, lags: Sequence[int], last: int) -> list[int]:
    stages = [last] * len(problem.nodes)
    changed = True
    while changed:
        changed = False
        for edge, steps in zip(problem.edges, lags, strict=True):
            allowed = stages[edge.target] + edge.distance - steps
            if allowed < stages[edge.source]:
                stages[edge.source] = allowed
                changed = True
    return stages


def _keeps(problem: Problem, lags: Sequence[int], stages: Sequence[int]) -> bool:
    return all(
        stages[edge.target] + edge.distance - stages[edge.source] >= steps
        for edge, steps in zip(problem.edges, lags, strict=True)
    )
