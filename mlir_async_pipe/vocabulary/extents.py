"""How many elements an access covers: the `extent` functions of the vocabulary rows.

Each returns the number of elements in the trailing dimensions, counted from the subscripts
on: (8,) is 8 neighbours in the last dimension, (4, 8) a box of 4 rows and 8 columns; () is
the single element; None is "not known, take the whole buffer".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.ir_helpers import integer_attribute


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
    """A number of bytes behind a pointer: a constant, or the integer attribute `size`."""

    def extent(op: Any) -> tuple[int, ...] | None:
        count = size if isinstance(size, int) else integer_attribute(op, size)
        return None if count is None else (count,)

    return extent


def result_bytes(op: Any) -> tuple[int, ...] | None:
    """Bytes behind a pointer that hold result 0."""
    return _type_bytes(op.results[0].type)


def stored_bytes(op: Any) -> tuple[int, ...] | None:
    """Bytes behind a pointer that hold operand 0."""
    return _type_bytes(op.operands[0].type)


def _type_bytes(kind: Any) -> tuple[int, ...] | None:
    count = 1
    for size in shape_of(kind):
        count *= size
    try:
        inner = ir.VectorType(kind).element_type if shape_of(kind) else kind
        return (-(-count * bits_of_scalar(inner) // 8),)
    except ValueError:
        return None


def matrix_row(op: Any) -> tuple[int, ...]:
    """ldmatrix: each active lane names one row of 16 bytes."""
    return (16 * 8 // element_bits(op.operands[0].type),)


def shape_of(kind: Any) -> tuple[int, ...]:
    """The static shape of a vector type, () for any scalar."""
    try:
        return tuple(ir.VectorType(kind).shape)
    except ValueError:
        return ()


def element_bits(kind: Any) -> int:
    """Bits of one element of a memref or vector type; index counts as 64."""
    inner = ir.ShapedType(kind).element_type
    try:
        return bits_of_scalar(inner)
    except ValueError:
        vector = ir.VectorType(inner)
        count = 1
        for size in vector.shape:
            count *= size
        return count * bits_of_scalar(vector.element_type)


def bits_of_scalar(kind: Any) -> int:
    """Bits of an integer, float or index type; raises ValueError for any other."""
    width = _BITS.get(str(kind))
    if width is not None:
        return width
    try:
        return int(ir.IntegerType(kind).width)
    except ValueError:
        raise ValueError(f"no bit width known for {kind}") from None


_BITS = {
    "index": 64,
    "f16": 16,
    "bf16": 16,
    "f32": 32,
    "tf32": 19,
    "f64": 64,
    "f8E4M3FN": 8,
    "f8E5M2": 8,
    "f8E4M3FNUZ": 8,
    "f8E5M2FNUZ": 8,
}
