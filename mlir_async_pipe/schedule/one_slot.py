"""Takes the leading dimension off a buffer, and the leading subscript off all its users.

memref.alloc : memref<2x64xf32>                memref.alloc : memref<64xf32>
memref.load %b[%s, %t]                  -->    memref.load %b[%t]
memref.subview %b[%s, 0] [1, 64]               memref.subview %b[0] [64], cast to the old type
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    DYNAMIC,
    Operation,
    Value,
    again,
    ancestors,
    before,
    create,
    defining_op,
    is_block_argument,
    users,
)
from mlir_async_pipe.expand.write.slot_views import carried_attributes, retyped
from mlir_async_pipe.values.integer_ops import product
from mlir_async_pipe.vocabulary import accesses, operand_groups, row_of
from mlir_async_pipe.vocabulary.memory_names import DEALLOCATION_OPS

_SUBVIEW = "memref.subview"


def can_lose_slot(buffer: Value, loop: Operation) -> bool:
    """Whether every user of a buffer can do without its leading subscript: accesses and
    subviews of one slot in the loop, and deallocs."""
    kind = ir.MemRefType(buffer.type)
    strides, offset = kind.get_strides_and_offset()
    dense = [product(kind.shape[i + 1 :]) for i in range(kind.rank)]
    if list(strides) != dense or offset != 0:
        return False
    return all(
        user.name in DEALLOCATION_OPS or _can_do_without(user, buffer, loop)
        for user in users(buffer)
    )


def _can_do_without(user: Operation, buffer: Value, loop: Operation) -> bool:
    if loop not in list(ancestors(user)):
        return False
    if user.name == _SUBVIEW:
        sizes = list(ir.DenseI64ArrayAttr(user.attributes["static_sizes"]))
        strides = list(ir.DenseI64ArrayAttr(user.attributes["static_strides"]))
        shape = list(ir.MemRefType(user.results[0].type).shape)
        return sizes[0] == 1 and strides[0] == 1 and shape == sizes[1:]
    own = [access for access in accesses(user) if access.memory == buffer]
    return bool(own) and all(a.takes_slot_index and len(a.index_operands) > 1 for a in own)


def lose_slot(buffer: Value, loop: Operation) -> None:
    """Rewrite the buffer and all its users. Their handles are dead afterwards."""
    kind = ir.MemRefType(buffer.type)
    reduced = ir.MemRefType.get(
        list(kind.shape)[1:], kind.element_type, memory_space=kind.memory_space, loc=loop.location
    )
    if is_block_argument(buffer):
        for user in users(buffer):
            _rewrite(user, buffer, buffer)
        buffer.set_type(reduced)
        return
    old = defining_op(buffer)
    assert old is not None
    made = retyped(old, reduced)
    for user in users(buffer):
        _rewrite(user, buffer, made)
    old.erase()


def _rewrite(user: Operation, buffer: Value, new: Value) -> None:
    if user.name in DEALLOCATION_OPS:
        user.operands[len(user.operands) - 1] = new
    elif user.name == _SUBVIEW:
        _rewrite_subview(user, new)
    else:
        _rewrite_access(user, buffer, new)


def _rewrite_access(op: Operation, buffer: Value, new: Value) -> None:
    row = row_of(op)
    assert row is not None
    own = [access for access in accesses(op) if access.memory == buffer]
    operands: list[Any] = list(op.operands)
    for access in own:
        operands[access.memory_operand] = new
    gone = {access.index_operands.start for access in own}
    attributes = carried_attributes(op)
    if "operandSegmentSizes" in attributes:
        sizes = [
            len(group) - len(gone.intersection(group)) for group in operand_groups(op, row).values()
        ]
        attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get(sizes, op.context)
    kept = [operand for number, operand in enumerate(operands) if number not in gone]
    again(op, kept, attributes=attributes)


def _rewrite_subview(op: Operation, new: Value) -> None:
    attributes = carried_attributes(op)
    offsets = list(ir.DenseI64ArrayAttr(attributes["static_offsets"]))
    operands = [new, *list(op.operands)[1:]]
    if offsets[0] == DYNAMIC:
        del operands[1]
        sizes = list(ir.DenseI32ArrayAttr(attributes["operandSegmentSizes"]))
        sizes[1] -= 1
        attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get(sizes, op.context)
    for name in ("static_offsets", "static_sizes", "static_strides"):
        rest = list(ir.DenseI64ArrayAttr(attributes[name]))[1:]
        attributes[name] = ir.DenseI64ArrayAttr.get(rest, op.context)
    old = op.results[0].type
    made = create(
        _SUBVIEW,
        operands,
        [_view_type(op, offsets[1:])],
        attributes,
        ip=before(op),
        loc=op.location,
    )
    value = made.results[0]
    if value.type != old:
        value = create("memref.cast", [value], [old], ip=before(op), loc=op.location).results[0]
    op.results[0].replace_all_uses_with(value)
    op.erase()


def _view_type(op: Operation, offsets: list[int]) -> Any:
    """What a subview without the leading dimension infers as its type."""
    old = ir.MemRefType(op.results[0].type)
    source = list(ir.MemRefType(op.operands[0].type).shape)[1:]
    strides, _ = old.get_strides_and_offset()
    start: int | str = "?"
    if DYNAMIC not in offsets:
        start = sum(o * product(source[n + 1 :]) for n, o in enumerate(offsets))
    layout = ir.Attribute.parse(
        f"strided<[{', '.join(map(str, strides))}], offset: {start}>", op.context
    )
    return ir.MemRefType.get(
        list(old.shape),
        old.element_type,
        layout=layout,
        memory_space=old.memory_space,
        loc=op.location,
    )
