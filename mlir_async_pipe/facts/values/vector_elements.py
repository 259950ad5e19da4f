"""Elements of short vectors, followed to where they were put.

    %v = vector.shuffle %a, %b [0, 1] : vector<1xf32>, vector<1xf32>
    %y = vector.extract_strided_slice %v {offsets = [1], sizes = [1], …}       the bits of %b

    %v = llvm.insertelement %x, %u[%c0]
    %w = vector.bitcast %v : vector<2xi32> to vector<2xf32>
    %y = vector.extract %w[0]                                                  the bits of %x

Vectors of rank 1 only. Registers of products are handed on in such pairs (Pallas), and no thread reads or
writes a register for that.
"""

from __future__ import annotations

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    as_kind,
    constant_value,
    defining_op,
    result_number,
)
from mlir_async_pipe.vocabulary.control_flow import CAST_OPS
from mlir_async_pipe.vocabulary.memory_names import BITS_TAKEN, ELEMENT_PUT
from mlir_async_pipe.vocabulary.tensor_boxes import tensor_map_type

SLICE, EXTRACT, EXTRACT_LLVM = (
    "vector.extract_strided_slice",
    "vector.extract",
    "llvm.extractelement",
)
_SHUFFLE, _BITCAST, _FROM = "vector.shuffle", "vector.bitcast", "vector.from_elements"
_TAKES = (SLICE, EXTRACT, EXTRACT_LLVM)


def takes_element(name: str) -> bool:
    """Whether ops called `name` may take one element of a vector."""
    return name in _TAKES


def moves_bits(name: str) -> bool:
    """Whether ops called `name` take elements of vectors, put vectors together, or take bits for those of another type, and
    do nothing else."""
    return name in (*_TAKES, _SHUFFLE, _BITCAST, _FROM, ELEMENT_PUT, BITS_TAKEN)


def place_taken(op: Operation) -> tuple[Value, int] | None:
    """The vector and the place in it from which an op takes one element; None if it takes several, or where is not known."""
    vector, place = op.operands[0], None
    if length_of(vector) is None:
        return None
    if op.name == SLICE:
        offsets, sizes = (_numbers(op, name) for name in ("offsets", "sizes"))
        place = offsets[0] if sizes == [1] else None
    elif op.name == EXTRACT:
        static = list(ir.DenseI64ArrayAttr(op.attributes["static_position"]))
        place = static[0] if len(static) == 1 and static[0] >= 0 else None
    else:
        place = constant_value(op.operands[1])
    return None if place is None else (vector, place)


def element_taken(op: Operation) -> Value | None:
    """The value whose bits are the element that an op takes; None if that is not seen."""
    taken = place_taken(op)
    element = None if taken is None else element_of(*taken)
    return None if element is None or element == op.results[0] else element


def element_of(vector: Value, place: int) -> Value | None:
    """The value, a number or a vector of one element, whose bits are an element of a vector; None if that is not seen."""
    while (length := length_of(vector)) is not None:
        made = defining_op(vector)
        name = "" if made is None else str(made.name)
        if name in CAST_OPS:
            before = before_casts(vector)
            if before is None:
                return vector if length == 1 else None
            vector = before
        elif made is not None and name == _SHUFFLE and None not in map(length_of, made.operands):
            chosen, first = _mask(made)[place], length_of(made.operands[0]) or 0
            if chosen < 0:
                return None
            vector = made.operands[int(chosen >= first)]
            place = chosen - first * (chosen >= first)
        elif made is not None and name == SLICE:
            vector, place = made.operands[0], place + _numbers(made, "offsets")[0]
        elif (
            made is not None
            and name in (_BITCAST, BITS_TAKEN)
            and length_of(made.operands[0]) == length
        ):
            vector = made.operands[0]
        elif made is not None and name == ELEMENT_PUT:
            put = constant_value(made.operands[2])
            if put is None or put == place:
                return None if put is None else made.operands[1]
            vector = made.operands[0]
        elif made is not None and name == _FROM:
            return made.operands[place]
        elif length == 1:
            return vector
        else:
            return None
    return None


def before_casts(value: Value) -> Value | None:
    """The value that a cast gives back after another one; None if that is not what makes it, or the type between says
    the box of a tensor map.

    %v = unrealized_conversion_cast %a, %b : A, A to B
    %c:2 = unrealized_conversion_cast %v : B to A, A           %c#1 is %b
    """
    made = defining_op(value)
    first = None if made is None or not len(made.operands) else defining_op(made.operands[0])
    if made is None or first is None or not {made.name, first.name} <= {*CAST_OPS}:
        return None
    if list(made.operands) != list(first.results) or tensor_map_type(value):
        return None
    kinds = [[one.type for one in values] for values in (first.operands, made.results)]
    return first.operands[result_number(value)] if kinds[0] == kinds[1] else None


def register_of(value: Value) -> Value:
    """The value whose bits another one is, as far as ops only take bits for those of another type.

    llvm.bitcast (llvm.insertelement (llvm.bitcast %x : f32 to i32), …[0] : vector<1xi32>) to vector<1xf32>      %x
    """
    while True:
        made = defining_op(value)
        if made is not None and made.name in (BITS_TAKEN, _BITCAST):
            value = made.operands[0]
            continue
        if made is not None and takes_element(made.name):
            element = element_taken(made)
        else:
            element = element_of(value, 0) if length_of(value) == 1 else None
        if element is None or element == value:
            return value
        value = element


def length_of(vector: Value) -> int | None:
    """How many elements a vector of rank 1 has; None for all other values."""
    kind = as_kind(ir.VectorType, vector.type)
    return int(kind.shape[0]) if kind is not None and kind.rank == 1 else None


def _numbers(op: Operation, name: str) -> list[int]:
    return [int(ir.IntegerAttr(one)) for one in ir.ArrayAttr(op.attributes[name])]


def _mask(op: Operation) -> list[int]:
    return list(ir.DenseI64ArrayAttr(op.attributes["mask"]))
