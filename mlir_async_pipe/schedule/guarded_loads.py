"""Takes loads out of a condition that computes and stores too, so that they can run ahead of it.

    scf.if %c {                               %l = scf.if %c -> (f32) {
      %l = memref.load %A[%i]                   %v = memref.load %A[%i]
      %w = arith.addf %l, %x                    scf.yield %v
      memref.store %w, %O[%i]        -->      } else {
    }                                           scf.yield %zero
                                              }
                                              scf.if %c { %w = …; memref.store %w, %O[%i] }

Only loads from global memory before anything else that a branch does to memory: they read what they
read before. A branch that fills workgroup memory is a guarded copy, and stays in one piece unless it has to
go through registers.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    before,
    clone,
    erase,
    operations,
    users,
    walk,
)
from mlir_async_pipe.bindings.structured_ops import end_of, hand_on, write_if
from mlir_async_pipe.loops.copy_statements import fills_workgroup, reads_global
from mlir_async_pipe.lowering.scopes.masked_loads import may_move
from mlir_async_pipe.plan.guardable import zero_of
from mlir_async_pipe.schedule.copy_loops import unroll_copy_loops
from mlir_async_pipe.values.integer_writer import IntegerWriter


def take_loads_out(loop: Operation) -> None:
    """Do so with the conditions in the body of a loop that fill no workgroup memory."""
    for condition in _conditions(loop):
        if not any(map(fills_workgroup, walk(condition))):
            _take_out(condition)


def take_apart_copies(loop: Operation) -> None:
    """Do so with guarded copies and loops of copies too, of a loop that cannot have them
    asynchronous."""
    unroll_copy_loops(loop)
    for condition in _conditions(loop):
        _take_out(condition)


def _conditions(within: Operation) -> list[Operation]:
    """The conditions without results in the body of a loop, or in one of these, inner ones first."""
    blocks = [block for region in within.regions for block in region.blocks]
    found = [op for block in blocks for op in operations(block)]
    conditions = [op for op in found if op.name == "scf.if" and len(op.results) == 0]
    return [op for each in conditions for op in (*_conditions(each), each)]


def _take_out(condition: Operation) -> None:
    (block,) = condition.regions[0].blocks
    first = _reading(operations(block)[:-1])
    loaded = [result for op in first if _loads(op) for result in op.results]
    if not loaded or any(zero_of(value.type) is None for value in loaded):
        return
    ip, loc = before(condition), condition.location
    write = IntegerWriter(ip, loc)
    zeros = [write.zero(value.type, zero_of(value.type)) for value in loaded]
    chosen = write_if(condition.operands[0], loaded, zeros, ip, loc)
    end = end_of(chosen.regions[0])
    mapping: dict[Any, Any] = {}
    for op in first:
        clone(op, mapping, before(end))
    hand_on(end, [mapping[value] for value in loaded])
    for value, result in zip(loaded, chosen.results, strict=True):
        value.replace_all_uses_with(result)
    erase(op for op in reversed(first) if not any(users(result) for result in op.results))


def _reading(ops: list[Operation]) -> list[Operation]:
    """The loads from global memory that come first, and the pure ops that they need."""
    found: list[Operation] = []
    for op in ops:
        if not (may_move(op) or _loads(op)):
            break
        found.append(op)
    while found and not _loads(found[-1]):
        found.pop()
    return found


def _loads(op: Operation) -> bool:
    """Whether an op does nothing but load from global memory, or is a condition of such loads."""
    if op.name != "scf.if":
        return reads_global(op) and len(op.regions) == 0
    blocks = [block for region in op.regions for block in region.blocks]
    inside = [inner for block in blocks for inner in operations(block)[:-1]]
    return len(op.results) > 0 and all(may_move(inner) or _loads(inner) for inner in inside)
