"""Lets the ops of a loop's body use one slot of the versions of their buffers.

    memref.load %b[%i, %j]                 -->    memref.load %b[%slot, %i, %j]
    llvm.load %p                           -->    llvm.load (llvm.getelementptr %p[%slot * bytes])
    memref.subview %b[0, 0] [16, 32]       -->    memref.subview %b[%slot, 0, 0] [1, 16, 32]
    memref.expand_shape %b …               -->    %s = memref.subview %b[%slot, 0, 0] …
                                                  memref.expand_shape %s …
    memref.reinterpret_cast %b to offset: [8]     … to offset: [%slot * 4096 + 8]

Accesses that take subscripts get a leading one, all others a view of their slot, as do ops whose value
describes memory to a copy; a pointer goes on by whole slots, wherever in its slot it points to.
A reinterpret_cast begins at the allocation whatever its source's offset is, so the slot is
added to its own offset, in elements. All result types of views lose their constant offset.
"""

from __future__ import annotations

from math import prod
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    DYNAMIC,
    Operation,
    Value,
    after,
    again,
    before,
    remap,
    source_op,
    users,
    walk,
)
from mlir_async_pipe.facts.loops.annotations import carried_attributes
from mlir_async_pipe.facts.values.integer_writer import IntegerWriter
from mlir_async_pipe.facts.values.llvm_builder import LlvmBuilder
from mlir_async_pipe.facts.values.memory_roots import root_of
from mlir_async_pipe.facts.values.pointers import is_pointer
from mlir_async_pipe.pipeliner.expand.write.versioned_buffers import (
    VersionedBuffer,
    slot_subview,
    strided,
)
from mlir_async_pipe.pipeliner.plan.buffer_plan import REINTERPRET, is_movable
from mlir_async_pipe.vocabulary import Access, accesses, groups_of, row_of
from mlir_async_pipe.vocabulary.memory_layout import element_bytes
from mlir_async_pipe.vocabulary.memory_names import ADDRESS_OPS, POINTER_OF_ADDRESS
from mlir_async_pipe.vocabulary.operator_table import is_operator


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
                *before_it, now = move_view(inner, buffer, slot, inner.operands[0] in moved)
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
            ops = [whole_slot(buffer, slot, op)]
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
            made.append(whole_slot(buffer, slot, op))
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
    pointer = _stepped(write, access.memory, write.multiply(slot, bytes_))
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


# Views of a slot -----------------------------------------------------------------------------


def move_view(
    op: Operation, buffer: VersionedBuffer, slot: Value, of_moved: bool
) -> list[Operation]:
    """Let a view show `slot` of a buffer. `of_moved`: its source is a view that was moved before. Returns
    the ops that stand in its place, the view last."""
    if op.name == REINTERPRET:
        return _move_reinterpret(op, buffer.value, slot)
    if of_moved:
        op.results[0].set_type(freed(op.results[0].type))
        return [op]
    if op.name == "memref.subview":
        return [_move_subview(op, buffer.value, slot)]
    view = whole_slot(buffer, slot, op)
    op.operands[0] = view.results[0]
    op.results[0].set_type(freed(op.results[0].type))
    return [view, op]


def whole_slot(buffer: VersionedBuffer, slot: Value, op: Operation) -> Operation:
    """A view of one slot, for an op that cannot take a slot index."""
    offsets = [DYNAMIC] + [0] * len(buffer.shape)
    at = {"ip": before(op), "loc": op.location}
    return source_op(slot_subview(buffer.value, offsets, [slot], buffer.shape, offset="?", **at))


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


def freed(kind: Any) -> Any:
    """The memref type with an unknown offset."""
    memref = ir.MemRefType(kind)
    strides, _ = memref.get_strides_and_offset()
    return strided(memref, tuple(memref.shape), list(strides), "?")


# Uses of slot 0, whatever they do with it ----------------------------------------------------
#
#     tma.async.load … to %tile                   %s = memref.subview %tile[%slot, 0, 0] …
#     generate.descriptor %tile           -->     generate.descriptor %s
#     vector.load %view[…]                        vector.load of a view of %s
#     extract_aligned_pointer_as_index %tile      … + %slot * bytes of a slot


def show_slot(buffers: list[VersionedBuffer], slot: Value, ops: list[Operation]) -> None:
    """Let the uses of slot 0 of the buffers in `ops` be uses of `slot`. Handles of views in `ops`
    are dead afterwards."""
    of_value = {buffer.slot_zero: buffer for buffer in buffers}
    for op in ops:
        for inner in list(walk(op)):
            named = [n for n, value in enumerate(inner.operands) if value in of_value]
            if named and is_movable(inner.name):
                _move(of_value[inner.operands[0]], slot, inner)
                continue
            for number in named:
                _show(of_value[inner.operands[number]], slot, inner, number)


def _move(buffer: VersionedBuffer, slot: Value, view: Operation) -> None:
    made = move_view(view, buffer, slot, of_moved=False)
    _free_views_of(made[-1].results[0])


def _free_views_of(view: Value) -> None:
    """Views of a moved view lose their constant offset too."""
    for user in users(view):
        if is_movable(user.name):
            user.results[0].set_type(freed(user.results[0].type))
            _free_views_of(user.results[0])


def _show(buffer: VersionedBuffer, slot: Value, op: Operation, number: int) -> None:
    if op.name in ADDRESS_OPS:
        _show_address(buffer, slot, op)
        return
    view = whole_slot(buffer, slot, op)
    op.operands[number] = view.results[0]


def _show_address(buffer: VersionedBuffer, slot: Value, op: Operation) -> None:
    """The pointer of an allocation is that of slot 0, whatever view it is asked of."""
    kind = ir.MemRefType(buffer.value.type)
    size = prod(kind.shape[1:]) * element_bytes(kind)
    op.operands[0] = buffer.value
    write = IntegerWriter(after(op), op.location)
    _go_on(op.results[0], write.multiply(slot, write.constant(size)), write)


def _go_on(address: Value, offset: Value, write: IntegerWriter) -> None:
    """Let the users of an address use what lies `offset` bytes on: of a pointer that is made of it
    the same pointer and a step, which tells whose memory it is, of others the sum. `write` writes
    after both."""
    using = users(address)
    plain = [user for user in using if not _keeps_bytes(user)]
    for user in using:
        if user not in plain:
            _go_on(user.results[0], offset, IntegerWriter(after(user), user.location))
    if not plain:
        return
    moved = _stepped(write, address, offset)
    for user in plain:
        remap(user, {address: moved})


def _keeps_bytes(op: Operation) -> bool:
    return op.name == POINTER_OF_ADDRESS or is_operator(op.name, "cast")


def _stepped(write: IntegerWriter, address: Value, offset: Value) -> Value:
    if not is_pointer(address):
        same = offset.type == address.type
        return write.add(
            address, offset if same else write.cast("arith.index_cast", offset, address.type)
        )
    i64 = ir.IntegerType.get_signless(64, write.context)
    number = write.cast("arith.index_cast", offset, i64)
    return LlvmBuilder(write.ip, write.location).at(address, number)
