"""Buffers of bytes, views of them, and reads and writes of elements by threads."""

from __future__ import annotations

import itertools
import struct
from dataclasses import dataclass, field, replace

from helpers.second_machine import numbers_of_types as types
from helpers.second_machine.syntax import NotJudged

_serial = itertools.count()


@dataclass(eq=False)
class Buffer:
    """One allocation; `written` are its granules that hold something, None where all do."""

    data: bytearray
    space: str
    written: set[int] | None = None
    serial: int = field(default_factory=lambda: next(_serial))


@dataclass(frozen=True)
class Pointer:
    """The byte `at` of a buffer, which it may be outside of."""

    buffer: Buffer
    at: int


@dataclass(frozen=True)
class View:
    """A memref: `base` in bytes, `offset`, `sizes` and `strides` in elements."""

    buffer: Buffer
    base: int
    offset: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    element: types.Element

    def address(self, indices: list[int], extent: tuple[int, ...] = ()) -> int | None:
        """The byte of the element at `indices`; None if it, or one of the `extent` elements of
        the trailing dimensions from there on, is out of bounds."""
        linear, first = self.offset, len(self.sizes) - len(extent)
        for number, index in enumerate(indices):
            last = index + (extent[number - first] - 1 if number >= first else 0)
            if index < 0 or last >= self.sizes[number]:
                return None
            linear += index * self.strides[number]
        at = self.base + linear * self.element.size
        return at if 0 <= at <= len(self.buffer.data) - self.element.size else None


def view_of(kind: types.Memory, buffer: Buffer, dynamic: list[int], base: int = 0) -> View:
    """The whole of a buffer as a memref type; dynamic sizes in order."""
    given = iter(dynamic)
    sizes = tuple(next(given) if size is None else size for size in kind.sizes)
    if kind.strides is None:
        return View(buffer, base, 0, sizes, row_major(sizes), kind.element)
    if None in kind.strides or kind.offset is None:
        raise NotJudged("an allocation with a dynamic layout")
    return View(buffer, base, kind.offset, sizes, kind.strides, kind.element)


def row_major(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of contiguous memory."""
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def size_in_bytes(kind: types.Memory, dynamic: list[int]) -> int:
    """Bytes that an allocation of this type needs."""
    whole = view_of(kind, Buffer(bytearray(), ""), dynamic)
    if 0 in whole.sizes:
        return 0
    last = sum((n - 1) * s for n, s in zip(whole.sizes, whole.strides, strict=True))
    return (whole.offset + last + 1) * kind.element.size


def load(kind: types.Element, data: bytearray, at: int) -> int | float:
    """One number."""
    found = struct.unpack_from(kind.code, data, at)[0]
    return found & 1 if kind.bits == 1 else found


def store(kind: types.Element, data: bytearray, at: int, value: int | float) -> None:
    """One number."""
    struct.pack_into(kind.code, data, at, value)


def subview(
    view: View, offsets: list[int], sizes: list[int], strides: list[int], result: types.Memory
) -> View:
    """Part of a view; unit dimensions may be dropped, the first that fit."""
    start = view.offset + sum(o * s for o, s in zip(offsets, view.strides, strict=True))
    steps = [a * b for a, b in zip(strides, view.strides, strict=True)]
    spare, kept = len(sizes) - len(result.sizes), []
    for number, size in enumerate(sizes):
        wanted = result.sizes[len(kept)] if len(kept) < len(result.sizes) else None
        if spare and size == 1 and wanted != 1:
            spare -= 1
            continue
        kept.append(number)
    kept = kept[: len(result.sizes)]
    return replace(
        view,
        offset=start,
        sizes=tuple(sizes[n] for n in kept),
        strides=tuple(steps[n] for n in kept),
    )
