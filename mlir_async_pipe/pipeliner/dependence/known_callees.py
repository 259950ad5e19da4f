"""What a call of a known function touches: memory that is handed to it, and nothing else.

    func.call @put(%C, %i, %v)      writes somewhere in what %C shows; a pure callee touches nothing

A callee that waits, meets other threads, orders memory for them, issues copies, calls on, or
reaches memory of its own or of the module is not followed: it may touch anything.
"""

from __future__ import annotations

from collections.abc import Callable

from mlir_async_pipe.bindings.raw_ops import Operation, Value, walk
from mlir_async_pipe.facts.loops.statements import is_synchronisation
from mlir_async_pipe.facts.values.memory_roots import Root, root_of
from mlir_async_pipe.vocabulary import accesses, order_of, row_of
from mlir_async_pipe.vocabulary.control_flow import CALL_OPS, EXIT_OPS, followed_callee
from mlir_async_pipe.vocabulary.rows import UNORDERED


def touched_by_call(
    call: Operation, is_opaque: Callable[[Operation], bool]
) -> list[tuple[Root, bool]] | None:
    """The memory that a call touches, each with whether it writes; None: nothing is known.

    `is_opaque` says of an op that it may touch anything."""
    callee = followed_callee(call)
    if callee is None:
        return None
    entry = callee.regions[0].blocks[0]
    handed_in: dict[Value, Value] = dict(zip(entry.arguments, call.operands, strict=True))
    found: dict[tuple[object, bool], tuple[Root, bool]] = {}
    for op in walk(callee):
        if op == callee:
            continue
        row = row_of(op)
        if op.name in CALL_OPS or is_synchronisation(op) or order_of(op) != UNORDERED:
            return None
        if row.asynchronous(op):
            return None
        if op.name not in EXIT_OPS and is_opaque(op):
            return None
        for access in accesses(op):
            inner = root_of(access.memory)
            if inner.value not in handed_in:
                return None
            root = root_of(handed_in[inner.value])
            if root.is_buffer:
                # A buffer of the caller may get versions, and no slot can be handed on.
                return None
            found[root.identity, access.writes] = (root, access.writes)
    return list(found.values())
