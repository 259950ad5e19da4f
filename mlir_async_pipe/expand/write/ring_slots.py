"""Lets ops that use a buffer use one slot of its versions, whatever they do with it.

tma.async.load … to %tile                   %s = memref.subview %tile[%slot, 0, 0] …
generate.descriptor %tile           -->     generate.descriptor %s
vector.load %view[…]                        vector.load of a view of %s
extract_aligned_pointer_as_index %tile      … + %slot * bytes of a slot
"""

from __future__ import annotations

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation, Value, after, before, users, walk
from mlir_async_pipe.expand.plan.movable_views import is_movable
from mlir_async_pipe.expand.write.slot_views import freed, move_view, whole_slot
from mlir_async_pipe.expand.write.versioned_buffers import VersionedBuffer
from mlir_async_pipe.values.integer_ops import product
from mlir_async_pipe.values.integer_writer import IntegerWriter
from mlir_async_pipe.vocabulary.memory_layout import element_bytes
from mlir_async_pipe.vocabulary.memory_names import ADDRESS_OPS


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
    made = move_view(view, buffer.value, buffer.shape, slot, behind_another=False)
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
    size = product(kind.shape[1:]) * element_bytes(kind)
    op.operands[0] = buffer.value
    found, using = op.results[0], users(op.results[0])
    write = IntegerWriter(after(op), op.location)
    moved = write.add(found, write.multiply(slot, write.constant(size)))
    for user in using:
        for number, value in enumerate(list(user.operands)):
            if value == found:
                user.operands[number] = moved
