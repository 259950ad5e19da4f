"""Lets the accesses of a pipelined loop's body use the slots of their buffers.

    memref.load %b[%i, %j]                 -->    memref.load %b[%slot, %i, %j]
    memref.subview %b[0, 0] [16, 32]       -->    memref.subview %b[%slot, 0, 0] [1, 16, 32]
    llvm.load %p                           -->    llvm.load (llvm.getelementptr %p[%slot * bytes])

Accesses that take subscripts get a leading one, all others a view of their slot, as do ops whose value
describes memory to a copy; a pointer goes on by whole slots, wherever in its slot it points to.
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
from mlir_async_pipe.facts.values.integer_writer import IntegerWriter
from mlir_async_pipe.facts.values.llvm_builder import LlvmBuilder
from mlir_async_pipe.facts.values.memory_roots import root_of
from mlir_async_pipe.facts.values.pointers import is_pointer
from mlir_async_pipe.pipeliner.expand.write.slot_views import (
    carried_attributes,
    move_view,
    whole_slot,
)
from mlir_async_pipe.pipeliner.expand.write.versioned_buffers import VersionedBuffer
from mlir_async_pipe.pipeliner.plan.buffer_plan import is_movable
from mlir_async_pipe.vocabulary import Access, accesses, groups_of, row_of


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
                *before_it, now = move_view(
                    inner, buffer.value, buffer.shape, slot, inner.operands[0] in moved
                )
                moved.add(now.results[0])
            else:
                before_it, now = _move_accesses_of(inner, by_key, slots, moved)
            if inner is op:
                extra, current = before_it, now
        result.append([*extra, current])
    return result


def _move_accesses_of(
    op: Operation,
    by_key: dict[Any, VersionedBuffer],
    slots: dict[int, Value],
    moved: set[Value],
) -> tuple[list[Operation], Operation]:
    """Let the accesses of one op use their slots; returns what stands before it now, and the op
    that stands in its place."""
    made = _describe_slots(op, by_key, slots, moved)
    for access in _direct_accesses(op, by_key, moved):
        buffer = by_key[root_of(access.memory).identity]
        slot = slots[buffer.plan.versions]
        if access.takes_slot_index and not is_pointer(access.memory):
            # The op of an access before this one may have been written again.
            op = _with_leading_index(op, buffer, access, slot)
            continue
        if is_pointer(access.memory):
            ops = _further(op, access, slot, buffer.plan.slot_bytes)
        else:
            ops = [whole_slot(buffer.value, buffer.shape, slot, before(op), op.location)]
        op.operands[access.memory_operand] = ops[-1].results[0]
        made += ops
    return made, op


def _describe_slots(
    op: Operation,
    by_key: dict[Any, VersionedBuffer],
    slots: dict[int, Value],
    moved: set[Value],
) -> list[Operation]:
    """Let a value that describes a buffer describe its slot; returns the views that stand before it."""
    made: list[Operation] = []
    row = row_of(op)
    groups = groups_of(op) if row.describes else {}
    for number in (n for name in row.describes for n in groups[name]):
        memory = op.operands[number]
        buffer = by_key.get(root_of(memory).identity)
        if buffer is not None and memory not in moved:
            slot = slots[buffer.plan.versions]
            made.append(whole_slot(buffer.value, buffer.shape, slot, before(op), op.location))
            op.operands[number] = made[-1].results[0]
    return made


def _direct_accesses(
    op: Operation, by_key: dict[Any, VersionedBuffer], moved: set[Value]
) -> list[Access]:
    """Accesses that name the buffer itself, last operand first: each is moved on its own,
    and moving one shifts the operands after it."""
    found = [
        access
        for access in accesses(op)
        if access.named_by == op
        and root_of(access.memory).identity in by_key
        and access.memory not in moved
    ]
    return sorted(found, key=lambda access: -access.memory_operand)


def _further(op: Operation, access: Access, slot: Value, bytes_: int) -> list[Operation]:
    """The ops that compute the pointer of an access `slot` slots further."""
    write = IntegerWriter(before(op), op.location)
    i64 = ir.IntegerType.get_signless(64, op.context)
    offset = write.cast("arith.index_cast", write.multiply(slot, bytes_), i64)
    pointer = LlvmBuilder(before(op), op.location).at(access.memory, offset)
    return [*write.made, source_op(pointer)]


def _with_leading_index(
    op: Operation, buffer: VersionedBuffer, access: Access, slot: Value
) -> Operation:
    row = row_of(op)
    groups = groups_of(op)
    of_memory = {groups[rule.memory].start: rule.indices for rule in row.accesses}
    indices = of_memory[access.memory_operand]
    operands = list(op.operands)
    operands[access.memory_operand] = buffer.value
    operands.insert(groups[indices].start, slot)
    attributes = carried_attributes(op)
    if "operandSegmentSizes" in attributes:
        # By name: the ranges of two groups without operands are equal.
        sizes = [len(group) + (name == indices) for name, group in groups.items()]
        attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get(sizes, op.context)
    return again(op, operands, attributes=attributes)
