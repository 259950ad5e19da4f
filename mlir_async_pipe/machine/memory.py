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

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.machine.kinds import POISON_BYTE, Kind, kind_of
from mlir_async_pipe.machine.lane_values import Array, MemRef, uniform
from mlir_async_pipe.machine.terms import contiguous, is_symbolic
from mlir_async_pipe.session.diagnostics import MachineError, Place

SMALLEST_BYTES = 1 << 16
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

    `data` holds the bytes, as numbers or as `terms.Cells`; `live` and `space` have one entry for each byte.
    """

    def __init__(self, data: Any = None) -> None:
        self.data: Any = np.full(SMALLEST_BYTES, POISON_BYTE, np.uint8) if data is None else data
        self.live = np.zeros(SMALLEST_BYTES, np.bool_)
        self.space = np.zeros(SMALLEST_BYTES, np.uint8)
        self.initialised = np.zeros(SMALLEST_BYTES, np.bool_)
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
        self.live[buffer.base : buffer.base + buffer.size] = False

    def buffer_at(self, address: int) -> Buffer | None:
        """The buffer that owns a byte, None for gaps."""
        index = bisect_right(self._bases, address) - 1
        if index < 0:
            return None
        buffer = self.buffers[index]
        return buffer if address < buffer.base + buffer.size else None

    def name_at(self, address: int) -> str:
        """The name of the buffer that owns a byte, "" for gaps."""
        buffer = self.buffer_at(address)
        return "" if buffer is None else buffer.name

    @property
    def long_arrays(self) -> Any:
        """The arrays that hold no bytes, None if there are none."""
        return self.data.table.long_arrays if is_symbolic(self.data) else None

    @property
    def induction(self) -> Any:
        """What follows the loop whose trip count is not known, None in other runs."""
        arrays = self.long_arrays
        return None if arrays is None else arrays.induction

    def in_long_arrays(self, addresses: Any) -> Any:
        """Which addresses are in such arrays, None if none is: no detector watches those."""
        arrays = self.long_arrays
        return None if arrays is None else arrays.in_arrays(addresses)

    def bytes_of(self, buffer: Buffer) -> Any:
        return self.data[buffer.base : buffer.base + buffer.size].copy()

    def load(self, addresses: Array, kind: Kind) -> Array:
        """The elements of `kind` at byte addresses of any shape."""
        size = kind.item_bytes
        if size == 1:
            return kind.decode(self.data[addresses].view(kind.stored))
        if not is_symbolic(self.data) and not (addresses % size).any():
            return kind.decode(self.data.view(kind.stored)[addresses // size])
        raw = self.data[addresses[..., None] + np.arange(size)]
        return kind.decode(contiguous(raw).view(kind.stored)[..., 0])

    def store(self, addresses: Array, values: Array, kind: Kind) -> None:
        """Write elements of `kind`; with equal addresses the last one stays."""
        self.changes += 1
        size = kind.item_bytes
        stored = kind.encode(np.broadcast_to(values, addresses.shape))
        if size == 1:
            self.data[addresses] = stored.view(np.uint8)
        elif not is_symbolic(self.data) and not (addresses % size).any():
            self.data.view(kind.stored)[addresses // size] = stored
        else:
            self.data[addresses[..., None] + np.arange(size)] = stored[..., None].view(np.uint8)

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """An array that can hold what memory holds."""
        return np.zeros_like(self.data, shape=shape, dtype=dtype)

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


DYNAMIC = -(2**63)


@dataclass(frozen=True)
class MemRefShape:
    """What a memref type says: sizes, strides and offset in elements (None: dynamic)."""

    sizes: tuple[int | None, ...]
    strides: tuple[int | None, ...]
    offset: int | None
    element: Kind
    space: int | None

    @property
    def element_bytes(self) -> int:
        return self.element.stride_bytes

    def over(self, base: Any, dynamic_sizes: list[Any]) -> MemRef:
        """The memref of this type whose aligned pointer is `base`, with dynamic sizes filled
        in order and identity strides where they are dynamic."""
        given = iter(dynamic_sizes)
        sizes = tuple(uniform(size) if size is not None else next(given) for size in self.sizes)
        strides: list[Any] = [None] * len(sizes)
        step: Any = uniform(1)
        for number in reversed(range(len(sizes))):
            known = self.strides[number]
            strides[number] = step if known is None else uniform(known)
            step = strides[number] * sizes[number]
        return MemRef(base, uniform(self.offset or 0), sizes, tuple(strides), self.element)

    def extent_bytes(self, memory: MemRef) -> Any:
        """Bytes from the aligned pointer to after the last element, for each lane."""
        last = memory.offset
        for size, stride in zip(memory.sizes, memory.strides, strict=True):
            last = last + np.maximum(size - 1, 0) * stride
        empty = np.prod([np.minimum(size, 1) for size in memory.sizes], axis=0)
        return (last + 1) * self.element_bytes * np.where(np.asarray(empty) == 0, 0, 1)


def memref_shape(mlir_type: Any, at: Any = None) -> MemRefShape:
    """Read a memref type; raises MachineError (unsupported-type)."""
    try:
        memref = ir.MemRefType(mlir_type)
        strides, offset = memref.get_strides_and_offset()
    except ValueError as error:
        raise MachineError(
            f"the machine cannot represent memory of type '{mlir_type}'",
            code="unsupported-type",
            at=at,
        ) from error
    return MemRefShape(
        tuple(_known(size) for size in memref.shape),
        tuple(_known(stride) for stride in strides),
        _known(offset),
        kind_of(memref.element_type, at),
        _space_of(memref),
    )


def _space_of(memref: Any) -> int | None:
    """The memory space of a memref type, None for the default space: the gpu dialect's words, or the vendors' numbers
    (3 is workgroup and 5 private on both)."""
    if memref.memory_space is None:
        return None
    text = str(memref.memory_space)
    number = text.split(":")[0].strip()
    if "workgroup" in text or number == "3":
        return WORKGROUP
    return PRIVATE if "private" in text or number == "5" else GLOBAL


def _known(value: int) -> int | None:
    return None if value == DYNAMIC else int(value)
