"""The memory of one run: one array of bytes that holds every buffer, with guard gaps between.

A pointer is a byte address in that array, so memrefs, LLVM pointers and integers cast from
them all mean the same thing. Address 0 starts the *null page*, which no buffer owns: lanes
that are switched off are sent there. Memory is never reused, so a stale pointer is caught.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlir_async_pipe.machine.kinds import POISON_BYTE, Kind
from mlir_async_pipe.session.diagnostics import Place

Array = np.ndarray

NULL_PAGE_BYTES = 4096
# Neighbouring buffers lie this far apart at least, so that running over the end of one does
# not land in the next.
GUARD_BYTES = 256
GLOBAL, WORKGROUP, PRIVATE = 0, 1, 2
NOWHERE = Place()
SPACE_NAMES = ("global", "workgroup", "private")


@dataclass(frozen=True)
class Buffer:
    """One allocation: `base` is its first byte, `size` its length in bytes."""

    name: str
    base: int
    size: int
    space: int
    place: Place


class Memory:
    """All bytes, and which of them belong to a live buffer.

    `data` holds the bytes; `live` and `space` have one entry for each byte.
    """

    def __init__(self) -> None:
        self.data = np.full(1 << 16, POISON_BYTE, np.uint8)
        self.live = np.zeros(1 << 16, np.bool_)
        self.space = np.zeros(1 << 16, np.uint8)
        self.initialised = np.zeros(1 << 16, np.bool_)
        self.buffers: list[Buffer] = []
        self._bases: list[int] = []
        self._end = NULL_PAGE_BYTES
        # How often anything was written: who waits for a change asks it.
        self.changes = 0

    def allocate(
        self, size: int, space: int, name: str, place: Place = NOWHERE, contents: Any = None
    ) -> Buffer:
        """A new buffer of `size` bytes with `contents` or uninitialised, aligned to 256 bytes;
        in workgroup memory to 1024, where the widest swizzle begins again."""
        base = -(-self._end // 1024) * 1024 if space == WORKGROUP else self._end
        self._end = -(-(base + size + GUARD_BYTES) // 256) * 256
        self._grow(self._end)
        buffer = Buffer(name, base, size, space, place)
        self.buffers.append(buffer)
        self._bases.append(base)
        self.live[base : base + size] = True
        self.space[base : base + size] = space
        if contents is not None:
            self.data[base : base + size] = contents
            self.initialised[base : base + size] = True
        return buffer

    def free(self, buffer: Buffer) -> None:
        """End the life of a buffer; later accesses to it are out of bounds."""
        self.live[buffer.base : buffer.base + buffer.size] = False

    def buffer_at(self, address: int) -> Buffer | None:
        """The buffer that owns a byte, None for gaps."""
        index = bisect_right(self._bases, address) - 1
        if index < 0:
            return None
        buffer = self.buffers[index]
        return buffer if address < buffer.base + buffer.size else None

    def load(self, addresses: Array, kind: Kind) -> Array:
        """The elements of `kind` at byte addresses of any shape."""
        size = kind.item_bytes
        if size == 1:
            return kind.decode(self.data[addresses].view(kind.stored))
        if not (addresses % size).any():
            return kind.decode(self.data.view(kind.stored)[addresses // size])
        raw = self.data[addresses[..., None] + np.arange(size)]
        return kind.decode(np.ascontiguousarray(raw).view(kind.stored)[..., 0])

    def store(self, addresses: Array, values: Array, kind: Kind) -> None:
        """Write elements of `kind`; with equal addresses the last one stays."""
        self.changes += 1
        size = kind.item_bytes
        stored = kind.encode(np.broadcast_to(values, addresses.shape))
        if size == 1:
            self.data[addresses] = stored.view(np.uint8)
        elif not (addresses % size).any():
            self.data.view(kind.stored)[addresses // size] = stored
        else:
            self.data[addresses[..., None] + np.arange(size)] = stored[..., None].view(np.uint8)

    def _grow(self, needed: int) -> None:
        capacity = len(self.data)
        if needed <= capacity:
            return
        while capacity < needed:
            capacity *= 2
        extra = capacity - len(self.data)
        self.data = np.concatenate([self.data, np.full(extra, POISON_BYTE, np.uint8)])
        for name in ("live", "space", "initialised"):
            old = getattr(self, name)
            setattr(self, name, np.concatenate([old, np.zeros(extra, old.dtype)]))
