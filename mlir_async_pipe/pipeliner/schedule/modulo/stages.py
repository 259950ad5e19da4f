"""Stages for a given kernel order: the fewest, then those with the fewest bytes of versions.

For a fixed order every dependence asks for a number of steps between its ends, so the stages
solve difference constraints: the earliest ones are longest paths (stage scheduling: A. E.
Eichenberger and E. S. Davidson, MICRO 1995). Where an interval is not kept, some copy on the
critical cycle needs one step more, and each of them is tried.

How fast a schedule is, the interval of its kernel says, and what is critical. The kernel is a graph of moments: the top of a step, the begin of each node on the thread, the
begin of each copy on its queue, and its arrival. Arcs say how much later one moment comes than
another, and how many steps lie between; the interval is the largest ratio of cycles to steps
over all cycles of the graph (F. Baccelli et al., "Synchronization and Linearity", 1992).

    copy in stage 0, first in order, latency 500; its user in stage 2, computing 300 cycles
      thread   300 cycles a step                                        300
      copy     500 cycles, and back over 2 steps                        250
    the interval is 300; with the user in stage 1 it is 500
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise
from math import ceil

from mlir_async_pipe.pipeliner.schedule.modulo.problem import (
    TOLERANCE,
    Arc,
    DependenceEdge,
    Problem,
    Schedule,
    bytes_of,
    needed_by,
    positive_cycle,
)


def lag(edge: DependenceEdge, stages: Sequence[int]) -> int:
    """Kernel steps between the source of a dependence and its target."""
    return stages[edge.target] + edge.distance - stages[edge.source]


def is_legal(problem: Problem, schedule: Schedule) -> bool:
    """T(source, k) < T(target, k + distance) for every dependence, T = (k + stage, place)."""
    places = schedule.places()
    for edge in problem.edges:
        between = lag(edge, schedule.stages)
        if between < 0 or (between == 0 and places[edge.source] >= places[edge.target]):
            return False
    return True


def moments(problem: Problem, schedule: Schedule) -> tuple[int, list[Arc]]:
    """The number of moments of a legal schedule, and the arcs between them."""
    nodes, order = problem.nodes, schedule.order
    count = len(nodes)
    top, begins, arrives = count, count + 1, 2 * count + 1
    arcs = [Arc(top, order[0], problem.barrier, 0)]
    arcs += [Arc(a, b, nodes[a].held, 0) for a, b in pairwise(order)]
    arcs.append(Arc(order[-1], top, nodes[order[-1]].held, 1))
    queues: dict[str, list[int]] = {}
    for node in order:
        if nodes[node].asynchronous:
            queues.setdefault(nodes[node].queue, []).append(node)
    for members in queues.values():
        for node, following in zip(members, [*members[1:], members[0]], strict=True):
            # The copy after the last one of a step is the first of the next.
            steps = 1 if following == members[0] else 0
            arcs += [
                Arc(node, begins + node, 0, 0),
                Arc(begins + node, arrives + node, nodes[node].delay, 0),
                Arc(begins + node, begins + following, nodes[node].occupancy, steps),
                Arc(arrives + node, arrives + following, 0, steps),
            ]
    committed_with = last_of_group(problem, schedule)
    for number, edge in enumerate(problem.edges):
        if nodes[edge.source].asynchronous:
            steps = lag(edge, schedule.stages)
            at_top = schedule.wait_at_top and steps > 0
            waits = top if at_top else edge.target
            arcs.append(Arc(arrives + committed_with[edge.source], waits, 0, steps, number))
    return 3 * count + 1, arcs


def last_of_group(problem: Problem, schedule: Schedule) -> dict[int, int]:
    """For each copy the last one that is committed with it: neighbours in the kernel of one
    stage, one queue and one group of the input."""
    runs: list[list[int]] = []
    before: int | None = None
    for node in schedule.order:
        found = problem.nodes[node]
        if found.asynchronous:
            if before is not None and _joined(problem, schedule, before, node):
                runs[-1].append(node)
            else:
                runs.append([node])
        before = node
    return {node: run[-1] for run in runs for node in run}


def _joined(problem: Problem, schedule: Schedule, before: int, node: int) -> bool:
    a, b = problem.nodes[before], problem.nodes[node]
    same = (a.queue, a.group) == (b.queue, b.group)
    return same and schedule.stages[before] == schedule.stages[node]


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
    each_alone: bool = True
    tries: int = 0

    def stages(
        self, order: tuple[int, ...], at_top: bool, most_bytes: int | None = None
    ) -> Schedule | None:
        """The schedule of an order with the fewest stages that keeps the interval, and with
        those the fewest bytes; None if there is none, or none with less than `most_bytes`.

        Best first: least lags give stages; where a copy arrives too late under them, one of the
        lags on the critical cycle has to grow; without `each_alone` all of them do.
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
            for chosen in [[number] for number in late] if self.each_alone else [late]:
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
        if not self.each_alone:
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
