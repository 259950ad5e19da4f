"""What a warp knows of the others through mbarriers: vector clocks, released by arrivals and acquired by waits.

    warp 1: reads slot      tick 4: its 5th interval between two arrivals
    warp 1: arrives         the barrier gathers "warp 1: 5"; warp 1 is in its next interval
    warp 0: waits, passes   warp 0 knows "warp 1: 5", so it sees every access of tick 4

A barrier of the block orders everybody and needs none of this; the detector asks here only where
two accesses lie in one barrier interval. The lanes of a warp are one. An mbarrier is an agent of
its own: what its copies write carries its phase as the tick, and is seen by those who have waited
for that phase, or acquired from them.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from mlir_async_pipe.machine.detector import NOBODY, ONE, Detector, Epoch, Number, Use
from mlir_async_pipe.machine.memory import GLOBAL, WORKGROUP, Memory
from mlir_async_pipe.vocabulary.rows import MemoryOrder, Scope

Array = np.ndarray

# Agents that are mbarriers, in the place of a thread: -2 is the first, -3 the next.
FIRST_MBARRIER = -2


class WarpClock:
    """Vector clocks of the warps of the running block, or of all blocks of a cluster.

    `known[w, a]`: the accesses of agent a with a tick below this number happened before what warp
    w does now. Agents are the warps and, after them, the mbarriers. `near` is the same for workgroup
    memory: barriers may order one of them only.
    """

    def __init__(self, warps: int, lanes: int) -> None:
        self.warps, self.lanes = warps, lanes
        self.next_block(0)

    def next_block(self, first_thread: int) -> None:
        """A new block begins, whose threads are counted from `first_thread` on."""
        self.first = first_thread
        self.known = np.zeros((self.warps, self.warps), np.int32)
        self.near = self.known.copy()
        self.ticks = np.zeros(self.warps, np.int32)

    def new_agent(self) -> int:
        """An agent beside the warps: an mbarrier, or a tensor core."""
        fresh = np.zeros((self.warps, 1), np.int32)
        self.known = np.concatenate([self.known, fresh], axis=1)
        self.near = np.concatenate([self.near, fresh], axis=1)
        return FIRST_MBARRIER - (self.known.shape[1] - self.warps - 1)

    def warp_of(self, threads: Array) -> Array:
        return (threads - self.first) // self.lanes

    def column(self, agents: Array) -> Array:
        """Where `known` counts threads of the grid, and mbarriers."""
        return np.where(
            agents <= FIRST_MBARRIER, self.warps + FIRST_MBARRIER - agents, self.warp_of(agents)
        )

    def sees(self, threads: Array, agents: Array, ticks: Array, near: Array) -> Array:
        """Whether accesses of `agents` with these ticks happened before what `threads` do now;
        `near`: those of workgroup memory."""
        at = self.warp_of(threads), self.column(agents)
        known: Array = np.where(near, self.near[at], self.known[at])
        return known > ticks

    def release(self, warps: Array) -> Array:
        """The warps arrive somewhere: what they know, and all that they did; a new tick begins."""
        released = self.known[warps].max(axis=0)
        released[warps] = np.maximum(released[warps], self.ticks[warps] + 1)
        self.ticks[warps] += 1
        return released

    def acquire(self, warps: Any, released: Array) -> None:
        """The warps have waited: they know what was released there, of all memory and of workgroup memory, if these are
        not the same."""
        size = released.shape[-1]
        both = np.broadcast_to(released, (2, size))
        for known, of_others in zip((self.known, self.near), both, strict=True):
            known[warps, :size] = np.maximum(known[warps, :size], of_others)

    def release_flag(self, warp: int) -> Array:
        """What a warp knows of all memory and of workgroup memory, and did, for others to acquire; a
        new tick begins."""
        released = np.stack([self.known[warp], self.near[warp]])
        released[:, warp] = self.ticks[warp] + 1
        self.ticks[warp] += 1
        return released

    def meet(
        self, warps: Array | None = None, spaces: tuple[int, ...] = (GLOBAL, WORKGROUP)
    ) -> None:
        """A barrier of the block: everybody knows what anybody knew. Of some `warps`: they also
        know what they did themselves in `spaces`, since no barrier interval ends for the others."""
        if warps is None:
            self.known[:] = self.known.max(axis=0)
            self.near[:] = self.near.max(axis=0)
            return
        for space, known in ((GLOBAL, self.known), (WORKGROUP, self.near)):
            if space in spaces:
                released = known[warps].max(axis=0)
                released[warps] = self.ticks[warps] + 1
                known[warps] = released
        self.ticks[warps] += 1


# What threads learn of each other through memory: releases and acquires of flags.
#
#     warp 0: stores the tile, then the flag (release)   the flag holds "warp 0: its 5th interval"
#     warp 1: reads the flag (acquire)                   warp 1 knows "warp 0: 5", so it sees the tile
#
# An acquire takes what was released at its location by those who are in its scope, and it in theirs. A
# fence makes the strong writes after it releases, and the strong reads before it acquires.
# Atomics add to what their location holds, stores replace it. (PTX ISA, Memory Consistency Model.)


# What was released: clocks by the scope in which, and the block by which they were.
Released = dict[tuple[Scope, int], Array]
_NEAR = ("thread", "warp", "block", "cluster")
"""Scopes that end with the block, or its cluster: blocks with flags run in no cluster."""


class Flags:
    """What each granule holds that was written by releases, and each warp's open fences."""

    def __init__(self, clock: WarpClock, warps_of_block: int) -> None:
        self.clock, self.warps_of_block = clock, warps_of_block
        self.released: dict[int, Released] = {}
        # What strong writes of a warp release since its fence; what a fence of it would acquire.
        self._fenced: dict[int, Released] = {}
        self._met: dict[int, Released] = {}

    def read(self, warp: int, granules: list[int], order: MemoryOrder) -> None:
        for granule in granules:
            released = self.released.get(granule)
            if released and order.acquire:
                self._acquire(warp, released, order.scope)
            elif released:
                self._met[warp] = _joined(self._met.get(warp, {}), _within(released, order.scope))

    def write(self, warp: int, granules: list[int], order: MemoryOrder, *, adds: bool) -> None:
        """A strong write by a warp, or an atomic, which `adds` to what is there."""
        if order.release:
            mine = self._release(warp, order.scope)
        else:
            mine = _within(self._fenced.get(warp, {}), order.scope)
        for granule in granules:
            kept = self.released.get(granule, {}) if adds else {}
            self.released[granule] = _joined(kept, mine)

    def overwrite(self, granules: list[int]) -> None:
        """A plain write: nobody acquires anything by reading it."""
        for granule in granules:
            self.released.pop(granule, None)

    def fence(self, warp: int, order: MemoryOrder) -> None:
        """What the warp read strongly counts from here on; its strong writes tell what it did."""
        if order.acquire:
            self._acquire(warp, self._met.pop(warp, {}), order.scope)
        if order.release:
            self._fenced[warp] = _joined(
                self._fenced.get(warp, {}), self._release(warp, order.scope)
            )

    def _release(self, warp: int, scope: Scope) -> Released:
        return {(scope, warp // self.warps_of_block): self.clock.release_flag(warp)}

    def _acquire(self, warp: int, released: Released, scope: Scope) -> None:
        for (reach, block), known in released.items():
            same = block == warp // self.warps_of_block
            if same or (reach not in _NEAR and scope not in _NEAR):
                self.clock.acquire(warp, known)


def _within(released: Released, scope: Scope) -> Released:
    """The same, through an access of this scope."""
    if scope not in _NEAR:
        return released
    found: Released = {}
    for (_, block), known in released.items():
        found = _joined(found, {(scope, block): known})
    return found


def _joined(one: Released, other: Released) -> Released:
    found = dict(one)
    for where, known in other.items():
        found[where] = np.maximum(found[where], known) if where in found else known
    return found


# The race detector of programs with mbarriers: accesses of one barrier interval may be ordered.
#
# To the shadow of `detector` come, for each granule: the tick of its writer, the tick of the last
# read by each warp in this interval (`warp_clock`), and whether a generic write was not yet fenced
# for the async proxy, through which tensor copies and products of warpgroups access memory.


Flag = Annotated[Array, np.bool_, False]
# The spaces in which the async proxy does not see generic writes by itself.
_SPACES = {"workgroup": WORKGROUP, "global": GLOBAL}


class ClockedDetector(Detector):
    """A detector that asks `clock` where two accesses lie in one barrier interval."""

    write_tick: Epoch
    unfenced: Flag
    is_flag: Flag
    strong_site: Number

    def __init__(
        self,
        memory: Memory,
        sites: list[Any],
        granule: int,
        clock: WarpClock,
        flags: Flags | None = None,
    ) -> None:
        super().__init__(memory, sites, granule)
        self.clock, self.flags = clock, flags
        # The tick of the last read of each granule by each warp, and by each tensor core after them,
        # -1 for none in this interval; `readers` are their columns in the clock.
        self.reads = np.zeros((0, clock.warps), np.int32)
        self.readers = np.arange(clock.warps)
        # The strong reads of each warp, which only plain writes must not race with.
        self.strong_reads = np.zeros((0, 0 if flags is None else clock.warps), np.int32)

    def cover_memory(self) -> None:
        super().cover_memory()
        extra = len(self.write_tick) - len(self.reads)
        if extra:
            self.reads = np.pad(self.reads, ((0, extra), (0, 0)), constant_values=-1)
            self.strong_reads = np.pad(self.strong_reads, ((0, extra), (0, 0)), constant_values=-1)

    def read(self, site: int, threads: Array, where: Array) -> None:
        """A strong read acquires what was released at its location."""
        self._acquire(site, threads, where)
        super().read(site, threads, where)

    def write(
        self, site: int, threads: Array, where: Array, *, atomic: bool = False, once: Any = None
    ) -> None:
        """A generic write: the async proxy does not see it before a fence."""
        if atomic:
            self._acquire(site, threads, where)
        super().write(site, threads, where, atomic=atomic, once=once)
        self._release(site, threads, where, atomic)
        self.unfenced[where] = np.isin(
            self.memory.space[where * self.granule], list(_SPACES.values())
        )

    def _acquire(self, site: int, threads: Array, where: Array) -> None:
        at = self.sites[site]
        if self.flags is None or not at.reads_flag:
            return
        self.cover_memory()
        for warp, row in zip(self.clock.warp_of(threads), where, strict=True):
            if self.is_flag[row].any():
                self.flags.read(int(warp), row.tolist(), at.order)

    def _release(self, site: int, threads: Array, where: Array, adds: bool) -> None:
        if self.flags is None:
            return
        if not self._strong[site]:
            self.flags.overwrite(where[self.is_flag[where]].tolist())
            return
        self.is_flag[where] = True
        for warp, row in zip(self.clock.warp_of(threads), where, strict=True):
            self.flags.write(int(warp), row.tolist(), self.sites[site].order, adds=adds)

    def fence_order(self, site: int, threads: Array) -> None:
        """A fence that orders the memory of `threads`."""
        if self.flags is not None:
            for warp in np.unique(self.clock.warp_of(threads)):
                self.flags.fence(int(warp), self.sites[site].order)

    def issue(self, operation: Any) -> None:
        """Start an async op; one of the async proxy reads and overwrites what is fenced only."""
        super().issue(operation)
        if operation.is_proxy:
            for _, threads, where in (*operation.reads, *operation.writes):
                self.check_fence(operation.site, threads, where)

    def _complete_writes(self, operation: Any, done: Array) -> None:
        """What its mbarrier brought is written by that, not by a thread."""
        if operation.by_core:
            return
        super()._complete_writes(operation, done)
        for _, where in operation.rows("writes", done):
            self.unfenced[where] = not operation.is_proxy
            # Reads by tensor cores were of what was there before.
            self.reads[where, self.clock.warps :] = -1
            if operation.agent is not None:
                self.write_thread[where] = operation.agent
                self.write_tick[where] = operation.tick

    def barrier(self, spaces: tuple[int, ...]) -> None:
        """All threads met, and know what any of them knew."""
        super().barrier(spaces)
        self.clock.meet()

    def meet_warp(self, threads: Array) -> None:
        """Its lanes know what any of them did."""
        self.clock.meet(np.unique(self.clock.warp_of(threads)))

    def next_block(self) -> None:
        """The mbarriers and tensor cores of the next block are others."""
        super().next_block()
        self.readers = np.arange(self.clock.warps)
        self.reads = np.full((len(self.reads), self.clock.warps), -1, np.int32)
        self.strong_reads[:] = -1

    def fence_own(self, threads: Array, where: Array) -> None:
        """What `threads` have written in the granules `where` is there for the async proxy too."""
        self.cover_memory()
        self.unfenced[where[np.isin(self.write_thread[where], threads)]] = False

    def fence(self, threads: Array, spaces: frozenset[str], set_up: Array) -> None:
        """So is what `threads` have written in `spaces`, or seen there, but for mbarriers, which are `set_up`."""
        self.cover_memory()
        where = np.flatnonzero(self.unfenced)
        shown = [_SPACES[space] for space in spaces & _SPACES.keys()]
        where = where[np.isin(self.memory.space[where * self.granule], shown)]
        # A fence of the writer, or of who has seen the write: it stands on the path to what comes then.
        writer, older = self.write_thread[where], self.write_epoch[where] != self.now(where)
        _, first = np.unique(self.clock.warp_of(threads), return_index=True)
        one = threads[first][:, None]
        sees = self.clock.sees(one, writer, self.write_tick[where], self._near(where)).any(axis=0)
        seen = (older | sees) & ~np.isin(where, set_up)
        self.unfenced[where[np.isin(writer, threads) | seen]] = False

    def check_visible(self, site: int, threads: Array, where: Array) -> None:
        """`threads` use what somebody set up for all: an mbarrier."""
        self._check_writer(self.use(site, threads, where))

    def touch(self, site: int, threads: Array, where: Array) -> None:
        """`threads` use what lies in another block, which must not end before."""
        self._record_read(self.use(site, threads, where))

    def end_block(self, site: int, first: int, warps: Array, buffers: list[Any]) -> None:
        """A block of a cluster has ended, whose first thread is `first`: what other blocks did to
        its `buffers` must have happened before."""
        self.cover_memory()
        self.clock.meet(warps)
        thread = np.array([first])
        for buffer in buffers:
            end = -(-(buffer.base + buffer.size) // self.granule)
            use = self.use(site, thread, np.arange(buffer.base // self.granule, end)[None])
            self._check_writer(use, "block-ended")
            self._check_readers(use, "block-ended")

    def check_fence(self, site: int, threads: Array, where: Array) -> None:
        """What the async proxy uses must not be written through the generic one alone."""
        bad = self.unfenced[where]
        if bad.any():
            use, sites = self.use(site, threads, where), self.write_site[where]
            self._report("missing-fence", use, bad, sites, self.write_thread[where])

    def _unseen(self, bad: Array, use: Use, writer: Array, *, writes: bool) -> Array:
        """What a tensor core has read since was there before: who writes need know of the read only,
        which a commit released; who reads must have waited for it."""
        where, near = use.where, self._near(use.where)
        bad = bad & ~self.clock.sees(use.me, writer, self.write_tick[where], near)
        cores = np.arange(self.clock.warps, len(self.readers))
        if writes and bad.any() and len(cores):
            ticks = self.reads[where][..., cores]
            known = self.clock.known[self.clock.warp_of(use.threads)][:, None, self.readers[cores]]
            bad &= ~((ticks >= 0) & (known > ticks)).any(axis=-1)
        return bad

    def _check_readers(self, use: Use, code: str = "missing-barrier") -> None:
        """Some warp, or another lane of the own one, has read and not released that."""
        site, threads, where, now = use
        mine = self.clock.warp_of(threads)
        near = self._near(where)[..., None]
        known = np.where(
            near,
            self.clock.near[mine][:, None, self.readers],
            self.clock.known[mine][:, None, self.readers],
        )
        ticks = self.reads[where]
        unseen = (ticks >= 0) & (known <= ticks)
        own = np.zeros(where.shape, np.bool_)
        who = np.full(where.shape, NOBODY, np.int32)
        for reader in (self.reader[where], self.second_reader[where]):
            other = (reader != NOBODY) & (reader != use.me)
            own |= other & (self.clock.warp_of(reader) == mine[:, None])
            who = np.where(other, reader, who)
        others = self.readers != mine[:, None, None]
        bad = (self.read_epoch[where] == now) & (unseen & (others | own[..., None])).any(axis=-1)
        if bad.any():
            self._report_each(code, use, bad, self.reader_site[where], who)
        if self.flags is None or self._strong[site]:
            return
        ticks, everyone = self.strong_reads[where], np.arange(self.clock.warps)
        known = np.where(near, self.clock.near[mine][:, None], self.clock.known[mine][:, None])
        known = known[..., : self.clock.warps]
        unseen = (ticks >= 0) & (known <= ticks) & (everyone != mine[:, None, None])
        bad = unseen.any(axis=-1)
        if bad.any():
            who = self.clock.first + self.clock.lanes * unseen.argmax(axis=-1)
            self._report_each(code, use, bad, self.strong_site[where], who)

    def _report_each(self, code: str, use: Use, bad: Array, others: Array, who: Array) -> None:
        """Where blocks run together, those of another block have a code of their own."""
        if self.flags is not None:
            blocks = [
                self.clock.warp_of(of) // self.flags.warps_of_block for of in (use.threads, who)
            ]
            apart = bad & (who != NOBODY) & (blocks[0][:, None] != blocks[1])
            super()._report_each("cross-block", use, apart, others, who)
            bad = bad & ~apart
        super()._report_each(code, use, bad, others, who)

    def _near(self, where: Array) -> Array:
        return np.asarray(self.memory.space[where * self.granule] == WORKGROUP)

    def _record_read(self, use: Use) -> None:
        warps = self.clock.warp_of(use.threads)
        ticks = self.clock.ticks[warps][:, None]
        if self.flags is not None and self._strong[use.site]:
            self.strong_reads[use.where, warps[:, None]] = ticks
            self.strong_site[use.where] = use.site
            return
        self._forget_reads(use)
        self.reads[use.where, warps[:, None]] = ticks

    def _forget_reads(self, use: Use) -> None:
        stale = self.read_epoch[use.where] != use.now
        self.reads[use.where[stale]] = -1
        super()._record_read(use)

    def complete_reads(self, operation: Any, done: Array) -> None:
        """What it read for an mbarrier, or as a tensor core, is read by that."""
        if operation.agent is None:
            super().complete_reads(operation, done)
            return
        column = int(self.clock.column(np.array(operation.agent)))
        if column not in self.readers:
            self.readers = np.append(self.readers, column)
            self.reads = np.pad(self.reads, ((0, 0), (0, 1)), constant_values=-1)
        number = int(np.flatnonzero(self.readers == column)[0])
        for threads, where in operation.rows("reads", done):
            np.subtract.at(self.pending_reads, where, ONE)
            self._forget_reads(self.use(operation.site, threads, where))
            self.reads[where, number] = operation.tick

    def _record_write(self, use: Use) -> None:
        super()._record_write(use)
        self.write_tick[use.where] = self.clock.ticks[self.clock.warp_of(use.threads)][:, None]
