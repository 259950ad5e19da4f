"""Refuses memory that no GPU has, before MLIR's conversions or a back end die of it, or drop it.

memref<64xtf32>                               element-layout: memory holds f32
nvgpu.device_async_copy of memref<64xi24>     copy-width: 3 bytes of every 4 are no row of bytes
vector.load memref<64xi4>, vector<8xi4>       element-layout: 8 bytes in memory, 4 in a vector
memref.global @g : memref<4xf32, 3> = dense…  lost-values: workgroup memory holds what it held before
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation, symbol_name, walk
from mlir_async_pipe.session.diagnostics import LoweringError
from mlir_async_pipe.vocabulary import Access, accesses
from mlir_async_pipe.vocabulary.memory_layout import (
    UnknownLayoutError,
    element_layout,
    is_packed,
    strides_and_offset,
)
from mlir_async_pipe.vocabulary.memory_names import lost_values

_COPY = "nvgpu.device_async_copy"


def check_layouts(root: Operation) -> None:
    """Raise LoweringError (element-layout) at the first op that makes or takes memory of unknown
    layout or moves a row whose elements a vector would hold closer together, (copy-width) at
    such a copy, (lost-values) at a workgroup global with values."""
    for declared in lost_values(root):
        raise LoweringError(
            f"workgroup memory has no initial values, and {symbol_name(declared)!r} is declared "
            "with some",
            code="lost-values",
            at=declared,
            advice="declare it uninitialized, and let the kernel store them",
        )
    known: set[Any] = set()
    for op in walk(root):
        for kind in _types(op):
            if kind not in known:
                known.add(kind)
                _check(kind, op)
        apart = [access for access in accesses(op) if _moves_row(access)]
        if apart and op.name != _COPY:
            kind = ir.MemRefType(apart[0].memory.type).element_type
            raise LoweringError(
                f"the elements that '{op.name}' moves, {kind}, lie further apart in memory than "
                "in a vector",
                code="element-layout",
                at=op,
                advice="move them one by one, or as elements of 1, 2, 4 or 8 bytes",
            )
        if apart:
            raise LoweringError(
                "the elements of this copy are no whole number of bytes, or lie apart in memory",
                code="copy-width",
                at=op,
                advice="copy elements of 1, 2, 4, 8 or 16 bytes",
            )


def _moves_row(access: Access) -> bool:
    """Whether several elements are moved at once that memory holds further apart than a vector:
    LLVM would read and write the packed bits of the vector. A copy is refused for one, too."""
    several = access.extent is not None and prod(access.extent) > 1
    if not several and access.op.name != _COPY:
        return False
    return str(access.memory.type).startswith("memref<") and not is_packed(access.memory)


def _types(op: Operation) -> Iterator[Any]:
    for result in op.results:
        yield result.type
    for region in op.regions:
        for block in region.blocks:
            for argument in block.arguments:
                yield argument.type


def _check(kind: Any, op: Operation) -> None:
    try:
        memref = ir.MemRefType(kind)
    except ValueError:
        return
    try:
        element_layout(memref)
        strides_and_offset(memref)
    except UnknownLayoutError as error:
        raise LoweringError(f"cannot lower this: {error}", code="element-layout", at=op) from error
