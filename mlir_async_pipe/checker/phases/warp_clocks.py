"""What warps of a block know of each other: vector clocks, of warps that act alike and of mbarriers.

    consumers: read slot          tick 4 of their class
    consumers: arrive             the mbarrier gathers "consumers: below 5"; their tick is 5
    producer: waits, passes       it knows "consumers: below 5", so their read is over for it

The warps of a class run the same ops; each knows itself, and of the others of its class what was
told. The lanes of a warp are one. Ticks only grow, so for `ranked` two clocks are the same if they
know the same of all that is still asked for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from itertools import zip_longest

from mlir_async_pipe.session.light_dataclass import dataclass

WARP = 32
LANES = (1 << WARP) - 1

# By class, and after these by mbarrier: what happened with a lower tick, in a lower phase, is known.
Known = tuple[int, ...]
# What the warps of some classes did, each at a tick of its own.
Event = tuple[tuple[int, int], ...]


class SplitError(Exception):
    """Warps that were one class do not act alike: only `warps` of it run an op."""

    def __init__(self, warps: int) -> None:
        super().__init__(warps)
        self.warps = warps


@dataclass(frozen=True)
class WarpClasses:
    """The warps of a block by class, as masks."""

    groups: tuple[int, ...]
    _found: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def of(self, mask: int) -> tuple[int, ...]:
        """The classes of some threads. Raises SplitError if they are a part of one."""
        found = self._found.get(mask)
        if found is None:
            warps = warps_of(mask)
            found = tuple(n for n, group in enumerate(self.groups) if group & warps)
            if any(self.groups[n] & ~warps for n in found):
                raise SplitError(warps)
            self._found[mask] = found
        return found

    def split(self, warps: int) -> WarpClasses:
        """Classes that some warps are classes of."""
        parts = (part for group in self.groups for part in (group & warps, group & ~warps))
        return WarpClasses(tuple(part for part in parts if part))

    def is_one_warp(self, number: int) -> bool:
        """Whether a class is a single warp."""
        return self.groups[number].bit_count() == 1


def warps_of(mask: int) -> int:
    """The warps of some threads."""
    return sum(
        1 << number
        for number in range(-(-mask.bit_length() // WARP))
        if mask >> (number * WARP) & LANES
    )


def joined(one: Known, other: Known) -> Known:
    """What both tell; mbarriers may have been added in between."""
    return tuple(max(a, b) for a, b in zip_longest(one, other, fillvalue=0))


@dataclass
class WarpClocks:
    """The clocks of all classes: their ticks, what they know, and how many mbarriers there are."""

    classes: WarpClasses
    ticks: list[int]
    known: list[Known]
    columns: int

    @classmethod
    def started(cls, classes: WarpClasses) -> WarpClocks:
        """Nobody has done anything."""
        size = len(classes.groups)
        return cls(classes, [0] * size, [(0,) * size] * size, size)

    def copy(self) -> WarpClocks:
        """The same, to be changed on its own."""
        return replace(self, ticks=list(self.ticks), known=list(self.known))

    def new_column(self) -> int:
        """The place of one more mbarrier."""
        self.columns += 1
        self.known = [(*known, 0) for known in self.known]
        return self.columns - 1

    def event(self, mask: int) -> Event:
        """What some threads do now."""
        return tuple((number, self.ticks[number]) for number in self.classes.of(mask))

    def sees(self, mask: int, event: Event, *, own_warp: bool = False) -> bool:
        """Whether all of some threads know that something is over; `own_warp`: a warp knows what
        it did itself."""
        return all(
            self.known[number][other] > tick
            or (own_warp and number == other and self.classes.is_one_warp(number))
            for number in self.classes.of(mask)
            for other, tick in event
        )

    def passed(self, mask: int, column: int) -> int:
        """How many phases of an mbarrier some threads all know to be over."""
        return min(self.known[number][column] for number in self.classes.of(mask))

    def phases_known(self, mask: int) -> Known:
        """Which phases threads know to be over, and nothing else."""
        told: Known = ()
        size = len(self.classes.groups)
        for number in self.classes.of(mask):
            told = joined(told, (*(0,) * size, *self.known[number][size:]))
        return told

    def release(self, mask: int) -> Known:
        """Threads tell what they know, and all that they did; a new tick begins."""
        told: Known = ()
        numbers = self.classes.of(mask)
        for number in numbers:
            told = joined(told, self.known[number])
        own = list(told)
        for number in numbers:
            own[number] = self.ticks[number] + 1
            self.ticks[number] += 1
        return tuple(own)

    def acquire(self, mask: int, told: Known, column: int, passed: int) -> None:
        """Threads learn what was told, and that phases of an mbarrier are over."""
        for number in self.classes.of(mask):
            known = list(joined(self.known[number], told))
            known[column] = max(known[column], passed)
            self.known[number] = tuple(known)

    def meet(self, everybody: int) -> None:
        """All threads of the block know what any of them did."""
        told = self.release(everybody)
        self.known = [joined(known, told) for known in self.known]


@dataclass
class Ranks:
    """Numbers by how many of those that are still asked for they reach, column by column."""

    limits: list[list[int]]

    @classmethod
    def of(cls, columns: int, asked: Iterable[tuple[int, int]]) -> Ranks:
        """Of limits that are given with their column."""
        found: list[set[int]] = [set() for _ in range(columns)]
        for column, limit in asked:
            found[column].add(limit)
        return cls([sorted(limits) for limits in found])

    def of_one(self, column: int, number: int) -> int:
        """The rank of a number."""
        return bisect_right(self.limits[column], number)

    def of_known(self, known: Sequence[int]) -> Known:
        """The ranks of what somebody knows."""
        return tuple(bisect_right(self.limits[n], number) for n, number in enumerate(known))

    def of_shown(self, column: int, phase: int) -> tuple[int, int]:
        """The rank of what one has to know of an mbarrier."""
        return column, self.of_one(column, phase + 1)

    def of_event(self, event: Event) -> Event:
        """The ranks of what one has to know to see an event."""
        return tuple((number, self.of_one(number, tick + 1)) for number, tick in event)
