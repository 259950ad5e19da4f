"""Values that are others by another name, and the rewrite that says so.

    %b = nvvm.shfl.sync idx %mask, %a, %lane, %last      %a, if all lanes of the warp have the same %a
    %w = rocdl.readfirstlane %v                          %v, if it is the number of the wave
    %q = llvm.inttoptr (llvm.ptrtoint %p)                %p, also through casts that lose nothing of it
    %y = llvm.extractvalue (llvm.insertvalue %x, …[1])[1]        %x
    %t = llvm.insertvalue of each field of %s in turn            %s
    %d = llvm.bitcast of the vector of %low, %high : i32         llvm.or %low, (%high << 32) : i64

CuTe hands the base of dynamic shared memory from lane to lane, as a number, so that the compiler below
keeps it in a register of the warp; then nobody sees which memory it is. Triton takes the sums of a product apart
and puts them together again before the next one: no thread reads or writes a register for that. Its descriptors
are vectors of two numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    before,
    constant_value,
    create,
    defining_op,
    type_text,
    walk_named,
)
from mlir_async_pipe.facts.values.integer_ops import bits_of, bits_of_text
from mlir_async_pipe.facts.values.memory_roots import POINTER_BITS, SHARED_BITS
from mlir_async_pipe.facts.values.warp_values import WarpValues
from mlir_async_pipe.vocabulary.launch_ids import SHUFFLES
from mlir_async_pipe.vocabulary.memory_names import (
    ADDRESS_OPS,
    BITS_TAKEN,
    ELEMENT_PUT,
    MEMBER_PUT,
    MEMBER_TAKEN,
    PARTS,
    POINTER_OF_ADDRESS,
    position_of,
    taken_member,
)
from mlir_async_pipe.vocabulary.operator_table import is_operator


def replace(root: Operation) -> int:
    """Make what is another value below `root` that value; how often."""
    replaced = 0
    for op, value in _found(root):
        op.results[0].replace_all_uses_with(value)
        replaced += 1
    for op in reversed(list(walk_named(root, PARTS.__contains__)) if replaced else []):
        if not any(True for _ in op.results[0].uses):
            op.erase()
    return replaced


def may_be_another(name: str) -> bool:
    """Whether results of ops called `name` may be values by another name."""
    return name in SHUFFLES or name in PARTS or name in (POINTER_OF_ADDRESS, BITS_TAKEN)


def _found(root: Operation) -> Iterator[tuple[Operation, Value]]:
    """Ops whose first result is another value, in the order in which they stand; each is asked when those
    before it were seen to."""
    of_warps = WarpValues()
    for op in walk_named(root, may_be_another):
        if op.name == POINTER_OF_ADDRESS:
            value = _viewed_pointer(op)
        elif op.name == BITS_TAKEN:
            value = _number_of_parts(op)
        elif op.name == MEMBER_TAKEN:
            value = taken_member(op)
        elif op.name == MEMBER_PUT:
            value = _put_together_again(op)
        else:
            shuffle = SHUFFLES[op.name]
            given = op.operands[shuffle.operand]
            value = given if of_warps.is_of_warp(given, shuffle.lanes) else None
        if value is not None and value.type == op.results[0].type:
            yield op, value


def _viewed_pointer(op: Operation) -> Value | None:
    """The pointer whose whole address a number is that is taken for one."""
    kind = type_text(op.results[0].type)
    bits = SHARED_BITS if kind == "!llvm.ptr<3>" else POINTER_BITS
    number = op.operands[0]
    while bits_of(number.type) >= bits:
        made = defining_op(number)
        if made is None:
            return None
        if made.name in ADDRESS_OPS:
            return made.operands[0]
        if not is_operator(made.name, "cast"):
            return None
        number = made.operands[0]
    return None


def _number_of_parts(op: Operation) -> Value | None:
    """The number whose lower half is the first element of a vector of two, and whose upper half is the second:
    made before the op that gives it."""
    put = defining_op(op.operands[0])
    bits = bits_of_text(type_text(op.results[0].type))
    halves: dict[int | None, Value] = {}
    while put is not None and put.name == ELEMENT_PUT and len(halves) < 2:
        whole, element, index = put.operands
        halves.setdefault(constant_value(index), element)
        put = defining_op(whole)
    each = {2 * (bits_of_text(type_text(half.type)) or 0) for half in halves.values()}
    if set(halves) != {0, 1} or bits is None or each != {bits}:
        return None
    kind, at = op.results[0].type, {"ip": before(op), "loc": op.location}

    def make(name: str, *operands: Value, **attributes: ir.Attribute) -> Value:
        return create(name, operands, [kind], attributes, **at).results[0]

    low, high = (make("llvm.zext", halves[n]) for n in (0, 1))
    shift = make("llvm.mlir.constant", value=ir.IntegerAttr.get(kind, bits // 2))
    flags = ir.Attribute.parse("#llvm.overflow<none>", op.context)
    return make("llvm.or", low, make("llvm.shl", high, shift, overflowFlags=flags))


def _put_together_again(op: Operation) -> Value | None:
    """The struct of which all fields are put, each in its place, into the one that an op makes last."""
    kind = op.results[0].type
    last = number_of_fields(kind) - 1
    if position_of(op) != (last,):
        return None
    whole: Value | None = None
    for place in range(last, -1, -1):
        put = op if place == last else defining_op(op.operands[0])
        if put is None or put.name != MEMBER_PUT or position_of(put) != (place,):
            return None
        op = put
        taken = defining_op(op.operands[1])
        if taken is None or taken.name != MEMBER_TAKEN or position_of(taken) != (place,):
            return None
        if whole is not None and taken.operands[0] != whole:
            return None
        whole = taken.operands[0]
    return whole


def number_of_fields(kind: Any) -> int:
    """How many fields a struct type has.

    !llvm.struct<(f32, struct<(i32, i32)>, array<2 x i8>)>     3
    """
    depth, count = 0, 1
    for letter in type_text(kind):
        depth += (letter in "<(") - (letter in ">)")
        count += letter == "," and depth == 2
    return count
