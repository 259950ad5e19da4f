"""The best modulo schedule of a problem, proven optimal: branch and bound over integers.

The best schedule has the smallest interval II, then the fewest stages, then the fewest bytes of live
ranges (a range from t_w to t_x takes ceil((t_x - t_w) / II) versions), then the smallest length.

How it is found. A pair of tasks that share a unit has an integer k with

    k * II + cycles_i <= t_j - t_i <= (k + 1) * II - cycles_j

so with all k fixed what is left are difference constraints, and longest paths tell whether they can
be met (branch and bound over disjunctions: Altman and Gao, "Optimal Modulo Scheduling Through
Enumeration", IJPP 1998; Eichenberger and Davidson, PLDI 1997, for the integer k). The longest paths
between all tasks are kept closed: a new constraint costs one pass over the matrix. They bound
every t_j - t_i, which leaves few k, often one. A fixed offset o is such a pair with moment 0:
k * II + o <= t_j <= k * II + o.

Two facts make the interval cheap to prove. Without a limit of stages or bytes tasks of different
recurrences can be moved apart by whole intervals, so precedences between them do not matter to the
interval. And a schedule for II is one for II + 1 with stages and offsets kept; so the smallest
interval is found by bisection.

    worked example   units {tensor, special}; S: tensor 32, then E: special 40, then P: tensor 32
                     tensor is held for 64 cycles: II >= 64. One iteration after the other takes
                     104; with S an iteration ahead (t = 0, 32, 72 + 64 k) the bound is met
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil

import numpy as np
import numpy.typing as npt

from mlir_async_pipe.pipeliner.schedule.modulo.problem import (
    TOLERANCE,
    Bound,
    ModuloProblem,
    bounds_of,
    bytes_of_ranges,
    is_kept,
)

Matrix = npt.NDArray[np.int64]
NEVER = -(1 << 40)
UNLIMITED = 1 << 50


@dataclass(frozen=True)
class ModuloSchedule:
    """The best schedule that was found, with its certificate.

    `begins` are the t_j, `length` is the last of them. No interval below `least` is possible: it is
    a bound of `bounds`, or every smaller interval was searched. So for `least_stages`, at this interval,
    `least_bytes`, in these stages, and `least_length`, with these bytes. `looked_at`: constraints that
    were tried.
    """

    interval: int
    begins: tuple[int, ...]
    bytes: int
    length: int
    least: int
    least_stages: int
    least_bytes: int
    least_length: int
    bounds: tuple[Bound, ...]
    looked_at: int

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
                ("stages", self.stages, self.least_stages),
                ("bytes", self.bytes, self.least_bytes),
                ("length", self.length, self.least_length),
            )
            if least < found
        ]
        return "; ".join([said, *(f"not proven: {', '.join(open_)}" for _ in open_[:1])])


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
    """The smallest number for which there is a schedule, and what none is below.

    `attempt` gives a schedule of a number or less, None if there is none; if there is one for n, there is
    one for n + 1. The first number asked for is `least`, since bounds are often met."""

    attempt: Callable[[int, Budget], Begins | None]
    number_of: Callable[[Begins, int], int]
    budget: Budget
    most: int
    least: int
    begins: Begins | None = None
    number: int = -1

    def improve(self, begins: Begins) -> Begins:
        """The same with the smallest number, from a schedule that there is."""
        self.begins, self.number = begins, self.number_of(begins, 0)
        self.run(self.number)
        return self.begins

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


def solve(
    problem: ModuloProblem, constraints: int = CONSTRAINTS, shortest: int = 1
) -> ModuloSchedule | None:
    """The best schedule, with its certificate; None if none was found within `largest_stages`.

    `constraints` bound the searches for interval, stages, bytes and length together: an answer within
    fewer may be less proven, never less legal. No interval below `shortest` is tried. Raises ValueError for a cycle of precedences without
    distance.
    """
    bounds = bounds_of(problem)
    budget = Budget(constraints)
    # One iteration after the other is a schedule.
    serial = sum(max((c for _, c in task.uses), default=0) for task in problem.tasks)
    serial += sum(max(0, p.delay) for p in problem.precedences)
    interval = _Smallest(
        partial(_begins_at, problem),
        lambda _, asked: asked,
        budget,
        constraints // 3,
        max(shortest, ceil(bounds[0].cycles - TOLERANCE)),
    )
    interval.run(max(1, serial, interval.least))
    if interval.begins is None:
        return None
    ii = interval.number

    def fewer_stages(stages: int, budget: Budget) -> Begins | None:
        return _Placement(replace(problem, largest_stages=stages), ii).attempt(budget)

    def stages_of(begins: Begins, _asked: int) -> int:
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
        place.attempt_length,
        lambda begins, _: problem.length(begins),
        budget,
        constraints // 12,
        place.least_length(),
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
        budget.looked_at,
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


def recurrences(problem: ModuloProblem) -> list[int]:
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

    `together`: with all precedences and the limits of stages and bytes; without, each recurrence by
    itself. The last row is that of moment 0, where the kernel is cut.
    """

    def __init__(self, problem: ModuloProblem, interval: int, *, together: bool = True) -> None:
        self.problem, self.interval = problem, interval
        tasks = problem.tasks
        count = self.zero = len(tasks)
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
                self.start[n, self.zero] = -latest if problem.is_placed(tasks[n]) else -8 * latest
        if not together and all(task.offset is None for task in tasks):
            # A kernel may be cut anywhere: the first task begins at 0.
            self.start[0, self.zero] = 0
            self._order_equals(part)
        for middle in range(count + 1):
            through = self.start[:, middle, None] + self.start[middle]
            np.maximum(self.start, through, out=self.start)
        pairs = problem.pairs()
        for n, task in enumerate(tasks):
            if task.offset is not None:
                pairs.append((self.zero, n, task.offset, interval - task.offset))
            elif problem.held_in_order(n):
                pairs.append((self.zero, n, 0, problem.held_in_order(n)))
        # Rows of one set have one k.
        sets = list(range(len(pairs)))
        known = {row[:2]: number for number, row in enumerate(pairs)}
        for i, j, first, second in problem.linked if together else ():
            if (i, j) not in known:
                known[i, j] = len(pairs)
                sets.append(len(pairs))
                pairs.append((i, j, 0, 0))
            sets.append(sets[known[i, j]])
            pairs.append((first, second, 0, 0))
        self.set_of = np.array(sets, dtype=np.int64)
        self.i, self.j, self.a, self.b = np.array(pairs, dtype=np.int64).reshape(-1, 4).T
        # Ranges: the number, its source, a use, and how much later than the use's begin it ends.
        uses = [
            (n, w, x, d * interval + problem.held_in_order(x))
            for n, live in enumerate(problem.ranges)
            for w, x, d in live.uses
        ]
        self.of, self.w, self.x, self.over = np.array(uses, dtype=np.int64).reshape(-1, 4).T
        # Bytes of a version: of all memory in the first row, then of each that is limited.
        memories = [None, *(memory for memory, _ in problem.limits)]
        rows = [
            [live.bytes if memory in (None, live.memory) else 0 for live in problem.ranges]
            for memory in memories
        ]
        self.sizes = np.array(rows, dtype=np.int64)
        self.most = np.array([UNLIMITED, *(most for _, most in problem.limits)], dtype=np.int64)

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
        """Begins that keep all but limits of bytes, None if there are none; raises OutOfBudget.

        What is branched on first decides how long a search takes, so two rules take turns."""
        if (np.diagonal(self.start) > 0).any():
            return None
        for branches in (2000, 2000, 10000, 10000):
            self.nearest = not self.nearest
            part = budget.part(branches)
            try:
                return self._descend(self.start, part)
            except OutOfBudget:
                pass
            finally:
                budget.looked_at += part.looked_at
        return self._descend(self.start, budget)

    def attempt(self, budget: Budget) -> Begins | None:
        """Begins that keep everything."""
        if not self.problem.limits:
            return self.run(budget)
        self.nearest = True
        return self._descend(self.start, budget, self.most)

    def attempt_bytes(self, most: int, budget: Budget) -> Begins | None:
        """Begins with so few bytes. Short schedules come first: they leave few k."""
        self.nearest = True
        limits = np.array([most, *self.most[1:]])
        part = budget.part(budget.left // 4)
        short = self._within(self.least_length() + 2 * self.interval)
        try:
            found = self._descend(short, part, limits)
        except OutOfBudget:
            found = None
        budget.looked_at += part.looked_at
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
            if most is not None:
                versions = self._versions(state)
                if (self.sizes @ versions > most).any():
                    continue
                # The largest range whose uses may still come too late for its fewest versions.
                latest = versions[self.of] * self.interval - self.over
                late = -state[self.x, self.w] > latest
                if late.any():
                    n = int(np.argmax(np.where(late, self.sizes[0][self.of], -1)))
                    w, x, last = int(self.w[n]), int(self.x[n]), int(latest[n])
                    branches = [extended(state, x, w, -last), extended(state, w, x, last + 1)]
                    pending += [found for found in reversed(branches) if found is not None]
                    continue
            choice = self.choice(state)
            if choice is None:
                return self.earliest(state)
            pending += reversed(self.branches(state, choice))
        return None

    def _versions(self, paths: Matrix) -> Matrix:
        """The fewest versions of each range."""
        versions = np.ones(len(self.problem.ranges), dtype=np.int64)
        needed = -((-(paths[self.w, self.x] + self.over)) // self.interval)
        np.maximum.at(versions, self.of, needed)
        return versions

    def bytes_of(self, begins: Begins, _asked: int = 0) -> int:
        return bytes_of_ranges(self.problem, begins, self.interval)

    def least_bytes(self) -> int:
        return int(self.sizes[0] @ self._versions(self.start))

    def least_length(self) -> int:
        return self.problem.length(self.start[-1, :-1].tolist())

    def earliest(self, paths: Matrix) -> tuple[int, ...]:
        return tuple(int(t) for t in paths[self.zero, : self.zero])

    def choices(self, paths: Matrix) -> tuple[Matrix, Matrix]:
        """The smallest and largest k of each pair."""
        low, high = paths[self.i, self.j], -paths[self.j, self.i]
        first = -((self.interval - self.b - low) // self.interval)
        last = (high - self.a) // self.interval
        if self.problem.linked:
            largest = np.full(len(first), -UNLIMITED, dtype=np.int64)
            np.maximum.at(largest, self.set_of, first)
            smallest = np.full(len(last), UNLIMITED, dtype=np.int64)
            np.minimum.at(smallest, self.set_of, last)
            return largest[self.set_of], smallest[self.set_of]
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
