"""What a warp knows of the others through mbarriers: who has come how far, as they told it.

    warp 1: reads slot      tick 4: its 5th interval between two arrivals
    warp 1: arrives         the barrier gathers "warp 1: 5"; warp 1 is in its next interval
    warp 0: waits, passes   warp 0 knows "warp 1: 5", so it sees every access of tick 4

A barrier of the block orders everybody and needs none of this; the detector asks here only where
two accesses lie in one barrier interval. The lanes of a warp are one. An mbarrier is an agent of
its own: what its copies write carries its phase as the tick, and is seen by those who have waited
for that phase, or whom they told.
"""

from __future__ import annotations

import numpy as np

from mlir_async_pipe.machine.memory import GLOBAL, WORKGROUP
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
        """The warps of threads of the grid."""
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
        told = self.known[warps].max(axis=0)
        told[warps] = np.maximum(told[warps], self.ticks[warps] + 1)
        self.ticks[warps] += 1
        return told

    def acquire(self, warps: Array, told: Array) -> None:
        """The warps have waited: they know what was told there."""
        for known in (self.known, self.near):
            known[warps, : len(told)] = np.maximum(known[warps, : len(told)], told)

    def tell(self, warp: int) -> Array:
        """What a warp knows of all memory and of workgroup memory, and did, for others to hear; a
        new tick begins."""
        told = np.stack([self.known[warp], self.near[warp]])
        told[:, warp] = self.ticks[warp] + 1
        self.ticks[warp] += 1
        return told

    def hear(self, warp: int, told: Array) -> None:
        """A warp takes what another told."""
        for known, of_others in zip((self.known, self.near), told, strict=True):
            known[warp, : len(of_others)] = np.maximum(known[warp, : len(of_others)], of_others)

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
                told = known[warps].max(axis=0)
                told[warps] = self.ticks[warps] + 1
                known[warps] = told
        self.ticks[warps] += 1


# What threads tell each other through memory: releases and acquires of flags.
#
#     warp 0: stores the tile, then the flag (release)   the flag holds "warp 0: its 5th interval"
#     warp 1: reads the flag (acquire)                   warp 1 knows "warp 0: 5", so it sees the tile
#
# An acquire hears what was told at its location by those who are in its scope, and it in theirs. A
# fence lets the strong writes after it tell, and its thread hear what strong reads before it met.
# Atomics add to what their location holds, stores replace it. (PTX ISA, Memory Consistency Model.)


# What was told: clocks by the scope in which, and the block by which they were.
Told = dict[tuple[Scope, int], Array]
_NEAR = ("thread", "warp", "block", "cluster")
"""Scopes that end with the block, or its cluster: blocks with flags run in no cluster."""


class Flags:
    """What each granule holds that was written by releases, and each warp's open fences."""

    def __init__(self, clock: WarpClock, warps_of_block: int) -> None:
        self.clock, self.warps_of_block = clock, warps_of_block
        self.told: dict[int, Told] = {}
        # What strong writes of a warp tell since its fence; what a fence of it would let it hear.
        self._fenced: dict[int, Told] = {}
        self._met: dict[int, Told] = {}

    def read(self, warp: int, granules: list[int], order: MemoryOrder) -> None:
        """A strong read by a warp."""
        for granule in granules:
            told = self.told.get(granule)
            if told and order.acquire:
                self._hear(warp, told, order.scope)
            elif told:
                self._met[warp] = _joined(self._met.get(warp, {}), _within(told, order.scope))

    def write(self, warp: int, granules: list[int], order: MemoryOrder, *, adds: bool) -> None:
        """A strong write by a warp, or an atomic, which `adds` to what is there."""
        if order.release:
            mine = self._tell(warp, order.scope)
        else:
            mine = _within(self._fenced.get(warp, {}), order.scope)
        for granule in granules:
            kept = self.told.get(granule, {}) if adds else {}
            self.told[granule] = _joined(kept, mine)

    def overwrite(self, granules: list[int]) -> None:
        """A plain write: nobody hears anything by reading it."""
        for granule in granules:
            self.told.pop(granule, None)

    def fence(self, warp: int, order: MemoryOrder) -> None:
        """What the warp read strongly counts from here on; its strong writes tell what it did."""
        if order.acquire:
            self._hear(warp, self._met.pop(warp, {}), order.scope)
        if order.release:
            self._fenced[warp] = _joined(self._fenced.get(warp, {}), self._tell(warp, order.scope))

    def _tell(self, warp: int, scope: Scope) -> Told:
        return {(scope, warp // self.warps_of_block): self.clock.tell(warp)}

    def _hear(self, warp: int, told: Told, scope: Scope) -> None:
        for (reach, block), known in told.items():
            same = block == warp // self.warps_of_block
            if same or (reach not in _NEAR and scope not in _NEAR):
                self.clock.hear(warp, known)


def _within(told: Told, scope: Scope) -> Told:
    """The same, through an access of this scope."""
    if scope not in _NEAR:
        return told
    found: Told = {}
    for (_, block), known in told.items():
        found = _joined(found, {(scope, block): known})
    return found


def _joined(one: Told, other: Told) -> Told:
    found = dict(one)
    for where, known in other.items():
        found[where] = np.maximum(found[where], known) if where in found else known
    return found
