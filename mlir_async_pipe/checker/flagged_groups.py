"""Accesses of two blocks that a flag orders, in groups.

    %x[64 p + t] meets %x[64 (c - 1) + t']      p - c = -1
    %flag[q] is read as %flag[c - 1]            q - c = -1, so the block that releases is p

What a flag orders on the paths of each block stands in `awaited_flags`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mlir_async_pipe.checker.awaited_flags import AwaitedFlag, AwaitedFlags
from mlir_async_pipe.checker.differences import Differences
from mlir_async_pipe.checker.footprints import Group
from mlir_async_pipe.checker.forms import Atom
from mlir_async_pipe.checker.grid_blocks import GridBlocks, block_axis
from mlir_async_pipe.checker.meetings import Meetings, of_axis
from mlir_async_pipe.checker.state import Event
from mlir_async_pipe.checker.thread_grid import Threads, thread_facts


@dataclass(frozen=True)
class FlaggedGroups:
    """Asks which groups of accesses flags order. `groups` gives those of each root, None where its
    accesses cannot be compared; `differences` compares two groups of two blocks."""

    flags: AwaitedFlags
    threads: Threads
    grid: GridBlocks
    meetings: Meetings
    groups: Callable[[], Mapping[int, Sequence[Group] | None]]
    differences: Callable[[Group, Group], Differences]

    def is_ordered(self, a: Group, b: Group) -> bool:
        """Whether all of `a` is over before a release that another block sees before it begins `b`."""
        return any(
            all(self.flags.begins_after(flag, n) for t, _ in b.members for n in t.sites)
            and self._is_released(a, flag)
            and self._releases_its_own(a, b, flag)
            for flag in self.flags.found
        )

    def _is_released(self, a: Group, flag: AwaitedFlag) -> bool:
        releases = [t for t in self.meetings.touched if t.event.site == flag.release]
        for touched, _ in a.members:
            one = all(self._is_same_thread(touched.event, t.event) for t in releases)
            if not all(self.flags.is_over_before(flag, n, one_thread=one) for n in touched.sites):
                return False
        return True

    def _is_same_thread(self, one: Event, other: Event) -> bool:
        """Whether one thread of a block runs both."""
        axes = self.threads.axes if self.threads.size is None else "xyz"
        ends = [{**thread_facts(self.threads), **dict(event.threads)} for event in (one, other)]
        known = [[facts[Atom("tid", axis)].exact for axis in axes] for facts in ends]
        return known[0] == known[1] and None not in known[0]

    def _releases_its_own(self, a: Group, b: Group, flag: AwaitedFlag) -> bool:
        """Whether a block that releases the flag which a block of `b` sees, and one of `a` that touches
        the places of that block, are one."""
        releases, acquires = self._all_of(flag.release), self._all_of(flag.acquire)
        if not (releases and acquires):
            return False
        met = self._distance(a, b)
        return met is None or all(
            self._is_one_releaser((a, met), (release, seen))
            for release in releases
            for acquire in acquires
            if (seen := self._distance(release, acquire)) is not None
        )

    def _is_one_releaser(self, *ends: tuple[Group, list[int | None]]) -> bool:
        """Whether two groups run in one block: each with how far it is from the one other block."""
        for axis in self.grid.open_axes:
            numbers = {of_axis(group.facts, axis).exact for group, _ in ends}
            distances = {distance[axis] for _, distance in ends}
            if not any(len(known) == 1 and None not in known for known in (numbers, distances)):
                return False
        return True

    def _distance(self, a: Group, b: Group) -> list[int | None] | None:
        """By how much the block ids of two blocks whose accesses meet differ along each axis, None where
        that is not one number; None if they cannot meet."""
        differences = self.differences(a, b)
        if not differences.solve():
            return None
        found: list[int | None] = [None, None, None]
        for atom, (low, high) in differences.bounds.items():
            axis = block_axis(atom)
            if axis is not None and low == high:
                found[axis] = low
        return found

    def _all_of(self, site: int) -> list[Group]:
        """The groups that hold all accesses of one site; none where some cannot be compared."""
        roots = {t.event.region.root for t in self.meetings.touched if t.event.site == site}
        found = []
        for root in roots:
            groups = self.groups().get(root)
            if groups is None:
                return []
            found += [g for g in groups if any(site in t.sites for t, _ in g.members)]
        return found
