"""Run-time values: arrays over lanes, memrefs, and how divergent lanes are joined again.

Every array has a leading axis for lanes, of length 1 where all lanes agree (*uniform*) and
of the unit's width otherwise; NumPy's broadcasting does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np

from mlir_async_pipe.machine.kinds import Kind
from mlir_async_pipe.machine.terms import is_array

Array = np.ndarray
"""Numbers of the lanes of a unit, or `Terms`, which stand in for them."""

UNKNOWN_GROUP = -1


class Parts:
    """A value that has arrays in its fields."""


@dataclass(frozen=True)
class MemRef(Parts):
    """A memref: `base` is the aligned pointer in bytes, `offset`, `sizes` and `strides` count
    elements; each is an array over lanes.

    `limits`: the first and the end byte of a buffer that is checked in hardware: what lies outside
    reads as 0 and is not written, whatever the subscripts are."""

    base: Array
    offset: Array
    sizes: tuple[Array, ...]
    strides: tuple[Array, ...]
    element: Kind
    limits: tuple[Array, Array] | None = None

    @property
    def element_bytes(self) -> int:
        """Bytes of one element (a vector element counts whole)."""
        return self.element.stride_bytes

    @property
    def address(self) -> Array:
        """The byte address of element (0, …, 0)."""
        return self.base + self.offset * self.element_bytes

    def linear(self, indices: Iterable[Array]) -> Array:
        """How many elements after the base the element at some subscripts lies."""
        return sum((i * s for i, s in zip(indices, self.strides, strict=True)), self.offset)

    def at(self, indices: Iterable[Array]) -> Array:
        """The byte address of the element at some subscripts."""
        return self.base + self.linear(indices) * self.element_bytes

    @property
    def rank(self) -> int:
        return len(self.sizes)

    def element_in_a_row(self) -> MemRef:
        """A memref without dimensions, as a row of one element."""
        one = np.ones_like(self.offset)
        return replace(self, sizes=(one,), strides=(one,))


@dataclass(frozen=True)
class Token:
    """A group of an async queue: its number in each lane, counted in the marks of `queue`."""

    queue: str
    number: Array


@dataclass(frozen=True)
class LaneTensor(Parts):
    """A TMA descriptor: the tensor in memory, the box that one copy moves, how many chunks of
    16 bytes its swizzle permutes, and the `corners` of its pixels (see TensorMap)."""

    memory: MemRef
    box: tuple[int, ...]
    chunks: int = 1
    corners: Corners | None = None


Corners = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class TensorMap(Parts):
    """An argument that points to a tensor map, as the driver encodes one: the array, the box that
    one copy moves, its slowest dimension first, and "none", "swizzle_32b", "swizzle_64b" or
    "swizzle_128b". With `corners` it is one for im2col mode: copies move box[0] pixels of box[1] channels of an array of
    images, rows, columns and channels; `corners` say where pixels begin and end, before the first row and column, and after
    the last ones (cuTensorMapEncodeIm2col, pixelBoxLowerCorner and pixelBoxUpperCorner)."""

    array: Array
    box: tuple[int, ...]
    swizzle: str = "none"
    corners: Corners | None = None


def uniform(value: Any, dtype: Any = np.int64) -> Array:
    return np.array([value], dtype)


def mapped(function: Callable[..., Any], value: Any, *others: Any) -> Any:
    """A value with a function of its arrays, and of those in `others` of its form, in their places."""
    if is_array(value):
        return function(value, *others)
    if any(other is None for other in others):
        return value
    if isinstance(value, Parts):
        names = [part.name for part in fields(value)]  # type: ignore[arg-type]
        made = {
            name: mapped(function, *(getattr(one, name) for one in (value, *others)))
            for name in names
        }
        return replace(value, **made)  # type: ignore[type-var]
    if isinstance(value, (tuple, list)):
        return type(value)(mapped(function, *parts) for parts in zip(value, *others, strict=True))
    return value


def arrays_in(value: Any) -> list[Array]:
    found: list[Array] = []
    mapped(found.append, value)
    return found


def merge(mask: Array | None, new: Any, old: Any) -> Any:
    """`new` in the lanes of `mask`, `old` in the others; None for all lanes, or no old value."""
    if mask is None or old is None or new is old:
        return new
    if is_array(new):
        return np.where(mask.reshape((-1,) + (1,) * (new.ndim - 1)), new, old)
    if isinstance(new, Token):
        return replace(new, number=merge(mask, new.number, old.number))
    if isinstance(new, (tuple, list)):
        return type(new)(merge(mask, *both) for both in zip(new, old, strict=True))
    return mapped(partial(merge, mask), new, old)


def lanes_of(value: Any, width: int) -> Any:
    """An array broadcast to `width` lanes."""
    if value.shape[0] == width:
        return value
    return np.broadcast_to(value, (width, *value.shape[1:]))


NONE: Any = object()
"""The mask without any lane."""


def split(mask: Array | None, condition: Array) -> tuple[Any, Any]:
    """The lanes of `mask` where a condition holds, and the others; `NONE` for no lane."""
    if condition.shape[0] == 1:
        return (mask, NONE) if condition[0] else (NONE, mask)
    yes = condition if mask is None else condition & mask
    no = ~condition if mask is None else ~condition & mask
    if not yes.any():
        return NONE, mask
    if not no.any():
        return mask, NONE
    return yes, no


def split_cases(mask: Any, value: Any, cases: Iterable[int]) -> list[Any]:
    """The lanes of `mask` where a value is each of the cases, and last those where it is none of them."""
    found, rest = [], mask
    for case in cases:
        hit, rest = split(rest, value == case) if rest is not NONE else (NONE, NONE)
        found.append(hit)
    return [*found, rest]
