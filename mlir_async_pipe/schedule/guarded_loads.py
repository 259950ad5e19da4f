"""Takes loads out of a condition that computes and stores too, so that they can run ahead of it.

    scf.if %c {                               %l = scf.if %c -> (f32) {
      %l = memref.load %A[%i]                   %v = memref.load %A[%i]
      %w = arith.addf %l, %x                    scf.yield %v
      memref.store %w, %O[%i]        -->      } else {
    }                                           scf.yield %zero
                                              }
                                              scf.if %c { %w = …; memref.store %w, %O[%i] }

Only loads from global memory before anything else that a branch does to memory: they read what they
read before. A branch that fills workgroup memory is a guarded copy, and stays in one piece.
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
from mlir_async_pipe.expand.plan.guardable import zero_of
from mlir_async_pipe.loops.copy_statements import fills_workgroup, reads_global
from mlir_async_pipe.lowering.scopes.masked_loads import may_move
from mlir_async_pipe.values.integer_writer import IntegerWriter


def take_loads_out(loop: Operation) -> None:
    """Do so with the conditions that stand in the body of a loop."""
    for op in operations(loop.regions[0].blocks[0]):
        if op.name == "scf.if" and len(op.results) == 0 and not any(map(fills_workgroup, walk(op))):
            _take_out(op)


def _take_out(condition: Operation) -> None:
    (block,) = condition.regions[0].blocks
    first = _reading(operations(block)[:-1])
    loaded = [load.results[0] for load in first if reads_global(load)]
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
        if not (may_move(op) or reads_global(op)) or len(op.results) != 1:
            break
        found.append(op)
    while found and not reads_global(found[-1]):
        found.pop()
    return found
