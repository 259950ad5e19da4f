"""Gives a loop buffers of its own where it uses parts of a larger one, so that each can have versions.

    %bytes = memref.alloc() : memref<8192xi8, …>
    %a = memref.view %bytes[%c0][] : … to memref<1024xf32, …>       %a = memref.alloc() : memref<1024xf32, …>
    %b = memref.view %bytes[%c4096][] …                       -->   %b = memref.alloc() …

    %v = memref.subview %tile[0, 4] [8, 8] …                        scf.for … {
    scf.for … { … %v[%i, %j] … }                              -->     %v = memref.subview … ; … %v[%i, %j] … }

Windows become buffers if all views of the bytes have constant places, and none overlaps another
(the same place and type twice is one buffer). A view of a buffer is made again in the loop, where it
can show a slot; what cannot show one stays outside.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    FUNCTION_OPS,
    Operation,
    OpWriter,
    Value,
    ancestors,
    clone,
    constant_value,
    defining_op,
    enclosing,
    erase,
    operations,
    outermost,
    remap,
    symbol_name,
    unchanged,
    users,
    walk,
    walk_named,
)
from mlir_async_pipe.facts.loops.annotations import counted_loops
from mlir_async_pipe.facts.values.memory_roots import root_of
from mlir_async_pipe.pipeliner.plan.buffer_plan import can_move
from mlir_async_pipe.session.passes import NoOptions, register
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import VIEW_OPS, accesses
from mlir_async_pipe.vocabulary.memory_layout import if_known, span_bytes
from mlir_async_pipe.vocabulary.memory_names import global_name

VIEW = "memref.view"
# What a copy of 16 bytes needs; a buffer at a place with less stays where it is.
ALIGNMENT = 16


def own_buffers(loop: Operation) -> None:
    """Rewrite the windows that the loop touches, then make its views again inside of it."""
    with unchanged():
        touched = _touched(loop)
        sources = _bytes_of_windows(touched)
    for source in sources:
        windows = _windows(source)
        if windows:
            _allocate(windows)
            _forget(source, windows)
    _make_views_again(loop, _touched(loop) if sources else touched)


@dataclass(frozen=True)
class OwnWindow:
    """A memref.view of a constant place: its bytes begin at `start` and end before `end`."""

    view: Operation
    start: int
    end: int


def _touched(loop: Operation) -> list[Value]:
    """The workgroup memory that a loop accesses, each value once."""
    found = dict.fromkeys(access.memory for op in walk(loop) for access in accesses(op))
    return [memory for memory in found if root_of(memory).space == "workgroup"]


def _bytes_of_windows(touched: list[Value]) -> list[Operation]:
    """The allocations and globals that a loop uses through memref.view, each once."""
    found: dict[Any, Operation] = {}
    for memory in touched:
        root = root_of(memory)
        source = defining_op(root.value)
        through = any(view.name == VIEW for view in _chain(memory))
        if through and source is not None and root.kind in ("allocation", "global"):
            found.setdefault(root.identity, source)
    return list(found.values())


def _chain(memory: Value) -> Iterator[Operation]:
    """The views from a value to its root, last first."""
    op = defining_op(memory)
    while op is not None and op.name in VIEW_OPS:
        yield op
        op = defining_op(op.operands[0])


def _windows(source: Operation) -> list[OwnWindow]:
    """The windows of an allocation, or of a global in its function; none if they are not all that names these bytes."""
    name = global_name(source)
    names = [source]
    if name is not None:
        names = [op for op in walk(outermost(source)) if global_name(op) == name]
        if len({enclosing(op, FUNCTION_OPS) for op in names}) > 1:
            return []
    found = []
    for op in (user for each in names for user in users(each.results[0])):
        window = _window(op)
        if window is None:
            return []
        found.append(window)
    found.sort(key=lambda window: (window.start, window.end))
    for one, other in pairwise(found):
        same = (one.start, one.view.results[0].type) == (other.start, other.view.results[0].type)
        if one.end > other.start and not same:
            return []
    return found


def _window(op: Operation) -> OwnWindow | None:
    if op.name != VIEW or len(op.operands) != 2:
        return None
    start, size = constant_value(op.operands[1]), if_known(span_bytes, op.results[0].type)
    if start is None or size is None or start % ALIGNMENT:
        return None
    return OwnWindow(op, start, start + size)


def _allocate(windows: list[OwnWindow]) -> None:
    """One allocation for each place, before all of the function's other ops."""
    function = enclosing(windows[0].view, FUNCTION_OPS)
    assert function is not None
    first = operations(function.regions[0].blocks[0])[0]
    i64 = ir.IntegerType.get_signless(64, function.context)
    attributes = {
        "alignment": ir.IntegerAttr.get(i64, ALIGNMENT),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 0], function.context),
    }
    made: dict[int, Value] = {}
    for window in windows:
        result = window.view.results[0]
        if window.start not in made:
            write = OpWriter(ir.InsertionPoint(first), window.view.location)
            made[window.start] = write.make("memref.alloc", (), result.type, attributes)
        result.replace_all_uses_with(made[window.start])


def _forget(source: Operation, windows: list[OwnWindow]) -> None:
    """Erase the views, and what nobody names any more."""
    name = global_name(source)
    module = outermost(source)
    sources = {defining_op(window.view.operands[0]) for window in windows}
    erase(window.view for window in windows)
    erase(op for op in sources if op is not None)
    if name is not None:
        named = walk_named(module, "memref.global".__eq__)
        erase(op for op in named if symbol_name(op) == name)


def _make_views_again(loop: Operation, touched: list[Value]) -> None:
    """Clone the views outside of the loop that its accesses use to its beginning."""
    body = operations(loop.regions[0].blocks[0])
    made: dict[Value, Value] = {}
    for memory in touched:
        outside = [op for op in _chain(memory) if loop not in list(ancestors(op))]
        if not all(map(can_move, outside)):
            continue
        for op in reversed(outside):
            if op.results[0] not in made:
                clone(op, made, ir.InsertionPoint(body[0]))
    for op in body if made else ():
        remap(op, made)
    dead = [defining_op(value) for value in made if not users(value)]
    erase(op for op in dead if op is not None)


@register(
    "async-pipe-normalise-buffers", "give loops buffers of their own for windows of larger ones"
)
def run(module: Any, options: NoOptions, session: Session) -> None:
    for loop in counted_loops(module):
        own_buffers(loop)
