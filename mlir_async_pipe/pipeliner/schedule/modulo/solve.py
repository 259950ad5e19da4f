"""The best modulo schedule of a problem, proven optimal: branch and bound over integers.

The best schedule has the smallest interval II, then the fewest stages, then the fewest bytes of live
ranges (a range from t_w to t_x takes ceil((t_x - t_w) / II) versions), then the smallest length.

How it is found. A pair of tasks that share a unit has an integer k with

    k * II + cycles_i <= t_j - t_i <= (k + 1) * II - cycles_j

so with all k fixed what is left are difference constraints, and longest paths tell whether they can be met (branch
and bound over disjunctions: Altman and Gao, "Optimal Modulo Scheduling Through Enumeration", IJPP 1998;
Eichenberger and Davidson, PLDI 1997, for the integer k). The longest paths between all tasks are kept closed: a new
constraint costs one pass over the matrix. They bound every t_j - t_i, which leaves few k, often one. A fixed offset
o is such a pair with moment 0: k * II + o <= t_j <= k * II + o.

With all k of a unit fixed its tasks follow one another in a circle, a travelling salesman's tour of II
cycles. The sum of the nearest successors bounds it, and the task with the fewest successors that are near
enough is branched on first (Y. Caseau and F. Laburthe, "Solving Small TSPs with Constraints", ICLP 1997).

Two facts make the interval cheap to prove. Without a limit of stages or bytes tasks of different recurrences can be
moved apart by whole intervals, so precedences between them do not matter to the interval. And a schedule for II is
one for II + 1 with stages and offsets kept; so the smallest interval is found by bisection.

    worked example   units {tensor, special}; S: tensor 32, then E: special 40, then P: tensor 32
                     tensor is held for 64 cycles: II >= 64. One iteration after the other takes
                     104; with S an iteration ahead (t = 0, 32, 72 + 64 k) the bound is met
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import ceil
from typing import Literal

import numpy as np
import numpy.typing as npt

from mlir_async_pipe.facts.flow.algorithms import components

# The problem -------------------------------------------------------------------------------------
#
# A loop as a modulo scheduling problem: numbers only, no IR.
#
#     t_j + d * II >= t_i + delay            for every precedence i -> j at distance d
#     (t_j - t_i) mod II >= cycles of i      for tasks i, j that hold one unit, either way round
#
# A task begins at t_j = stage_j * II + offset_j and holds its units from then on, without a break.
# The kernel is cut at moment 0. All cycles are whole, and all schedules repeat every II cycles (B. R.
# Rau, "Iterative Modulo Scheduling", MICRO 1994).
#
# `bounds_of` are lower bounds of the initiation interval II, and what sets them:
#
#     II >= cycles for which an iteration holds a unit                              (ResMII)
#     II >= sum of delays on a cycle of precedences / sum of their distances        (RecMII)
#     II >= sum of delays on a path / the stages that it may take
#
# The largest ratio of a cycle is found as by E. Lawler, "Combinatorial Optimization", 1976: a ratio is
# too small as long as some cycle has positive weight under it, and that cycle gives the next larger one.
#
#     worked example   copy (latency 500) -> load (20) -> store (30), distance 1 to the copy:
#                      (500 + 20 + 30) / 1 = 550 cycles; the thread is held for 50 of them


TOLERANCE = 1e-6
Matrix = npt.NDArray[np.int64]


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


REGISTERS = "registers"


@dataclass(frozen=True)
class LiveRange:
    """Memory of an iteration: bytes of one version; uses (w, x, d): task x uses what w wrote d iterations before."""

    bytes: int
    uses: tuple[tuple[int, int, int], ...]
    memory: str = "workgroup"


@dataclass(frozen=True)
class ModuloProblem:
    """Tasks, what orders them, and what they keep alive; `largest_stages` bounds t_j < S * II.

    The units in `interleaved` are held in pieces between those of other tasks, as issue slots are: they
    bound the interval by what an iteration takes of them, and order nothing. `in_order` is a unit that
    runs one task after the other to its end (a thread): none begins, and no step ends, inside
    another one, even if it takes 0 cycles. `limits` are the bytes that all versions in a memory may take; in
    `REGISTERS`, which are no slots, those that are alive at a time (MaxLive; A. Eichenberger and others,
    "Optimum Modulo Schedules for Minimum Register Requirements", ICS 1995).
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

    @cached_property
    def in_registers(self) -> Matrix:
        """A column for each use of a value in registers: number and bytes of the value, its (w, x, d)."""
        values = [live for live in self.ranges if live.memory == REGISTERS]
        uses = [(n, live.bytes, *use) for n, live in enumerate(values) for use in live.uses]
        return np.array(uses, dtype=np.int64).reshape(-1, 5).T

    def held_in_order(self, task: int) -> int:
        return 0 if self.in_order in self.interleaved else self.tasks[task].cycles(self.in_order)

    def length(self, begins: Sequence[int]) -> int:
        return max(t for t, task in zip(begins, self.tasks, strict=True) if self.is_placed(task))

    def is_placed(self, task: Task) -> bool:
        """Whether a task has a stage: what runs beside a thread may end after all of them."""
        return not self.in_order or any(unit == self.in_order for unit, _ in task.uses)

    @cached_property
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

    @cached_property
    def recurrences(self) -> list[int]:
        """For each task the first one of its strongly connected component."""
        after: dict[int, list[int]] = {n: [] for n in range(len(self.tasks))}
        for p in self.precedences:
            after[p.source].append(p.target)
        first: dict[int, int] = {}
        return [
            first.setdefault(head, n)
            for n, head in sorted(components(after, after.__getitem__).items())
        ]


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
    own = (live for live in problem.ranges if memory in (None, live.memory))
    return sum(live.bytes * versions_of(problem, begins, interval, live) for live in own)


