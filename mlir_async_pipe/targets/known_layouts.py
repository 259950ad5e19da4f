"""Refuses memory whose layout nobody knows, before MLIR's conversions or a back end die of it.

memref<64xtf32>                               element-layout: memory holds f32
nvgpu.device_async_copy of memref<64xi24>     copy-width: 3 bytes of every 4 are no row of bytes
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.diagnostics import LoweringError
from mlir_async_pipe.ir_helpers import Operation, walk
from mlir_async_pipe.memory_layout import UnknownLayoutError, element_layout, is_packed
from mlir_async_pipe.vocabulary import accesses

_COPY = "nvgpu.device_async_copy"


def check_layouts(root: Operation) -> None:
    """Raise LoweringError (element-layout) at the first op that makes or takes memory of unknown
    layout, (copy-width) at a copy whose elements lie further apart than their own bytes."""
    known: set[Any] = set()
    for op in walk(root):
        for kind in _types(op):
            if kind not in known:
                known.add(kind)
                _check(kind, op)
        if op.name == _COPY and not all(is_packed(access.memory) for access in accesses(op)):
            raise LoweringError(
                "the elements of this copy are no whole number of bytes, or lie apart in memory",
                code="copy-width",
                at=op,
                advice="copy elements of 1, 2, 4, 8 or 16 bytes",
            )


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
    except UnknownLayoutError as error:
        raise LoweringError(f"cannot lower this: {error}", code="element-layout", at=op) from error
