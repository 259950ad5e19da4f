"""Lets ops that use a buffer use one slot of its versions, whatever they do with it.

tma.async.load … to %tile                   %s = memref.subview %tile[%slot, 0, 0] …
generate.descriptor %tile           -->     generate.descriptor %s
vector.load %view[…]                        vector.load of a view of %s
extract_aligned_pointer_as_index %tile      … + %slot * bytes of a slot
"""

from __future__ import annotations

from math import prod

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    after,
    before,
    remap,
    users,
    walk,
)
from mlir_async_pipe.facts.values.integer_writer import IntegerWriter
from mlir_async_pipe.facts.values.llvm_builder import LlvmBuilder
from mlir_async_pipe.facts.values.pointers import is_pointer
from mlir_async_pipe.pipeliner.expand.write.slot_views import freed, move_view, whole_slot
from mlir_async_pipe.pipeliner.expand.write.versioned_buffers import VersionedBuffer
from mlir_async_pipe.pipeliner.plan.buffer_plan import is_movable
from mlir_async_pipe.vocabulary.memory_layout import element_bytes
from mlir_async_pipe.vocabulary.memory_names import ADDRESS_OPS, POINTER_OF_ADDRESS
from mlir_async_pipe.vocabulary.operator_table import is_operator


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
    made = move_view(view, buffer.value, buffer.shape, slot, of_moved=False)
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
    view = whole_slot(buffer.value, buffer.shape, slot, before(op), op.location)
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
