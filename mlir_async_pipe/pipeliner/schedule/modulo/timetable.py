"""Timetables over several functional units, proven optimal: numbers only, no IR.

    t_j + d * II >= t_i + delay            for every precedence i -> j at distance d
    (t_j - t_i) mod II >= cycles of i      for tasks i, j that hold one unit, either way round

A task begins at t_j = stage_j * II + offset_j and holds its units from then on, without a break. The
best timetable has the smallest interval II, then the fewest bytes of live ranges (a range from t_w
to t_x takes ceil((t_x - t_w) / II) versions), then the smallest length. All cycles are whole.

How it is found. A pair of tasks that share a unit has an integer k with

    k * II + cycles_i <= t_j - t_i <= (k + 1) * II - cycles_j

so with all k fixed what is left are difference constraints, and longest paths tell whether they can
be met (branch and bound over disjunctions: Altman and Gao, "Optimal Modulo Scheduling Through
Enumeration", IJPP 1998; Eichenberger and Davidson, PLDI 1997, for the integer k). The longest paths
between all tasks are kept closed: a new constraint costs one pass over the matrix. They bound
every t_j - t_i, which leaves few k, often one.

Two facts make the interval cheap to prove. Without a limit of stages tasks of different recurrences
can be moved apart by whole intervals, so precedences between them do not matter to the interval.
And a timetable for II is one for II + 1 with stages and offsets kept, because delays are not
negative; so the smallest interval is found by bisection.

    worked example   units {tensor, special}; S: tensor 32, then E: special 40, then P: tensor 32
                     tensor is held for 64 cycles: II >= 64. One iteration after the other takes
                     104; with S an iteration ahead (t = 0, 32, 72 + 64 k) the bound is met
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import ceil

import numpy as np
import numpy.typing as npt

from mlir_async_pipe.pipeliner.schedule.modulo.problem import Arc, largest_ratio

Matrix = npt.NDArray[np.int64]
NEVER = -(1 << 40)


@dataclass(frozen=True)
class Task:
    """What is placed as one piece: the cycles for which it holds each unit, from its begin on."""

    uses: tuple[tuple[str, int], ...]

    def cycles(self, unit: str) -> int:
        return dict(self.uses).get(unit, 0)


@dataclass(frozen=True)
class Precedence:
    """`target` of iteration k + distance begins at least `delay` >= 0 cycles after `source` of
    iteration k."""

    source: int
    target: int
    delay: int
    distance: int


@dataclass(frozen=True)
class LiveRange:
    """Memory that `source` writes and `targets` use: the bytes of one version. Uses at a distance
    are that many iterations later."""

    bytes: int
    source: int
    targets: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class TimetableProblem:
    """Tasks, what orders them, and what they keep alive; `largest_stages` bounds t_j < S * II. The
    units in `interleaved` are held in pieces between those of other tasks, as issue slots are: they bound
    the interval by what an iteration takes of them, and order nothing."""

    tasks: tuple[Task, ...]
    precedences: tuple[Precedence, ...]
    ranges: tuple[LiveRange, ...] = ()
    largest_stages: int = 8
    interleaved: frozenset[str] = frozenset()

    @cached_property
    def units(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(unit for task in self.tasks for unit, _ in task.uses))

    def pairs(self) -> list[tuple[int, int, int, int]]:
        """Tasks i < j that share a unit, and the longest that each holds one that they share."""
        found = []
        for j, right in enumerate(self.tasks):
            for i, left in enumerate(self.tasks[:j]):
                units = [u for u, _ in left.uses if u not in self.interleaved]
                shared = [(left.cycles(u), right.cycles(u)) for u in units]
                shared = [pair for pair in shared if min(pair) > 0]
                if shared:
                    found.append((i, j, max(a for a, _ in shared), max(b for _, b in shared)))
        return found


@dataclass(frozen=True)
class Bound:
    """A lower bound of the interval: the unit that is held for so long, or ("") the cycle of
    precedences through `tasks` over `distance` iterations."""

    cycles: int
    unit: str
    tasks: tuple[int, ...]
    distance: int = 0

    def __str__(self) -> str:
        if self.unit:
            return f"the unit '{self.unit}', which is never idle"
        over = "an iteration" if self.distance == 1 else f"{self.distance} iterations"
        return f"a recurrence over {over}"


@dataclass(frozen=True)
class Timetable:
    """The best timetable that was found, with its certificate.

    `begins` are the t_j, `length` is the last of them. No interval below `least` is possible: it is
    a bound of `bounds`, or every smaller interval was searched. So for `least_bytes`, at this
    interval, and `least_length`, with these bytes. `looked_at`: constraints that were tried.
    """

    interval: int
    begins: tuple[int, ...]
    bytes: int
    length: int
    least: int
    least_bytes: int
    least_length: int
    bounds: tuple[Bound, ...]
    looked_at: int

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
        return self.bounds[0] if self.bounds[0].cycles == self.interval else None

    def certificate(self) -> str:
        """In words: what makes a smaller interval impossible, and what is not proven."""
        if self.bound is not None:
            said = f"no smaller interval: {self.bound}"
        elif self.interval_proven:
            said = f"no smaller interval: every order of the units was tried at {self.least - 1}"
        else:
            said = f"not proven: a smaller interval is at least {self.least} ({self.gap:.1%} less)"
        open_ = [
            f"{what} at least {least} (is {found})"
            for what, found, least in (
                ("bytes", self.bytes, self.least_bytes),
                ("length", self.length, self.least_length),
            )
            if least < found
        ]
        return "; ".join([said, *(f"not proven: {', '.join(open_)}" for _ in open_[:1])])


def bounds_of(problem: TimetableProblem) -> list[Bound]:
    """ResMII of each unit and RecMII (Rau 1994), the largest first."""
    found = []
    for unit in problem.units:
        holders = tuple(n for n, task in enumerate(problem.tasks) if task.cycles(unit))
        total = sum(problem.tasks[n].cycles(unit) for n in holders)
        found.append(Bound(total, unit, holders))
    arcs = [Arc(p.source, p.target, p.delay, p.distance) for p in problem.precedences]
    ratio, cycle = largest_ratio(len(problem.tasks), arcs)
    if cycle is not None:
        steps = sum(arc.steps for arc in cycle)
        if steps <= 0:
            raise ValueError("a cycle of precedences without distance")
        found.append(Bound(ceil(ratio - 1e-9), "", tuple(a.source for a in cycle), steps))
    longest = max((c for task in problem.tasks for _, c in task.uses), default=0)
    found = found or [Bound(max(1, longest), "", ())]
    return sorted(found, key=lambda bound: -bound.cycles)


def bytes_of_ranges(problem: TimetableProblem, begins: Sequence[int], interval: int) -> int:
    """Bytes of all versions that are alive at a time."""
    return sum(
        live.bytes
        * max(
            [1]
            + [
                -(-(begins[x] + d * interval - begins[live.source]) // interval)
                for x, d in live.targets
            ]
        )
        for live in problem.ranges
    )


def is_kept(problem: TimetableProblem, begins: Sequence[int], interval: int) -> bool:
    """Whether a timetable keeps every precedence, and no unit is held twice at a time."""
    return all(
        begins[p.target] + p.distance * interval >= begins[p.source] + p.delay
        for p in problem.precedences
    ) and all(
        a <= (begins[j] - begins[i]) % interval <= interval - b for i, j, a, b in problem.pairs()
    )


@dataclass
class Budget:
    """How many constraints a search may still add. They are counted, and no time is taken, so that
    an answer is the same on every machine: 100,000 are 4 to 7 seconds at 24 tasks."""

    left: int
    looked_at: int = 0

    def take(self) -> None:
        """Raises OutOfBudget."""
        self.looked_at += 1
        if self.looked_at > self.left:
            raise OutOfBudget

    def part(self, most: int) -> Budget:
        """One for a question that must not take all of it."""
        return Budget(max(0, min(most, self.left - self.looked_at)))


class OutOfBudget(Exception):
    """The search ended before it was complete."""


Begins = tuple[int, ...]


@dataclass
class _Smallest:
    """The smallest number for which there is a timetable, and what none is below.

    `attempt` gives a timetable of a number or less, None if there is none; if there is one for n, there is
    one for n + 1. The first number asked for is `least`, since bounds are often met."""

    attempt: Callable[[int, Budget], Begins | None]
    number_of: Callable[[Begins, int], int]
    budget: Budget
    most: int
    least: int
    begins: Begins | None = None
    number: int = -1

    def run(self, largest: int) -> None:
        low = asked = self.least
        step = 1
        while low <= largest and (self.begins is None or low < self.number):
            part = self.budget.part(self.most)
            try:
                found = self.attempt(asked, part)
                proven = True
            except OutOfBudget:
                found, proven = None, False
            self.budget.looked_at += part.looked_at
            if found is not None:
                self.begins, self.number = found, self.number_of(found, asked)
            else:
                low = asked + 1
                if proven:
                    self.least = max(self.least, low)
            if self.begins is None:
                asked, step = min(low + step, largest), 2 * step
            else:
                asked = (low + self.number) // 2


CONSTRAINTS = 120_000


def solve(problem: TimetableProblem, constraints: int = CONSTRAINTS) -> Timetable | None:
    """The best timetable, with its certificate; None if none was found within `largest_stages`.

    `constraints` bound the searches for interval, bytes and length together: an answer within fewer
    may be less proven, never less legal. Raises ValueError for a cycle of precedences without
    distance.
    """
    bounds = bounds_of(problem)
    budget = Budget(constraints)
    # One iteration after the other is a timetable.
    serial = sum(max((c for _, c in task.uses), default=0) for task in problem.tasks)
    serial += sum(p.delay for p in problem.precedences)
    interval = _Smallest(
        partial(_timetable_at, problem),
        lambda _, asked: asked,
        budget,
        constraints // 3,
        max(1, bounds[0].cycles),
    )
    interval.run(max(1, serial, interval.least))
    if interval.begins is None:
        return None
    memory = _Memory(problem, interval.number)
    fewest = _Smallest(
        memory.attempt,
        memory.bytes_of,
        budget,
        constraints // 6,
        memory.least_bytes(),
        interval.begins,
    )
    fewest.number = memory.bytes_of(interval.begins)
    fewest.run(fewest.number)
    assert fewest.begins is not None
    memory.most_bytes = fewest.number
    shortest = _Smallest(
        memory.attempt_length, memory.length_of, budget, constraints // 12, memory.least_length()
    )
    shortest.begins, shortest.number = fewest.begins, memory.length_of(fewest.begins)
    shortest.run(shortest.number)
    assert shortest.begins is not None
    return Timetable(
        interval.number,
        shortest.begins,
        memory.bytes_of(shortest.begins),
        shortest.number,
        interval.least,
        fewest.least,
        shortest.least,
        tuple(bounds),
        budget.looked_at,
    )


# The interval --------------------------------------------------------------------------------


def _timetable_at(problem: TimetableProblem, interval: int, budget: Budget) -> Begins | None:
    """A timetable of an interval, None if there is none; raises OutOfBudget."""
    offsets = _Placement(problem, interval, together=False).run(budget)
    if offsets is None:
        return None
    begins = _moved_apart(problem, offsets, interval)
    if max(begins) < problem.largest_stages * interval:
        return begins
    return _Placement(problem, interval, together=True).run(budget)


def _moved_apart(problem: TimetableProblem, begins: Sequence[int], interval: int) -> Begins:
    """Recurrences moved later by whole intervals until the precedences between them hold."""
    part = recurrences(problem)
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
                steps = -(-lacks // interval) * interval
                moved = [
                    begin + steps * (part[n] == part[p.target]) for n, begin in enumerate(moved)
                ]
    first = min(moved) // interval * interval
    return tuple(begin - first for begin in moved)


def recurrences(problem: TimetableProblem) -> list[int]:
    """For each task the number of its strongly connected component."""
    count = len(problem.tasks)
    reach = np.eye(count, dtype=bool)
    for p in problem.precedences:
        reach[p.source, p.target] = True
    for middle in range(count):
        reach |= np.outer(reach[:, middle], reach[middle])
    both = reach & reach.T
    return [int(np.argmax(both[n])) for n in range(count)]


class _Placement:
    """Begins of tasks at one interval: longest paths between all of them, which constraints extend.

    `together`: with all precedences and the limit of stages; without, each recurrence by itself.
    The last row is that of moment 0.
    """

    def __init__(self, problem: TimetableProblem, interval: int, *, together: bool) -> None:
        self.problem, self.interval = problem, interval
        count = len(problem.tasks)
        self.zero = count
        self.nearest = False
        self.start = np.full((count + 1, count + 1), NEVER, dtype=np.int64)
        np.fill_diagonal(self.start, 0)
        part = recurrences(problem)
        for p in problem.precedences:
            if together or part[p.source] == part[p.target]:
                weight = p.delay - p.distance * interval
                self.start[p.source, p.target] = max(self.start[p.source, p.target], weight)
        latest = (problem.largest_stages if together else 1) * interval - 1
        for n in range(count):
            if together or part[n] == n:
                self.start[self.zero, n] = 0
                self.start[n, self.zero] = -latest
        if not together:
            # A kernel may be cut anywhere: the first task begins at 0.
            self.start[0, self.zero] = 0
            self._order_equals(part)
        for middle in range(count + 1):
            through = self.start[:, middle, None] + self.start[middle]
            np.maximum(self.start, through, out=self.start)
        pairs = np.array(problem.pairs(), dtype=np.int64).reshape(-1, 4)
        self.i, self.j, self.a, self.b = pairs.T

    def _order_equals(self, part: list[int]) -> None:
        """Free tasks that hold the same units for as long may stand in one order."""
        last: dict[tuple[tuple[str, int], ...], int] = {}
        for n, task in enumerate(self.problem.tasks):
            if n and part.count(part[n]) == 1:
                before = last.get(task.uses)
                if before is not None:
                    self.start[before, n] = max(0, int(self.start[before, n]))
                last[task.uses] = n

    def run(self, budget: Budget) -> Begins | None:
        """Begins that keep everything, None if there are none; raises OutOfBudget.

        What is branched on first decides how long a search takes, so two rules take turns."""
        if (np.diagonal(self.start) > 0).any():
            return None
        for branches in (2000, 2000, 10000, 10000):
            self.nearest = not self.nearest
            part = budget.part(branches)
            try:
                return self._descend(part)
            except OutOfBudget:
                pass
            finally:
                budget.looked_at += part.looked_at
        return self._descend(budget)

    def _descend(self, budget: Budget) -> Begins | None:
        """Depth first: each state may still lead somewhere."""
        pending = [self.start]
        while pending:
            state = self.closed(pending.pop(), budget)
            if state is None:
                continue
            choice = self.choice(state)
            if choice is None:
                return self.earliest(state)
            pending += reversed(self.branches(state, choice))
        return None

    def earliest(self, paths: Matrix) -> tuple[int, ...]:
        return tuple(int(t) for t in paths[self.zero, : self.zero])

    def choices(self, paths: Matrix) -> tuple[Matrix, Matrix]:
        """The smallest and largest k of each pair."""
        low, high = paths[self.i, self.j], -paths[self.j, self.i]
        first = -((self.interval - self.b - low) // self.interval)
        last = (high - self.a) // self.interval
        return first, last

    def closed(self, paths: Matrix, budget: Budget) -> Matrix | None:
        """All that follows where a pair has one k left, or none beyond its first and last."""
        found: Matrix | None = paths
        while found is not None:
            budget.take()
            first, last = self.choices(found)
            if (first > last).any():
                return None
            least = first * self.interval + self.a
            most = (last + 1) * self.interval - self.b
            short = least > found[self.i, self.j]
            far = most < -found[self.j, self.i]
            if short.any():
                n = int(np.argmax(short))
                found = extended(found, int(self.i[n]), int(self.j[n]), int(least[n]))
            elif far.any():
                n = int(np.argmax(far))
                found = extended(found, int(self.j[n]), int(self.i[n]), -int(most[n]))
            else:
                return found
        return None

    def choice(self, paths: Matrix) -> int | None:
        """A pair with several k, the longest tasks first; None if each has one. `nearest`: one whose
        begins are the nearest to fixed; else one with the fewest k."""
        first, last = self.choices(paths)
        several = first < last
        if not several.any():
            return None
        free = -paths[self.j, self.i] - paths[self.i, self.j] if self.nearest else last - first
        return int(np.argmin(np.where(several, 64 * free - self.a - self.b, 1 << 50)))

    def branches(self, paths: Matrix, n: int) -> list[Matrix]:
        """The first k of a pair by itself, and all others."""
        first, _ = self.choices(paths)
        k = int(first[n])
        most = (k + 1) * self.interval - int(self.b[n])
        least = (k + 1) * self.interval + int(self.a[n])
        i, j = int(self.i[n]), int(self.j[n])
        found = [extended(paths, j, i, -most), extended(paths, i, j, least)]
        return [paths for paths in found if paths is not None]


def extended(paths: Matrix, i: int, j: int, weight: int) -> Matrix | None:
    """The longest paths with t_j - t_i >= weight as well; None if that closes a cycle that gains."""
    if paths[j, i] + weight > 0:
        return None
    through = paths[:, i, None] + (paths[j] + weight)
    return np.maximum(paths, through)


# Memory, then length -------------------------------------------------------------------------


class _Memory:
    """Timetables with few bytes and a small length, at an interval that is known to be possible."""

    def __init__(self, problem: TimetableProblem, interval: int) -> None:
        self.problem, self.interval = problem, interval
        uses = [
            (n, live.source, x, d * interval)
            for n, live in enumerate(problem.ranges)
            for x, d in live.targets
        ]
        self.of, self.w, self.x, self.over = np.array(uses, dtype=np.int64).reshape(-1, 4).T
        self.sizes = np.array([live.bytes for live in problem.ranges], dtype=np.int64)
        self.placement = _Placement(problem, interval, together=True)
        self.placement.nearest = True
        self.most_bytes = 0

    def bytes_of(self, begins: Begins, _asked: int = 0) -> int:
        return bytes_of_ranges(self.problem, begins, self.interval)

    def length_of(self, begins: Begins, _asked: int = 0) -> int:
        return max(begins)

    def least_bytes(self) -> int:
        return int(self._versions(self.placement.start) @ self.sizes)

    def least_length(self) -> int:
        return int(self.placement.start[-1, :-1].max())

    def _versions(self, paths: Matrix) -> Matrix:
        """The fewest versions of each range."""
        versions = np.ones(len(self.sizes), dtype=np.int64)
        needed = -((-(paths[self.w, self.x] + self.over)) // self.interval)
        np.maximum.at(versions, self.of, needed)
        return versions

    def attempt(self, most_bytes: int, budget: Budget) -> Begins | None:
        """A timetable with so few bytes, None if there is none. Short ones come first: they leave few k."""
        short = self.least_length() + 2 * self.interval
        part = budget.part(budget.left // 4)
        try:
            found = self._search(self._within(short), most_bytes, part)
        except OutOfBudget:
            found = None
        budget.looked_at += part.looked_at
        return found or self._search(self.placement.start, most_bytes, budget)

    def attempt_length(self, length: int, budget: Budget) -> Begins | None:
        """A timetable with `most_bytes` whose last begin is at most `length`."""
        return self._search(self._within(length), self.most_bytes, budget)

    def _within(self, length: int) -> Matrix | None:
        paths: Matrix | None = self.placement.start
        for n in range(self.placement.zero):
            if paths is not None and -paths[n, self.placement.zero] > length:
                paths = extended(paths, n, self.placement.zero, -length)
        return paths

    def _search(self, start: Matrix | None, most_bytes: int, budget: Budget) -> Begins | None:
        pending = [] if start is None else [start]
        while pending:
            state = self.placement.closed(pending.pop(), budget)
            if state is None:
                continue
            versions = self._versions(state)
            if int(versions @ self.sizes) > most_bytes:
                continue
            # The largest range whose uses may still come too late for its fewest versions.
            latest = versions[self.of] * self.interval - self.over
            late = -state[self.x, self.w] > latest
            if late.any():
                n = int(np.argmax(np.where(late, self.sizes[self.of], -1)))
                w, x, most = int(self.w[n]), int(self.x[n]), int(latest[n])
                branches = [extended(state, x, w, -most), extended(state, w, x, most + 1)]
                pending += [found for found in reversed(branches) if found is not None]
                continue
            choice = self.placement.choice(state)
            if choice is None:
                return self.placement.earliest(state)
            pending += reversed(self.placement.branches(state, choice))
        return None
