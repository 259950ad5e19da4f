"""Which views of a buffer can show one slot of it as they showed the buffer."""

from __future__ import annotations

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import DYNAMIC, Operation
from mlir_async_pipe.vocabulary import VIEW_OPS

REINTERPRET = "memref.reinterpret_cast"


def is_movable(name: str) -> bool:
    """Whether views called `name` can show a slot of a buffer as they showed the buffer."""
    return name in ("memref.subview", REINTERPRET) or VIEW_OPS.get(name) in ("same", "regrouped")


def can_move(op: Operation) -> bool:
    """Whether a view can be moved to a slot: its kind is known and its strides are constant."""
    if not is_movable(op.name):
        return False
    kind = ir.MemRefType(op.results[0].type)
    if not kind.has_static_shape:
        return False
    strides, _ = kind.get_strides_and_offset()
    return all(stride != DYNAMIC for stride in strides)
