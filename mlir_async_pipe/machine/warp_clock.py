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

from typing import Any

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