def alive(problem: ModuloProblem, paths: Matrix, interval: int) -> Matrix:
    """Bytes in registers, at least, when each task y begins, if t_j - t_i >= `paths[i, j]`. A value lives from the
    begin of its task to that of its last use: floor((t_y - t_w) / II) - floor((t_y - t_x) / II) + d times."""
    value, size, w, x, d = problem.in_registers
    count = len(problem.tasks)
    before, after = paths[w, :count] // interval, -paths[:count, x].T // interval
    living = np.zeros((value.max(initial=-1) + 1, count), dtype=np.int64)
    np.maximum.at(living, value, size[:, None] * (before - after + d[:, None]))
    return living.sum(axis=0)


def taken(problem: ModuloProblem, begins: Sequence[int], interval: int, memory: str) -> int:
    """The bytes that a limit of a memory is about."""
    if memory != REGISTERS:
        return bytes_of_ranges(problem, begins, interval, memory)
    return int(alive(problem, _apart(begins), interval).max())


def _apart(begins: Sequence[int]) -> Matrix:
    return np.subtract.outer(np.array(begins), np.array(begins)).T


def is_kept(problem: ModuloProblem, begins: Sequence[int], interval: int) -> bool:
    """Whether begins keep every precedence and offset, no unit is held twice at a time, and limits hold."""
    return (
        all(
            begins[p.target] + p.distance * interval >= begins[p.source] + p.delay
            for p in problem.precedences
        )
        and all(
            (begins[j] - begins[i] - a) % interval <= interval - a - b
            for i, j, a, b in problem.pairs
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
        and all(taken(problem, begins, interval, memory) <= most for memory, most in problem.limits)
    )


# Bounds --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bound:
    """A lower bound of the interval: the unit that is held for so long, or ("") the cycle of precedences through
    `tasks` over `distance` iterations; `by_stages`: the path through `tasks`, which has to fit into so many stages."""

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


def positive_cycle(
    count: int, arcs: Sequence[Precedence], interval: float
) -> list[Precedence] | None:
    """A cycle of precedences whose delays exceed `interval` times its distance, None if there is none. Bellman and
    Ford's longest paths, from all nodes at once."""
    weights = [arc.delay - interval * arc.distance for arc in arcs]
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
    cycle: list[Precedence] = []
    node = last
    while not cycle or node != last:
        arc = arcs[reached[node]]
        cycle.append(arc)
        node = arc.source
    return cycle[::-1]


def largest_ratio(
    count: int, arcs: Sequence[Precedence], least: float = 0.0
) -> tuple[float, list[Precedence] | None]:
    """The largest ratio of delay to distance over all cycles, and a cycle that has it; `least` and None if no cycle
    exceeds it. Raises ValueError for a cycle of positive delay without distance, which no loop that can run has."""
    ratio, critical = least, None
    while True:
        cycle = positive_cycle(count, arcs, ratio)
        if cycle is None:
            return ratio, critical
        distance = sum(arc.distance for arc in cycle)
        if distance <= 0:
            raise ValueError("a cycle of precedences without distance")
        ratio, critical = sum(arc.delay for arc in cycle) / distance, cycle


def bounds_of(problem: ModuloProblem) -> list[Bound]:
    """ResMII of each unit, RecMII, and the bound of the stages, the largest first."""
    found = []
    count = len(problem.tasks)
    for unit in problem.units:
        holders = tuple(n for n, task in enumerate(problem.tasks) if task.cycles(unit))
        total = sum(problem.tasks[n].cycles(unit) for n in holders)
        found.append(Bound(total, unit, holders))
    arcs = list(problem.precedences)
    ratio, cycle = largest_ratio(count, arcs)
    if cycle is not None:
        nodes = tuple(arc.source for arc in cycle)
        found.append(Bound(ratio, "", nodes, sum(arc.distance for arc in cycle)))
    # From the cut (node `count`) to a task, and back after at most all stages.
    stages = problem.largest_stages
    arcs += [Precedence(count, n, 0, 0) for n in range(count)]
    arcs += [
        Precedence(n, count, problem.held_in_order(n), stages)
        for n, task in enumerate(problem.tasks)
        if problem.is_placed(task)
    ]
    ratio, cycle = largest_ratio(count + 1, arcs, max([0, *(bound.cycles for bound in found)]))
    if cycle is not None:
        nodes = tuple(arc.source for arc in cycle if arc.source < count)
        found.append(Bound(ratio, "", nodes, stages, by_stages=True))
    return sorted(found, key=lambda bound: -bound.cycles)


NEVER = -(1 << 40)
UNLIMITED = 1 << 50
# Successors of a task among which a search decides before anything else.
FEW = 4
# Instead of an arc: two tasks of a unit that may begin at any time, and what is never followed by the other.
FREE, NOT_NEXT = -2, -1


@dataclass(frozen=True)
class ModuloSchedule:
    """The best schedule that was found, with its certificate. `begins` are the t_j, `length` is the last of them.
    No interval below `least` is possible: it is a bound of `bounds`, or every smaller interval was searched. So for
    `least_stages`, at this interval, `least_bytes`, in these stages, and `least_length`, with these bytes."""

    interval: int
    begins: tuple[int, ...]
    bytes: int
    length: int
    least: int
    least_stages: int
    least_bytes: int
    least_length: int
    bounds: tuple[Bound, ...]

    @property
    def stages(self) -> int:
        return self.length // self.interval + 1

    @property
    def interval_proven(self) -> bool:
        return self.interval == self.least

    @property
    def gap(self) -> float:
        """How much smaller an interval might still be, as a share of this one."""
        return (self.interval - self.least) / self.interval

    @property
    def bound(self) -> Bound | None:
        """The bound that the interval meets, None if only a search proves it, or nothing does."""
        best = self.bounds[0]
        return best if ceil(best.cycles - TOLERANCE) == self.interval else None

    def certificate(self, within: str = "") -> str:
        """In words: what makes a smaller interval impossible, and what is not proven; `within` are the limits."""
        if self.bound is not None:
            said = f"no smaller interval: {self.bound}"
        elif self.interval_proven:
            said = f"no smaller interval{within}: every order of the units was tried at {self.least - 1}"
        else:
            said = f"not proven: a smaller interval{within} is at least {self.least} ({self.gap:.1%} less)"
        open_ = [
            f"{what} at least {least} (is {found})"
            for what, found, least in (
                ("stages", self.stages, self.least_stages),
                ("bytes", self.bytes, self.least_bytes),
                ("length", self.length, self.least_length),
            )
            if least < found
        ]
        return f"{said}; not proven: {', '.join(open_)}" if open_ else said


Begins = tuple[int, ...]


@dataclass
class Budget:
    """How many constraints a search may still add. They are counted, and no time is taken, so that
    an answer is the same on every machine: 100,000 are 1 to 3 seconds at 24 tasks."""

    left: int
    looked_at: int = 0

    def take(self) -> None:
        """Raises OutOfBudget."""
        self.looked_at += 1
        if self.looked_at > self.left:
            raise OutOfBudget

    def tried(
        self, most: int, attempt: Callable[[Budget], Begins | None]
    ) -> tuple[Begins | None, bool]:
        """What an attempt gives that must not take all of it, and whether it was complete."""
        part = Budget(max(0, min(most, self.left - self.looked_at)))
        try:
            return attempt(part), True
        except OutOfBudget:
            return None, False
        finally:
            self.looked_at += part.looked_at


class OutOfBudget(Exception):
    """The search ended before it was complete."""


@dataclass
class _Smallest:
    """The smallest number for which there is a schedule, and what none is below. `attempt` gives a schedule of a
    number, or less if there is a `number_of` it; None if there is none. If there is one for n, there is one for
    n + 1. The first number asked for is `least`, since bounds are often met."""

    attempt: Callable[[int, Budget], Begins | None]
    number_of: Callable[[Begins], int] | None
    budget: Budget
    most: int
    least: int
    begins: Begins | None = None
    number: int = -1

    def improve(self, begins: Begins) -> Begins:
        """The same with the smallest number, from a schedule that there is."""
        assert self.number_of is not None
        self.begins, self.number = begins, self.number_of(begins)
        self.run(self.number)
        return self.begins

    def run(self, largest: int) -> None:
        low = asked = self.least
        step = 1
        while low <= largest and (self.begins is None or low < self.number):
            found, proven = self.budget.tried(self.most, partial(self.attempt, asked))
            if found is not None:
                self.begins = found
                self.number = asked if self.number_of is None else self.number_of(found)
                asked = (low + self.number) // 2
                continue
            low = asked + 1
            if proven:
                self.least = max(self.least, low)
            if self.begins is None:
                asked, step = min(low + step, largest), 2 * step
            else:
                asked = (low + self.number) // 2


CONSTRAINTS = 120_000


def solve(
    problem: ModuloProblem, constraints: int = CONSTRAINTS, shortest: int = 1
) -> ModuloSchedule | None:
    """The best schedule, with its certificate; None if none was found within `largest_stages`. `constraints` bound
    the searches for interval, stages, bytes and length together: an answer within fewer may be less proven, never
    less legal. No interval below `shortest` is tried. Raises ValueError for a cycle of precedences without
    distance."""
    bounds = bounds_of(problem)
    budget = Budget(constraints)
    # One iteration after the other is a schedule.
    serial = sum(max((c for _, c in task.uses), default=0) for task in problem.tasks)
    serial += sum(max(0, p.delay) for p in problem.precedences)
    least = max(shortest, ceil(bounds[0].cycles - TOLERANCE))
    interval = _Smallest(partial(_begins_at, problem), None, budget, constraints // 3, least)
    interval.run(max(1, serial, least))
    if interval.begins is None:
        return None
    ii = interval.number

    def fewer_stages(stages: int, budget: Budget) -> Begins | None:
        return _Placement(replace(problem, largest_stages=stages), ii).attempt(budget)

    def stages_of(begins: Begins) -> int:
        return problem.length(begins) // ii + 1

    longest = _Placement(problem, ii).least_length()
    stages = _Smallest(fewer_stages, stages_of, budget, constraints // 6, longest // ii + 1)
    begins = stages.improve(interval.begins)
    place = _Placement(replace(problem, largest_stages=stages.number), ii)
    fewest = _Smallest(
        place.attempt_bytes, place.bytes_of, budget, constraints // 6, place.least_bytes()
    )
    begins = fewest.improve(begins)
    place.most[0] = fewest.number
    length = _Smallest(
        place.attempt_length, problem.length, budget, constraints // 12, place.least_length()
    )
    begins = length.improve(begins)
    return ModuloSchedule(
        ii,
        begins,
        place.bytes_of(begins),
        length.number,
        interval.least,
        stages.least,
        fewest.least,
        length.least,
        tuple(bounds),
    )


# The interval --------------------------------------------------------------------------------


def _begins_at(problem: ModuloProblem, interval: int, budget: Budget) -> Begins | None:
    """Begins at an interval, None if there are none; raises OutOfBudget."""
    apart = _Placement(problem, interval, together=False).run(budget)
    if apart is None:
        return None
    begins = _moved_apart(problem, apart, interval)
    if problem.length(begins) < problem.largest_stages * interval and is_kept(
        problem, begins, interval
    ):
        return begins
    return _Placement(problem, interval).attempt(budget)


def _moved_apart(problem: ModuloProblem, begins: Sequence[int], interval: int) -> Begins:
    """Recurrences moved later by whole intervals until the precedences between them hold."""
    part = problem.recurrences
    moved = [
        begin - begin // interval * interval * (part.count(p) == 1)
        for begin, p in zip(begins, part, strict=True)
    ]
    changed = True
    while changed:
        changed = False
        for p in problem.precedences:
            lacks = moved[p.source] + p.delay - p.distance * interval - moved[p.target]
            if lacks > 0:
                changed = True
                steps, own = -(-lacks // interval) * interval, part[p.target]
                moved = [t + steps * (one == own) for t, one in zip(moved, part, strict=True)]
    first = min(moved) // interval * interval
    return tuple(begin - first for begin in moved)


class _Placement:
    """Begins of tasks at one interval: longest paths between all of them, which constraints extend. `together`:
    with all precedences and the limits of stages and bytes; without, each recurrence by itself. The last row is
    that of moment 0, where the kernel is cut."""

    def __init__(self, problem: ModuloProblem, interval: int, *, together: bool = True) -> None:
        self.problem, self.interval = problem, interval
        tasks = problem.tasks
        count = self.zero = len(tasks)
        # What is branched on first.
        self.rule: Literal["tours", "nearest", "fewest"] = "nearest"
        self.start = np.full((count + 1, count + 1), NEVER, dtype=np.int64)
        np.fill_diagonal(self.start, 0)
        part = problem.recurrences
        for p in problem.precedences:
            if together or part[p.source] == part[p.target]:
                weight = p.delay - p.distance * interval
                self.start[p.source, p.target] = max(self.start[p.source, p.target], weight)
        latest = (problem.largest_stages if together else 1) * interval - 1
        # What has no stage waits for what is before it, and less than II for its units.
        beside = latest + count * interval + sum(max(0, p.delay) for p in problem.precedences)
        for n in range(count):
            if together or part[n] == n:
                self.start[self.zero, n] = 0
                self.start[n, self.zero] = -(latest if problem.is_placed(tasks[n]) else beside)
        for middle in range(count + 1):
            through = self.start[:, middle, None] + self.start[middle]
            np.maximum(self.start, through, out=self.start)
        pairs = [*problem.pairs]
        for n, task in enumerate(tasks):
            if task.offset is not None:
                pairs.append((self.zero, n, task.offset, interval - task.offset))
            elif problem.held_in_order(n):
                pairs.append((self.zero, n, 0, problem.held_in_order(n)))
        on_units = np.arange(len(pairs))
        # Pairs of one set have one k.
        sets = list(range(len(pairs)))
        known = {row[:2]: number for number, row in enumerate(pairs)}
        for i, j, first, second in problem.linked if together else ():
            if (i, j) not in known:
                known[i, j] = len(pairs)
                sets.append(len(pairs))
                pairs.append((i, j, 0, 0))
            sets.append(sets[known[i, j]])
            pairs.append((first, second, 0, 0))
        # Arcs, one way through all pairs and then the other way, k one way where it is -1 - k the other way:
        # k * II + held <= t_target - t_source <= k * II + room.
        one, other, a, b = np.array(pairs, dtype=np.int64).reshape(-1, 4).T
        self.source, self.target = np.concatenate([one, other]), np.concatenate([other, one])
        self.held, self.room = np.concatenate([a, b]), interval - np.concatenate([b, a])
        self.set_of = np.array(sets + [n + len(sets) for n in sets], dtype=np.int64)
        self.members, self.successor = self._circles(on_units)
        # Ranges: the number, its source, a use, and how much later than the use's begin it ends.
        uses = [
            (n, w, x, d * interval + problem.held_in_order(x))
            for n, live in enumerate(problem.ranges)
            for w, x, d in live.uses
        ]
        self.of, self.w, self.x, self.over = np.array(uses, dtype=np.int64).reshape(-1, 4).T
        # Bytes of a version: of all memory in the first row, then of each that is limited.
        limits = dict(problem.limits)
        self.registers = limits.pop(REGISTERS, None)
        memories = [None, *limits]
        rows = [
            [live.bytes if memory in (None, live.memory) else 0 for live in problem.ranges]
            for memory in memories
        ]
        self.sizes = np.array(rows, dtype=np.int64)
        self.most = np.array([UNLIMITED, *limits.values()], dtype=np.int64)
        if not together and all(task.offset is None for task in tasks):
            self._cut(part)

    def _circles(self, pairs: Matrix) -> tuple[Matrix, Matrix]:
        """The tasks of each unit, in rows of one length, and the arcs of `pairs` between any two of a row."""
        none = self.zero + 1
        arcs = np.full((none + 1, none + 1), FREE, dtype=np.int64)
        one, other = self.source[pairs], self.target[pairs]
        arcs[one, other], arcs[other, one] = pairs, pairs + len(self.held) // 2
        np.fill_diagonal(arcs, NOT_NEXT)
        arcs[:none, none], arcs[none, none] = NOT_NEXT, FREE
        uses = [dict(task.uses) for task in self.problem.tasks]
        units = [unit for unit in self.problem.units if unit not in self.problem.interleaved]
        circles = [[n for n, used in enumerate(uses) if unit in used] for unit in units]
        width = max(map(len, circles), default=0)
        rows = [circle + [none] * (width - len(circle)) for circle in circles if len(circle) > 1]
        members = np.array(rows, dtype=np.int64).reshape(len(rows), width)
        return members, arcs[members[:, :, None], members[:, None, :]]

    def _cut(self, part: list[int]) -> None:
        """A kernel may be cut anywhere where no task in order runs: here before the one that the fewest may
        follow, at moment 0. And free tasks that hold the same units for as long may stand in one order."""
        tasks = self.problem.tasks
        roots = [n for n, task in enumerate(tasks) if part[n] == n and self.problem.is_placed(task)]
        state = _State(self, self.start)
        among = np.isin(self.members, roots)
        firsts = [int(self.members[state.fewest(among)])] if among.any() else roots[:1]
        orders = [(first, self.zero) for first in firsts]
        last: dict[tuple[tuple[str, int], ...], int] = {}
        for n, task in enumerate(tasks):
            if part.count(part[n]) == 1:
                orders.append((last.get(task.uses, n), n))
                last[task.uses] = n
        for before, after in orders:
            found = extended(self.start, before, after, 0)
            assert found is not None
            self.start = found

    def run(self, budget: Budget) -> Begins | None:
        """Begins that keep all but limits of bytes, None if there are none; raises OutOfBudget. What is branched on
        first decides how long a search takes, so two rules take turns."""
        if (np.diagonal(self.start) > 0).any():
            return None
        for branches in (2000, 2000, 10000, 10000):
            self.rule = "fewest" if self.rule == "tours" else "tours"
            found, complete = budget.tried(branches, partial(self._descend, self.start))
            if complete:
                return found
        self.rule = "tours"
        return self._descend(self.start, budget)

    def attempt(self, budget: Budget) -> Begins | None:
        """Begins that keep everything."""
        if not self.problem.limits:
            return self.run(budget)
        return self._descend(self.start, budget, self.most)

    def attempt_bytes(self, most: int, budget: Budget) -> Begins | None:
        """Begins with so few bytes. Short schedules come first: they leave few k."""
        limits = np.array([most, *self.most[1:]])
        short = self._within(self.least_length() + 2 * self.interval)
        found, _ = budget.tried(budget.left // 4, partial(self._descend, short, most=limits))
        return found or self._descend(self.start, budget, limits)

    def attempt_length(self, length: int, budget: Budget) -> Begins | None:
        """Begins up to `length`."""
        return self._descend(self._within(length), budget, self.most)

    def _within(self, length: int) -> Matrix | None:
        paths: Matrix | None = self.start
        for n, task in enumerate(self.problem.tasks):
            placed = self.problem.is_placed(task)
            if paths is not None and placed and -paths[n, self.zero] > length:
                paths = extended(paths, n, self.zero, -length)
        return paths

    def _descend(
        self, start: Matrix | None, budget: Budget, most: Matrix | None = None
    ) -> Begins | None:
        """Depth first: each state may still lead somewhere. `most`: the bytes that may be taken."""
        pending = [] if start is None or (np.diagonal(start) > 0).any() else [start]
        while pending:
            state = self.closed(pending.pop(), budget)
            if state is None:
                continue
            paths = state.paths
            if most is not None:
                versions = self._versions(paths)
                if (self.sizes @ versions > most).any():
                    continue
                # The largest range whose uses may still come too late for its fewest versions.
                latest = versions[self.of] * self.interval - self.over
                late = -paths[self.x, self.w] > latest
                if late.any():
                    n = int(np.argmax(np.where(late, self.sizes[0][self.of], -1)))
                    w, x, last = int(self.w[n]), int(self.x[n]), int(latest[n])
                    branches = [extended(paths, x, w, -last), extended(paths, w, x, last + 1)]
                    pending += [found for found in reversed(branches) if found is not None]
                    continue
            limited = self.registers if most is not None else None
            if limited is not None and alive(self.problem, paths, self.interval).max() > limited:
                continue
            split = self.branches(state)
            if split is not None:
                pending += [found for found in reversed(split) if found is not None]
                continue
            begins = self.earliest(paths)
            if limited is None or taken(self.problem, begins, self.interval, REGISTERS) <= limited:
                return begins
            pending += self._shorter(paths, _apart(begins))
        return None

    def _shorter(self, paths: Matrix, apart: Matrix) -> list[Matrix]:
        """Of what lives at the worst t_y, but need not, the largest value: how many iterations of its task, or of
        its use, have come by then, one number by itself, and all others; what frees it is the last."""
        _, size, w, x, _ = self.problem.in_registers
        y = int(np.argmax(alive(self.problem, apart, self.interval)))
        fewest = paths[w, y] // self.interval - -paths[y, x] // self.interval
        living = apart[w, y] // self.interval - apart[x, y] // self.interval
        n = int(np.argmax(np.where(living > fewest, size, -1)))
        made = paths[w[n], y] // self.interval < -paths[y, w[n]] // self.interval
        task = int(w[n] if made else x[n])
        least = (int(paths[task, y]) // self.interval + 1) * self.interval
        later, sooner = extended(paths, y, task, 1 - least), extended(paths, task, y, least)
        both = [sooner, later] if made else [later, sooner]
        return [found for found in both if found is not None]

    def _versions(self, paths: Matrix) -> Matrix:
        """The fewest versions of each range."""
        versions = np.ones(len(self.problem.ranges), dtype=np.int64)
        needed = -((-(paths[self.w, self.x] + self.over)) // self.interval)
        np.maximum.at(versions, self.of, needed)
        return versions

    def bytes_of(self, begins: Begins) -> int:
        return bytes_of_ranges(self.problem, begins, self.interval)

    def least_bytes(self) -> int:
        return int(self.sizes[0] @ self._versions(self.start))

    def least_length(self) -> int:
        return self.problem.length(self.start[-1, :-1].tolist())

    def earliest(self, paths: Matrix) -> tuple[int, ...]:
        return tuple(int(t) for t in paths[self.zero, : self.zero])

    def closed(self, paths: Matrix, budget: Budget) -> _State | None:
        """All that follows where a pair has one k left, or none beyond its first and last; None if a pair has none, or
        a unit no tour."""
        found: Matrix | None = paths
        while found is not None:
            budget.take()
            state = _State(self, found)
            if (state.others < 0).any():
                return None
            missing = state.short()
            if missing is None:
                if (state.idle < 0).any():
                    return None
                if self.rule == "tours":
                    missing = state.late()
            if missing is None:
                return state
            found = extended(found, *missing)
        return None

    def branches(self, state: _State) -> list[Matrix | None] | None:
        """What a state splits into, None if each pair has one k: by what comes next on a unit ("tours"), if it
        is one of a few; by a pair whose begins are the nearest to fixed; or by one with the fewest k. The
        longest tasks come first."""
        paths, pairs, low, k = state.paths, len(state.others), state.low, state.k
        several = state.others > 0
        if self.problem.linked:
            # Tasks of 0 cycles at one moment have two k: what keeps either in all pairs of a set is left as it is.
            for least in (k[:pairs], k[:pairs] + state.others):
                kept = least * self.interval + self.held[:pairs] <= low[:pairs]
                kept &= -low[pairs:] <= least * self.interval + self.room[:pairs]
                of_set = np.ones(pairs, dtype=bool)
                np.logical_and.at(of_set, self.set_of[:pairs], kept)
                several &= ~of_set[self.set_of[:pairs]]
        if not several.any():
            return None
        successor = state.next_of(several) if self.rule == "tours" else None
        if successor is not None:
            i, j, least, most = successor
            following = extended(paths, i, j, least)
            return [
                None if following is None else extended(following, j, i, -most),
                extended(paths, i, j, most + 1),
                extended(paths, j, i, 1 - least),
            ]
        free = state.others if self.rule == "fewest" else -low[:pairs] - low[pairs:]
        free = 64 * free - self.held[:pairs] - self.held[pairs:]
        n = int(np.argmin(np.where(several, free, UNLIMITED)))
        # The first k of the pair, and of those of its set, by itself, and all others.
        first = int(k[n]) * self.interval
        sooner: Matrix | None = paths
        later: Matrix | None = paths
        for row in np.flatnonzero(self.set_of == self.set_of[n]).tolist():
            i, j = int(self.source[row]), int(self.target[row])
            if sooner is not None:
                sooner = extended(sooner, j, i, -first - int(self.room[row]))
            if later is not None:
                later = extended(later, i, j, first + self.interval + int(self.held[row]))
        return [sooner, later]


class _State:
    """What longest paths say of the k, and of the tours: how soon each task of a unit may be followed.

    The soonest for all of its tasks add up to II at most. So none is followed later than its soonest and
    what is left, for which the unit is idle.

        worked example   tasks hold (unit, issue slot) for (1, 4), (8, 2), (9, 0) cycles, II = 18: no cycle is
                         idle, so (9, 0) follows (1, 4); (8, 2) would begin 4 cycles after it, not 1
    """

    def __init__(self, place: _Placement, paths: Matrix) -> None:
        self.place, self.paths = place, paths
        pairs = len(place.held) // 2
        self.low = paths[place.source, place.target]
        self.k = -((place.room - self.low) // place.interval)
        if place.problem.linked:
            largest = np.full(len(self.k), -UNLIMITED, dtype=np.int64)
            np.maximum.at(largest, place.set_of, self.k)
            self.k = largest[place.set_of]
        # How many k each pair has besides the first.
        self.others = -1 - self.k[:pairs] - self.k[pairs:]

    def short(self) -> tuple[int, int, int] | None:
        """What the first k, or the last, of a pair demands of its begins, and is still missing the most."""
        least = self.k * self.place.interval + self.place.held
        lacks = least - self.low
        if lacks.max(initial=0) == 0:
            return None
        n = int(np.argmax(lacks))
        return int(self.place.source[n]), int(self.place.target[n]), int(least[n])

    @cached_property
    def soonest(self) -> Matrix:
        """Cycles from the begin of a task of a unit to that of each other one, if it comes next, at least."""
        one = np.concatenate([self.others, self.others]) == 0
        cycles = np.where(one, self.low - self.k * self.place.interval, self.place.held)
        # Those of FREE and of NOT_NEXT come last.
        return np.concatenate([cycles, [0, UNLIMITED]])[self.place.successor]

    @cached_property
    def idle(self) -> Matrix:
        """Cycles for which each unit is idle, at most; below 0, there is no tour."""
        return self.place.interval - self.soonest.min(axis=2, initial=UNLIMITED).sum(axis=1)

    @cached_property
    def latest(self) -> Matrix:
        """Cycles from the begin of each task of a unit to that of the next one, at most."""
        return self.soonest.min(axis=2, initial=UNLIMITED) + self.idle[:, None]

    @cached_property
    def may(self) -> npt.NDArray[np.bool_]:
        """Whether a task of a unit may be followed by each other one."""
        return self.soonest <= self.latest[:, :, None]

    @cached_property
    def count(self) -> Matrix:
        """How many may follow each task of a unit."""
        return self.may.sum(axis=2)

    def fewest(self, among: npt.NDArray[np.bool_]) -> tuple[int, int]:
        """The unit that is idle for the fewest cycles, and its task that the fewest may follow."""
        score = np.where(among, self.idle[:, None] * among.size + self.count, UNLIMITED)
        return divmod(int(np.argmin(score)), among.shape[1])

    def late(self) -> tuple[int, int, int] | None:
        """What comes next for certain comes in time: such a constraint that is missing."""
        place = self.place
        alone = self.may & (self.count == 1)[:, :, None] & (place.successor >= 0)
        if not alone.any():
            return None
        unit, task, _ = np.nonzero(alone)
        arcs = place.successor[alone]
        most = self.k[arcs] * place.interval + self.latest[unit, task]
        # The other way: a number below 0 counts from the end.
        back = arcs - len(self.others)
        late = (self.k[arcs] + self.k[back] == -1) & (-self.low[back] > most)
        if not late.any():
            return None
        n = int(np.argmax(late))
        return int(place.target[arcs[n]]), int(place.source[arcs[n]]), -int(most[n])

    def next_of(self, several: npt.NDArray[np.bool_]) -> tuple[int, int, int, int] | None:
        """(i, j, least, most): least <= t_j - t_i <= most if j comes next after i; None if any of more than a
        few may. The pair is one of those with several k."""
        place = self.place
        unknown = np.concatenate([several, several, [False, False]])[place.successor] & self.may
        few = unknown.any(axis=2) & (self.count <= FEW)
        if not few.any():
            return None
        unit, task = self.fewest(few)
        soonest = np.where(unknown[unit, task], self.soonest[unit, task], UNLIMITED)
        n = int(np.argmin(soonest))
        arc, latest = int(place.successor[unit, task, n]), int(self.latest[unit, task])
        top = int(self.k[arc]) * place.interval
        if self.low[arc] > top + latest:
            top += place.interval
        return int(place.source[arc]), int(place.target[arc]), top + int(soonest[n]), top + latest


def extended(paths: Matrix, i: int, j: int, weight: int) -> Matrix | None:
    """The longest paths with t_j - t_i >= weight as well; None if that closes a cycle that gains."""
    if paths[j, i] + weight > 0:
        return None
    through = paths[:, i, None] + (paths[j] + weight)
    return np.maximum(paths, through)
