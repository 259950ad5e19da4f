"""Lets the accesses of a pipelined loop's body use the slots of their buffers.

    memref.load %b[%i, %j]                 -->    memref.load %b[%slot, %i, %j]
    memref.subview %b[0, 0] [16, 32]       -->    memref.subview %b[%slot, 0, 0] [1, 16, 32]
    llvm.load %p                           -->    llvm.load (llvm.getelementptr %p[%slot * bytes])

Accesses that take subscripts get a leading one, all others a view of their slot; a pointer goes on by
whole slots, wherever in its slot it points to.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    again,
    before,
    source_op,
    walk,
)
from mlir_async_pipe.expand.plan.movable_views import is_movable
from mlir_async_pipe.expand.write.slot_views import (
    carried_attributes,
    move_view,
    whole_slot,
)
from mlir_async_pipe.expand.write.versioned_buffers import VersionedBuffer
from mlir_async_pipe.lowering.scopes.llvm_builder import LlvmBuilder
from mlir_async_pipe.values.integer_writer import IntegerWriter
from mlir_async_pipe.values.memory_roots import root_of
from mlir_async_pipe.values.pointers import is_pointer
from mlir_async_pipe.vocabulary import Access, accesses, operand_groups, row_of


def move_accesses(
    buffers: list[VersionedBuffer], slots: dict[int, Value], ops: list[Operation]
) -> list[list[Operation]]:
    """Let the accesses of the pipelined loop's body use their slots.

    `ops` are the top-level ops of the body in textual order, `slots` the slot index for each
    number of versions. Returns, for each of them, the ops that now stand in its place.
    """
    by_key = {root_of(buffer.value).identity: buffer for buffer in buffers}
    moved: set[Value] = set()
    result = []
    for op in ops:
        current, extra = op, []
        for inner in list(walk(op)) if len(op.regions) else [op]:
            if is_movable(inner.name):
                buffer = by_key.get(root_of(inner.operands[0]).identity)
                if buffer is None:
                    continue
                slot = slots[buffer.plan.versions]
                made = move_view(
                    inner, buffer.value, buffer.shape, slot, inner.operands[0] in moved
                )
                moved.add(made[-1].results[0])
                if inner is op:
                    *before_it, current = made
                    extra += before_it
                continue
            for access in _direct_accesses(inner, by_key, moved):
                buffer = by_key[root_of(access.memory).identity]
                slot = slots[buffer.plan.versions]
                if is_pointer(access.memory):
                    made = _further(access, slot, buffer.plan.slot_bytes)
                    extra += made if inner is op else []
                elif access.takes_slot_index:
                    with_index = _with_leading_index(buffer, access, slot)
                    current = with_index if inner is op else current
                    inner = with_index
                else:
                    view = whole_slot(
                        buffer.value, buffer.shape, slot, before(inner), inner.location
                    )
                    inner.operands[access.memory_operand] = view.results[0]
                    extra += [view] if inner is op else []
        result.append([*extra, current])
    return result


def _direct_accesses(
    op: Operation, by_key: dict[Any, VersionedBuffer], moved: set[Value]
) -> list[Access]:
    """Accesses that name the buffer itself, last operand first: each is moved on its own,
    and moving one shifts the operands after it."""
    found = [
        access
        for access in accesses(op)
        if root_of(access.memory).identity in by_key and access.memory not in moved
    ]
    return sorted(found, key=lambda access: -access.memory_operand)


def _further(access: Access, slot: Value, bytes_: int) -> list[Operation]:
    """Let an access by a pointer go `slot` slots further; returns what that is computed with."""
    op = access.op
    write = IntegerWriter(before(op), op.location)
    i64 = ir.IntegerType.get_signless(64, op.context)
    offset = write.cast("arith.index_cast", write.multiply(slot, bytes_), i64)
    pointer = LlvmBuilder(before(op), op.location).at(access.memory, offset)
    op.operands[access.memory_operand] = pointer
    return [*write.made, source_op(pointer)]


def _with_leading_index(buffer: VersionedBuffer, access: Access, slot: Value) -> Operation:
    op = access.op
    row = row_of(op)
    assert row is not None
    groups = operand_groups(op, row)
    operands = list(op.operands)
    operands[access.memory_operand] = buffer.value
    operands.insert(access.index_operands.start, slot)
    attributes = carried_attributes(op)
    if "operandSegmentSizes" in attributes:
        sizes = [len(g) + (1 if g == access.index_operands else 0) for g in groups.values()]
        attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get(sizes, op.context)
    return again(op, operands, attributes=attributes)
