"""Writes a loop that fills a tile as its iterations, where what it loads goes through registers.

    scf.for %r = %c0 to %c4 step %c1 {        %v0 = vector.load %A[%c0, …]
      %v = vector.load %A[%r, …]              vector.store %v0, %tile[%c0, …]
      vector.store %v, %tile[%r, …]     -->   … the same for rows 1 to 3
    }

A loop is one statement, so its loads run ahead of its stores only if they stand on their own. Static
loops of at most `MOST_PIECES` loads that do nothing else to memory are written so, guards included.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    before,
    clone,
    constant,
    constant_value,
    operations,
    walk,
)
from mlir_async_pipe.loops.copy_statements import fills_workgroup, reads_global
from mlir_async_pipe.loops.trip_count import static_trip_count
from mlir_async_pipe.schedule.tile_copies import MOST_PIECES
from mlir_async_pipe.vocabulary import is_pure


def unroll_copy_loops(loop: Operation) -> None:
    """Do so with the loops in the body of a loop, inner ones first."""
    for op in operations(loop.regions[0].blocks[0]):
        if op.name == "scf.for":
            unroll_copy_loops(op)
            if _copies_a_tile(op):
                _unroll(op)


def _copies_a_tile(loop: Operation) -> bool:
    trips = static_trip_count(loop)
    if trips is None or len(loop.results) or constant_value(loop.operands[0]) is None:
        return False
    body = [op for op in walk(loop) if op != loop]
    loads = sum(map(reads_global, body))
    return 0 < loads * trips <= MOST_PIECES and all(map(_copies_or_computes, body))


def _copies_or_computes(op: Operation) -> bool:
    return op.name == "scf.if" or is_pure(op) or reads_global(op) or fills_workgroup(op)


def _unroll(loop: Operation) -> None:
    block = loop.regions[0].blocks[0]
    counter, ip = block.arguments[0], before(loop)
    first, step = (constant_value(loop.operands[number]) for number in (0, 2))
    assert first is not None and step is not None
    for number in range(static_trip_count(loop) or 0):
        value = constant(first + number * step, counter.type, ip, loop.location)
        mapping: dict[Any, Any] = {counter: value}
        for op in operations(block)[:-1]:
            clone(op, mapping, ip)
    loop.erase()
