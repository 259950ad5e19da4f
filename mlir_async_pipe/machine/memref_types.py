"""Memref types: memory space, and the value that a buffer of the type becomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.machine.kinds import Kind, kind_of
from mlir_async_pipe.machine.lane_values import MemRef, uniform
from mlir_async_pipe.machine.memory import GLOBAL, PRIVATE, WORKGROUP
from mlir_async_pipe.session.diagnostics import MachineError

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
        space_of(memref),
    )


def space_of(memref: Any) -> int | None:
    """The memory space of a memref type, None for the default space."""
    if memref.memory_space is None:
        return None
    return space_of_text(str(memref.memory_space))


def space_of_text(text: str) -> int:
    """A space by its attribute: the gpu dialect's words, or the vendors' numbers (3 is
    workgroup and 5 private on both)."""
    if "workgroup" in text or text.split(":")[0].strip() == "3":
        return WORKGROUP
    if "private" in text or text.split(":")[0].strip() == "5":
        return PRIVATE
    return GLOBAL


def _known(value: int) -> int | None:
    return None if value == DYNAMIC else int(value)
