"""What warps of a block know of each other: vector clocks, of warps that act alike and of mbarriers; of threads,
where all take one path together.

    consumers: read slot          tick 4 of their class
    consumers: arrive             the mbarrier gathers "consumers: below 5"; their tick is 5
    producer: waits, passes       it knows "consumers: below 5", so their read is over for it

The warps of a class run the same ops; each knows itself, and of the others of its class what was
released. The lanes of a warp are one. Ticks only grow and are only compared, so two clocks are the same if they
know the same of all that is still asked for.

    multiplier: waits for full[2], issues a product and a commit
    producer: waits for the commit          full[2] was over *before*; what it brought is not *seen*

The arrival of a commit of tensor products shows what the products did, and that all before its issue
had happened, but not what its thread saw: so each class has two clocks. They differ after commits only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import zip_longest
from operator import le
from typing import NamedTuple

from mlir_async_pipe.checker.precision import Precision, RefineError
from mlir_async_pipe.vocabulary.memory_layout import WARPGROUP

WARP = 32
LANES = (1 << WARP) - 1

# By class, and after these by mbarrier: what happened with a lower tick, in a lower phase, is known.
Known = tuple[int, ...]
# What the warps of some classes did, each at a tick of its own.
Event = tuple[tuple[int, int], ...]


class ClockPair(NamedTuple):
    """Two vector clocks: what happened `before`, and what of that is `seen`."""

    before: Known = ()
    seen: Known = ()

    def joined(self, other: ClockPair) -> ClockPair:
        before = joined(self.before, other.before)
        if self.before is self.seen and other.before is other.seen:
            return ClockPair(before, before)
        return ClockPair(before, joined(self.seen, other.seen))

    def holds(self, other: ClockPair) -> bool:
        """Whether all that the other shows is shown here."""
        return all(map(le, other.before, self.before)) and all(map(le, other.seen, self.seen))


@dataclass(frozen=True)
class WarpClasses:
    """The warps of a block by class, as masks; where all threads take one path `together`, its threads, of which the
    lanes of a warp may be `aligned` where they come to one op."""

    groups: tuple[int, ...]
    together: bool = False
    aligned: bool = False
    _found: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def of(self, mask: int) -> tuple[int, ...]:
        """The classes of some threads. Raises RefineError if they are a part of one."""
        found = self._found.get(mask)
        if found is None:
            warps = mask if self.together else warps_of(mask)
            found = tuple(n for n, group in enumerate(self.groups) if group & warps)
            if any(self.groups[n] & ~warps for n in found):
                raise RefineError(warps=(warps,))
            self._found[mask] = found
        return found

    def refined(self, precision: Precision) -> WarpClasses:
        """Classes that some warps are classes of."""
        groups = self.groups
        for warps in precision.warps:
            parts = (part for group in groups for part in (group & warps, group & ~warps))
            groups = tuple(part for part in parts if part)
        return WarpClasses(groups, self.together, self.aligned or precision.aligned)

    @property
    def everybody(self) -> int:
        return sum(self.groups)


@lru_cache(maxsize=1 << 10)
def warps_of(mask: int) -> int:
    return sum(
        1 << number
        for number in range(-(-mask.bit_length() // WARP))
        if mask >> (number * WARP) & LANES
    )


def joined(one: Known, other: Known) -> Known:
    """The join of two clocks; mbarriers may have been added in between."""
    if len(one) == len(other):
        return tuple(map(max, one, other))
    if not one or not other:
        return one or other
    return tuple(max(a, b) for a, b in zip_longest(one, other, fillvalue=0))


@dataclass
class WarpClocks:
    """The clocks of all classes: the ticks of these, and of tensor cores, by column; what they know, and how many
    columns there are. `further` columns are of classes and cores, too, which have done nothing there since, so often
    as these say."""

    classes: WarpClasses
    ticks: dict[int, int]
    known: list[ClockPair]
    columns: int
    further: dict[int, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def started(cls, classes: WarpClasses) -> WarpClocks:
        """Nobody has done anything."""
        size = len(classes.groups)
        none = (0,) * size
        return cls(classes, dict.fromkeys(range(size), 0), [ClockPair(none, none)] * size, size)

    def copy(self) -> WarpClocks:
        return replace(self, ticks=dict(self.ticks), known=list(self.known))

    def new_column(self) -> int:
        self.columns += 1
        nothing = (0,) * self.columns
        self.known = [known.joined(ClockPair(nothing, nothing)) for known in self.known]
        return self.columns - 1

    def new_core(self) -> int:
        """The place of what a thread's tensor core does."""
        column = self.new_column()
        self.ticks[column] = 0
        return column

    def class_of(self, column: int) -> int:
        """The class, or the column of the core, that did what is in a column."""
        return self.further[column][0] if column in self.further else column

    def event(self, mask: int) -> Event:
        """What some threads do now."""
        return tuple((number, self.ticks[number]) for number in self.classes.of(mask))

    def knows(self, mask: int, event: Event) -> bool:
        """Whether all of some threads know that something is over; a warp knows what it did itself."""
        return all(
            self.known[number].before[other] > tick
            or (number == self.class_of(other) and self.classes.groups[number].bit_count() == 1)
            for number in self.classes.of(mask)
            for other, tick in event
        )

    def knows_of_groups(self, mask: int, event: Event) -> bool:
        """Whether all of some threads know of a warp of each warpgroup that something is over."""

        def groups(columns: Iterable[int]) -> set[int]:
            size = WARPGROUP if self.classes.together else WARPGROUP // WARP
            masks = [self.classes.groups[self.class_of(column)] for column in columns]
            return {n // size for mask in masks for n in range(mask.bit_length()) if mask >> n & 1}

        everybody = groups(column for column, _ in event)
        return all(
            groups(c for c, tick in event if self.known[number].before[c] > tick) == everybody
            for number in self.classes.of(mask)
        )

    def sees(self, mask: int, event: Event) -> bool:
        return all(
            self.known[number].seen[other] > tick
            for number in self.classes.of(mask)
            for other, tick in event
        )

    def passed(self, mask: int, column: int) -> int:
        """How many phases of an mbarrier some threads all know to be over."""
        return min(self.known[number].before[column] for number in self.classes.of(mask))

    def phases_known(self, mask: int) -> ClockPair:
        """Which phases threads know to be over, and nothing else."""
        size = len(self.classes.groups)

        def phases(known: Known) -> Known:
            return tuple([0 if self.class_of(n) < size else k for n, k in enumerate(known)])

        found = ClockPair()
        for number in self.classes.of(mask):
            before, seen = self.known[number]
            over = phases(before)
            found = found.joined(ClockPair(over, over if before is seen else phases(seen)))
        return found

    def release(self, mask: int) -> ClockPair:
        """Threads release what they know, and all that they did; a new tick begins."""
        did = self.did(self.classes.of(mask))
        released = ClockPair(did, did)
        for number in self.classes.of(mask):
            released = released.joined(self.known[number])
        return released

    def did(self, numbers: tuple[int, ...]) -> Known:
        """All that some classes, or cores, did; a new tick of each begins."""
        own = [0] * self.columns
        for number in numbers:
            self.ticks[number] += 1
            own[number] = self.ticks[number]
        for column, (of, ticks) in self.further.items():
            if of in numbers:
                own[column] = ticks
        return tuple(own)

    def acquire(self, mask: int, released: ClockPair, column: int, passed: int) -> None:
        """Threads acquire what was released, and that phases of an mbarrier are over."""
        released = released.joined(self._over(column, passed))
        for number in self.classes.of(mask):
            self.known[number] = self.known[number].joined(released)

    def _over(self, column: int, passed: int) -> ClockPair:
        over = (*(0,) * column, passed, *(0,) * (self.columns - column - 1))
        return ClockPair(over, over)

    def align(self, mask: int) -> None:
        """The lanes of each warp come to one op: what any of them did happened before, which the others need not
        have seen. Raises RefineError where lanes of several warps are one class, and others of these another one."""
        of_warps: dict[int, list[int]] = {}
        for number in self.classes.of(mask):
            of_warps.setdefault(warps_of(self.classes.groups[number]), []).append(number)
        for warps, lanes in of_warps.items():
            beside = sum(bool(warps & other) for other in of_warps)
            if warps.bit_count() > 1 and (len(lanes) > 1 or beside > 1):
                first = LANES << WARP * ((warps & -warps).bit_length() - 1)
                raise RefineError(warps=(first,))
            if len(lanes) == 1:
                continue
            before = self.did(tuple(lanes))
            for number in lanes:
                before = joined(before, self.known[number].before)
            for number in lanes:
                self.known[number] = ClockPair(before, self.known[number].seen)

    def common(self) -> ClockPair:
        clocks = zip(*self.known, strict=True)
        return ClockPair(*(tuple(map(min, zip(*each, strict=True))) for each in clocks))

    def know_all(self, column: int, passed: int) -> ClockPair:
        """All know that phases of an mbarrier are over; gives that."""
        released = self._over(column, passed)
        self.known = [known.joined(released) for known in self.known]
        return released

    def meet(self, everybody: int) -> ClockPair:
        """All threads of the block know what any of them did; gives that."""
        released = self.release(everybody)
        self.known = [released] * len(self.known)
        return released
