"""Views of one slot of a versioned buffer, inside the pipelined loop.

    memref.subview %b[0, 0] [16, 32]             memref.subview %b[%slot, 0, 0] [1, 16, 32]
    memref.expand_shape %b …              -->    %s = memref.subview %b[%slot, 0, 0] …
                                                 memref.expand_shape %s …
    memref.reinterpret_cast %b to offset: [8]    … to offset: [%slot * 4096 + 8]

A reinterpret_cast begins at the allocation whatever its source's offset is, so the slot is
added to its own offset, in elements. All result types lose their constant offset.
"""

from __future__ import annotations

from math import prod
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    DYNAMIC,
    Operation,
    Value,
    again,
    before,
    create,
    defining_op,
)
from mlir_async_pipe.facts.loops.annotations import carried_attributes
from mlir_async_pipe.facts.values.integer_writer import IntegerWriter
from mlir_async_pipe.pipeliner.plan.buffer_plan import REINTERPRET


def move_view(
    op: Operation, value: Value, shape: tuple[int, ...], slot: Value, of_moved: bool
) -> list[Operation]:
    """Let a view show `slot` of the versioned buffer `value`, whose slots have `shape`.

    `of_moved`: its source is a view that was moved before. Returns the ops that stand
    in its place, the view last."""
    if op.name == REINTERPRET:
        return _move_reinterpret(op, value, slot)
    if of_moved:
        op.results[0].set_type(freed(op.results[0].type))
        return [op]
    if op.name == "memref.subview":
        return [_move_subview(op, value, slot)]
    view = whole_slot(value, shape, slot, before(op), op.location)
    op.operands[0] = view.results[0]
    op.results[0].set_type(freed(op.results[0].type))
    return [view, op]


def whole_slot(value: Value, shape: tuple[int, ...], slot: Value, ip: Any, loc: Any) -> Operation:
    """A view of one slot, for an op that cannot take a slot index."""
    offsets = [DYNAMIC] + [0] * len(shape)
    view = slot_subview(value, offsets, [slot], shape, offset="?", ip=ip, loc=loc)
    made = defining_op(view)
    assert made is not None
    return made


def _move_subview(op: Operation, value: Value, slot: Value) -> Operation:
    attributes = carried_attributes(op)
    for name, dimension in (
        ("static_offsets", DYNAMIC),
        ("static_sizes", 1),
        ("static_strides", 1),
    ):
        values = [dimension, *ir.DenseI64ArrayAttr(attributes[name])]
        attributes[name] = ir.DenseI64ArrayAttr.get(values, op.context)
    sizes = list(ir.DenseI32ArrayAttr(attributes["operandSegmentSizes"]))
    sizes[1] += 1
    attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get(sizes, op.context)
    operands = [value, slot, *list(op.operands)[1:]]
    return again(op, operands, [freed(op.results[0].type)], attributes)


def _move_reinterpret(op: Operation, value: Value, slot: Value) -> list[Operation]:
    """offset + slot * elements of a slot."""
    attributes = carried_attributes(op)
    (static,) = ir.DenseI64ArrayAttr(attributes["static_offsets"])
    sizes = list(ir.DenseI32ArrayAttr(attributes["operandSegmentSizes"]))
    write = IntegerWriter(before(op), op.location)
    start = write.multiply(slot, prod(ir.MemRefType(value.type).shape[1:]))
    offset = write.add(start, op.operands[1] if static == DYNAMIC else static)
    rest = list(op.operands)[1 + sizes[1] :]
    sizes[1] = 1
    attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get(sizes, op.context)
    attributes["static_offsets"] = ir.DenseI64ArrayAttr.get([DYNAMIC], op.context)
    made = again(op, [value, offset, *rest], [freed(op.results[0].type)], attributes)
    return [*write.made, made]


def slot_subview(
    value: Value,
    offsets: list[int],
    dynamic: list[Value],
    shape: tuple[int, ...],
    *,
    offset: str,
    ip: Any,
    loc: Any,
) -> Value:
    """A rank-reducing subview of one slot; `offset` is "0" or "?" (in the result's layout)."""
    kind = ir.MemRefType(value.type)
    context = kind.context
    strides = [prod(kind.shape[i + 2 :]) for i in range(len(shape))]
    result = _strided(kind, shape, strides, offset)
    attributes = {
        "static_offsets": ir.DenseI64ArrayAttr.get(offsets, context),
        "static_sizes": ir.DenseI64ArrayAttr.get([1, *shape], context),
        "static_strides": ir.DenseI64ArrayAttr.get([1] * (len(shape) + 1), context),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, len(dynamic), 0, 0], context),
    }
    return create(
        "memref.subview", [value, *dynamic], [result], attributes, ip=ip, loc=loc
    ).results[0]


def _strided(kind: Any, shape: tuple[int, ...], strides: list[int], offset: str) -> Any:
    layout = ir.Attribute.parse(
        f"strided<[{', '.join(map(str, strides))}], offset: {offset}>", kind.context
    )
    return ir.MemRefType.get(
        list(shape),
        kind.element_type,
        layout=layout,
        memory_space=kind.memory_space,
        loc=ir.Location.unknown(kind.context),
    )


def freed(kind: Any) -> Any:
    """The memref type with an unknown offset."""
    memref = ir.MemRefType(kind)
    strides, _ = memref.get_strides_and_offset()
    return _strided(memref, tuple(memref.shape), list(strides), "?")
