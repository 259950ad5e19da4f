"""What threads tell each other through memory: releases and acquires of flags.

    warp 0: stores the tile, then the flag (release)   the flag holds "warp 0: its 5th interval"
    warp 1: reads the flag (acquire)                   warp 1 knows "warp 0: 5", so it sees the tile

An acquire hears what was told at its location by those who are in its scope, and it in theirs. A
fence lets the strong writes after it tell, and its thread hear what strong reads before it met.
Atomics add to what their location holds, stores replace it. (PTX ISA, Memory Consistency Model.)
"""

from __future__ import annotations

import numpy as np

from mlir_async_pipe.machine.warp_clock import WarpClock
from mlir_async_pipe.vocabulary.rows import MemoryOrder, Scope

Array = np.ndarray
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
