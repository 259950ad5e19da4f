"""A loop as a modulo scheduling problem: numbers only, no IR.

    t_j + d * II >= t_i + delay            for every precedence i -> j at distance d
    (t_j - t_i) mod II >= cycles of i      for tasks i, j that hold one unit, either way round

A task begins at t_j = stage_j * II + offset_j and holds its units from then on, without a break.
The kernel is cut at moment 0. All cycles are whole, and all schedules repeat every II cycles (B. R.
Rau, "Iterative Modulo Scheduling", MICRO 1994).

`bounds_of` are lower bounds of the initiation interval II, and what sets them:

    II >= cycles for which an iteration holds a unit                              (ResMII)
    II >= sum of delays on a cycle of precedences / sum of their distances        (RecMII)
    II >= sum of delays on a path / the stages that it may take

The largest ratio of a cycle is found as by E. Lawler, "Combinatorial Optimization", 1976: a ratio is
too small as long as some cycle has positive weight under it, and that cycle gives the next larger one.

    worked example   copy (latency 500) -> load (20) -> store (30), distance 1 to the copy:
                     (500 + 20 + 30) / 1 = 550 cycles; the thread is held for 50 of them
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

TOLERANCE = 1e-6


@dataclass(frozen=True)
class Task:
    """What is placed as one piece: the cycles for which it holds each unit, from its begin on, and its
    offset, if it begins so many cycles after the top of a step, whichever step that is."""

    uses: tuple[tuple[str, int], ...]
    offset: int | None = None

    def cycles(self, unit: str) -> int:
        return dict(self.uses).get(unit, 0)


@dataclass(frozen=True)
class Precedence:
    """`target` of iteration k + distance begins at least `delay` cycles after `source` of iteration k."""

    source: int
    target: int
    delay: int
    distance: int


@dataclass(frozen=True)
class LiveRange:
    """Memory of an iteration: the bytes of one version, and its uses (w, x, d): what task w writes is
    used by task x d iterations later."""

    bytes: int
    uses: tuple[tuple[int, int, int], ...]
    memory: str = "workgroup"


@dataclass(frozen=True)
class ModuloProblem:
    """Tasks, what orders them, and what they keep alive; `largest_stages` bounds t_j < S * II.

    The units in `interleaved` are held in pieces between those of other tasks, as issue slots are: they
    bound the interval by what an iteration takes of them, and order nothing. `in_order` is a unit that
    runs one task after the other to its end (a thread): none begins, and no step ends, inside
    another one, even if it takes 0 cycles. `limits` are the bytes that all versions in a memory may take.
    `linked` are (i, j, p, q): as many iterations of i begin before j as of p before q; queues complete
    in the order in which they were given their copies.
    """

    tasks: tuple[Task, ...]
    precedences: tuple[Precedence, ...]
    ranges: tuple[LiveRange, ...] = ()
    largest_stages: int = 8
    interleaved: frozenset[str] = frozenset()
    in_order: str = ""
    limits: tuple[tuple[str, int], ...] = ()
    linked: tuple[tuple[int, int, int, int], ...] = ()

    @cached_property
    def units(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(unit for task in self.tasks for unit, _ in task.uses))

    def held_in_order(self, task: int) -> int:
        return 0 if self.in_order in self.interleaved else self.tasks[task].cycles(self.in_order)

    def length(self, begins: Sequence[int]) -> int:
        """The last begin."""
        return max(t for t, task in zip(begins, self.tasks, strict=True) if self.is_placed(task))

    def is_placed(self, task: Task) -> bool:
        """Whether a task has a stage: what runs beside a thread may end after all of them."""
        return not self.in_order or any(unit == self.in_order for unit, _ in task.uses)

    def pairs(self) -> list[tuple[int, int, int, int]]:
        """Tasks i < j that share a unit, and the longest that each holds one that they share."""
        found = []
        for j, right in enumerate(self.tasks):
            for i, left in enumerate(self.tasks[:j]):
                if left.offset is not None and right.offset is not None:
                    continue
                on_both = {u for u, _ in right.uses} - self.interleaved
                shared = [(a, right.cycles(u), u) for u, a in left.uses if u in on_both]
                shared = [
                    (a, b, u) for a, b, u in shared if max(a, b) * (u == self.in_order) or a * b
                ]
                if shared:
                    found.append((i, j, max(a for a, _, _ in shared), max(b for _, b, _ in shared)))
        return found


def versions_of(
    problem: ModuloProblem, begins: Sequence[int], interval: int, live: LiveRange
) -> int:
    """Iterations of which a range is alive at a time: V = ceil((end of the last use - t_w) / II)."""
    ends = [
        begins[x] + d * interval + problem.held_in_order(x) - begins[w] for w, x, d in live.uses
    ]
    return max([1, *(-(-end // interval) for end in ends)])


def bytes_of_ranges(
    problem: ModuloProblem, begins: Sequence[int], interval: int, memory: str | None = None
) -> int:
    """Bytes of all versions that are alive at a time, of one memory or of all."""
    return sum(
        live.bytes * versions_of(problem, begins, interval, live)
        for live in problem.ranges
        if memory in (None, live.memory)
    )


def is_kept(problem: ModuloProblem, begins: Sequence[int], interval: int) -> bool:
    """Whether begins keep every precedence and offset, no unit is held twice at a time, and limits hold."""
    return (
        all(
            begins[p.target] + p.distance * interval >= begins[p.source] + p.delay
            for p in problem.precedences
        )
        and all(
            (begins[j] - begins[i] - a) % interval <= interval - a - b
            for i, j, a, b in problem.pairs()
        )
        and all(
            begins[n] % interval == task.offset
            if task.offset is not None
            else begins[n] % interval + problem.held_in_order(n) <= interval
            for n, task in enumerate(problem.tasks)
        )
        and all(
            # The k of both pairs: from t_j - t_i <= (k + 1) * II to k * II <= t_j - t_i.
            max(-(-(begins[x] - begins[w]) // interval) - 1 for w, x in ((i, j), (p, q)))
            <= min((begins[x] - begins[w]) // interval for w, x in ((i, j), (p, q)))
            for i, j, p, q in problem.linked
        )
        and all(
            bytes_of_ranges(problem, begins, interval, memory) <= most
            for memory, most in problem.limits
        )
    )


# Bounds --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Arc:
    """`target` comes at least `weight` cycles after `source` of `steps` intervals before."""

    source: int
    target: int
    weight: float
    steps: int


@dataclass(frozen=True)
class Bound:
    """A lower bound of the interval: the unit that is held for so long, or ("") the cycle of
    precedences through `tasks` over `distance` iterations; `by_stages`: the path through `tasks`,
    which has to fit into so many stages."""

    cycles: float
    unit: str
    tasks: tuple[int, ...]
    distance: int = 0
    by_stages: bool = False

    def __str__(self) -> str:
        if self.unit:
            named = self.unit if self.unit.startswith("the ") else f"the unit '{self.unit}'"
            return f"{named}, which is never idle"
        if self.by_stages:
            return f"what {self.distance} stages hold"
        over = "an iteration" if self.distance == 1 else f"{self.distance} iterations"
        return f"a recurrence over {over}"


def positive_cycle(count: int, arcs: Sequence[Arc], interval: float) -> list[Arc] | None:
    """A cycle of arcs whose weights exceed `interval` times its steps, None if there is none.

    Bellman and Ford's longest paths, from all nodes at once.
    """
    weights = [arc.weight - interval * arc.steps for arc in arcs]
    longest = [0.0] * count
    reached: list[int] = [-1] * count
    last = -1
    for _ in range(count + 1):
        last = -1
        for number, arc in enumerate(arcs):
            found = longest[arc.source] + weights[number]
            if found > longest[arc.target] + TOLERANCE:
                longest[arc.target] = found
                reached[arc.target] = number
                last = arc.target
        if last < 0:
            return None
    # `last` was still improved after `count` rounds: walking back leads into a cycle.
    for _ in range(count):
        last = arcs[reached[last]].source
    cycle: list[Arc] = []
    node = last
    while not cycle or node != last:
        arc = arcs[reached[node]]
        cycle.append(arc)
        node = arc.source
    return cycle[::-1]


def largest_ratio(
    count: int, arcs: Sequence[Arc], least: float = 0.0
) -> tuple[float, list[Arc] | None]:
    """The largest ratio of weight to steps over all cycles, and a cycle that has it; `least` and None
    if no cycle exceeds it. Raises ValueError for a cycle of positive weight without steps, which no
    loop that can run has."""
    ratio, critical = least, None
    while True:
        cycle = positive_cycle(count, arcs, ratio)
        if cycle is None:
            return ratio, critical
        steps = sum(arc.steps for arc in cycle)
        if steps <= 0:
            raise ValueError("a cycle of precedences without distance")
        ratio, critical = sum(arc.weight for arc in cycle) / steps, cycle


def bounds_of(problem: ModuloProblem) -> list[Bound]:
    """ResMII of each unit, RecMII, and the bound of the stages, the largest first."""
    found = []
    count = len(problem.tasks)
    for unit in problem.units:
        holders = tuple(n for n, task in enumerate(problem.tasks) if task.cycles(unit))
        total = sum(problem.tasks[n].cycles(unit) for n in holders)
        found.append(Bound(total, unit, holders))
    arcs = [Arc(p.source, p.target, p.delay, p.distance) for p in problem.precedences]
    ratio, cycle = largest_ratio(count, arcs)
    if cycle is not None:
        nodes = tuple(arc.source for arc in cycle)
        found.append(Bound(ratio, "", nodes, sum(arc.steps for arc in cycle)))
    # From the cut (node `count`) to a task, and back after at most all stages.
    stages = problem.largest_stages
    arcs += [Arc(count, n, 0, 0) for n in range(count)]
    arcs += [
        Arc(n, count, problem.held_in_order(n), stages)
        for n, task in enumerate(problem.tasks)
        if problem.is_placed(task)
    ]
    ratio, cycle = largest_ratio(count + 1, arcs, max([0, *(bound.cycles for bound in found)]))
    if cycle is not None:
        nodes = tuple(arc.source for arc in cycle if arc.source < count)
        found.append(Bound(ratio, "", nodes, stages, by_stages=True))
    return sorted(found, key=lambda bound: -bound.cycles)
