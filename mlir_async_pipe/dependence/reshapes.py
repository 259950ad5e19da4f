"""Subscripts through views that only regroup dimensions.

    %v = memref.expand_shape %b [[0, 1]] output_shape [2, 8]      %v[i, j]  -->  %b[8 i + j]
    %v = memref.collapse_shape %b [[0, 1]]  of memref<1x16xf32>   %v[i]     -->  %b[0, i]
    %v = memref.reinterpret_cast %b with the shape, offset 0 and strides of %b     %v[i] --> %b[i]

A collapsed group may have one dimension longer than 1: more would take divisions apart.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation
from mlir_async_pipe.values.integer_ops import product
from mlir_async_pipe.values.linear import Linear
from mlir_async_pipe.values.sums import ZERO, add, scale

Coordinates = tuple[list[Linear], list[int]]


def through_reshape(
    op: Operation, subscripts: list[Linear], extent: list[int]
) -> Coordinates | None:
    """Subscripts and extent of a view's element in the coordinates of its source; None where
    they cannot be said."""
    source, result = (ir.MemRefType(v.type) for v in (op.operands[0], op.results[0]))
    if not source.has_static_shape or not result.has_static_shape:
        return None
    if op.name == "memref.reinterpret_cast":
        return (subscripts, extent) if _same_layout(source, result) else None
    groups = [[int(ir.IntegerAttr(n)) for n in ir.ArrayAttr(g)] for g in _reassociation(op)]
    if op.name == "memref.expand_shape":
        return _joined(groups, list(result.shape), subscripts, extent)
    return _split(groups, list(source.shape), subscripts, extent)


def _reassociation(op: Operation) -> Any:
    return ir.ArrayAttr(op.attributes["reassociation"])


def _same_layout(source: Any, result: Any) -> bool:
    return (
        list(source.shape) == list(result.shape)
        and source.get_strides_and_offset() == result.get_strides_and_offset()
        # A reinterpret_cast counts from where the allocation begins.
        and source.get_strides_and_offset()[1] == 0
    )


def _joined(
    groups: list[list[int]], shape: list[int], subscripts: list[Linear], extent: list[int]
) -> Coordinates | None:
    """Each group of the view's dimensions is one of the source: sums in mixed radix."""
    joined, widened = [], []
    for group in groups:
        *outer, last = group
        # What goes over the end of a row is no range of the source.
        if any(extent[dimension] > 1 for dimension in outer):
            return None
        total: Linear = ZERO
        for position, dimension in enumerate(group):
            inner = product(shape[d] for d in group[position + 1 :])
            total = add(total, scale(subscripts[dimension], inner))
        joined.append(total)
        widened.append(extent[last])
    return joined, widened


def _split(
    groups: list[list[int]], shape: list[int], subscripts: list[Linear], extent: list[int]
) -> Coordinates | None:
    """Each dimension of the view is a group of the source's, of which one is longer than 1."""
    moved, widened = [], []
    for group, subscript, length in zip(groups, subscripts, extent, strict=True):
        long = [dimension for dimension in group if shape[dimension] != 1] or group[-1:]
        if len(long) > 1:
            return None
        for dimension in group:
            moved.append(subscript if dimension in long else ZERO)
            widened.append(length if dimension in long else 1)
    return moved, widened
