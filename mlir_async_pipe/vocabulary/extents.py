"""How many elements an access covers: the `extent` functions of the vocabulary rows.

Each returns the number of elements in the trailing dimensions, counted from the subscripts
on: (8,) is 8 neighbours in the last dimension, (4, 8) a box of 4 rows and 8 columns; () is
the single element; None is "not known, take the whole buffer".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import constant_value, integer_attribute
from mlir_async_pipe.bindings.type_classes import as_kind
from mlir_async_pipe.vocabulary.memory_layout import (
    UnknownLayoutError,
    element_bytes,
    layout_of,
    strides_and_offset,
)


def element(op: Any) -> tuple[int, ...]:
    """The single element at the subscripts."""
    return ()


def whole(op: Any) -> None:
    """The op does not bound what it touches."""
    return None


def attribute(name: str) -> Callable[[Any], tuple[int, ...] | None]:
    """As many neighbours as the integer attribute `name` says."""

    def extent(op: Any) -> tuple[int, ...] | None:
        count = integer_attribute(op, name)
        return None if count is None else (count,)

    return extent


def vector_result(op: Any) -> tuple[int, ...]:
    """The shape of the vector in result 0 (a scalar: the single element)."""
    return shape_of(op.results[0].type)


def vector_operand(number: int) -> Callable[[Any], tuple[int, ...] | None]:
    """The shape of the vector in operand `number`."""

    def extent(op: Any) -> tuple[int, ...] | None:
        return shape_of(op.operands[number].type)

    return extent


def transfer_type(op: Any) -> tuple[int, ...] | None:
    """The shape of the type in `transferType` (elements a lane moves)."""
    return shape_of(ir.TypeAttr(op.attributes["transferType"]).value)


def bytes_of(size: str | int) -> Callable[[Any], tuple[int, ...] | None]:
    """A number of bytes after a pointer: a constant, or the integer attribute `size`."""

    def extent(op: Any) -> tuple[int, ...] | None:
        count = size if isinstance(size, int) else integer_attribute(op, size)
        return None if count is None else (count,)

    return extent


def bytes_at(size: str | int) -> Callable[[Any], tuple[int, ...] | None]:
    """The same, where an immediate `offset` may move both ends of a copy (LLVM, AMDGPU intrinsics):
    the copy is then somewhere in their memory."""
    extent = bytes_of(size)
    return lambda op: None if integer_attribute(op, "offset") else extent(op)


def bytes_given(offset: int, size: int | None = None) -> Callable[[Any], tuple[int, ...] | None]:
    """The same of a call whose operand `offset` is the immediate; without a `size` in bytes operand 2
    is that."""

    def extent(op: Any) -> tuple[int, ...] | None:
        count = constant_value(op.operands[2]) if size is None else size
        moved = constant_value(op.operands[offset])
        return None if count is None or moved != 0 else (count,)

    return extent


def result_bytes(op: Any) -> tuple[int, ...] | None:
    """Bytes after a pointer that hold result 0."""
    return _type_bytes(op.results[0].type)


def operand_bytes(number: int) -> Callable[[Any], tuple[int, ...] | None]:
    """Bytes after a pointer that hold operand `number`."""
    return lambda op: _type_bytes(op.operands[number].type)


def _type_bytes(kind: Any) -> tuple[int, ...] | None:
    try:
        return (-(-layout_of(kind).bits // 8),)
    except UnknownLayoutError:
        return None


def matrix_row(op: Any) -> tuple[int, ...]:
    """ldmatrix: each active lane names one row of 16 bytes."""
    return (16 // element_bytes(op.operands[0].type),)


def matrix_tile(op: Any) -> tuple[int, ...] | None:
    """The rows and columns of a matrix that a wave loads or stores at subscripts in two dimensions;
    None where its lines are not those of the memref, or where it is transposed."""
    store = not len(op.results)
    shape = _MATRIX.match(str(op.operands[0].type if store else op.results[0].type))
    memory = ir.MemRefType(op.operands[1 if store else 0].type)
    if shape is None or "transpose" in op.attributes or memory.rank < 2:
        return None
    strides, _ = strides_and_offset(memory)
    if strides[-2:] != [integer_attribute(op, "leadDimension"), 1]:
        return None
    return int(shape[1]), int(shape[2])


_MATRIX = re.compile(r"!gpu\.mma_matrix<(\d+)x(\d+)x")


def shape_of(kind: Any) -> tuple[int, ...]:
    """The static shape of a vector type, () for any scalar."""
    vector = as_kind(ir.VectorType, kind)
    return () if vector is None else tuple(vector.shape)
