"""How many loads stand one after the other in what runs ahead.

    %j = memref.load %index[%i]         level 0        stage 0
    %v = memref.load %A[%j]             level 1        stage 1, with its store
    memref.store %v, %tile[%t]          level 1
    … %tile …                                          stage S - 1

A load whose address was loaded in the same step would wait for it there; a stage later it is there.
"""

from __future__ import annotations

from mlir_async_pipe.bindings.raw_ops import Operation, walk
from mlir_async_pipe.loops.needed_statements import value_producers
from mlir_async_pipe.loops.statements import Body
from mlir_async_pipe.vocabulary import accesses


def levels(
    body: Body, ahead: set[int], pairs: tuple[tuple[Operation, Operation], ...]
) -> dict[int, int]:
    """The level of each statement that runs ahead; the halves of a copy (`pairs`: load and store)
    are of one level."""
    by_op = {s.op: s.number for s in body.statements}
    holder = {inner: s.number for s in body.statements for inner in walk(s.op)}
    halves = {(holder[load], holder[store]) for load, store in pairs}
    found: dict[int, int] = {}
    for number in sorted(ahead):
        level = 0
        for producer in value_producers(body.statements[number].op, by_op, set()) & found.keys():
            indirect = (producer, number) not in halves and _loads(body.statements[producer].op)
            level = max(level, found[producer] + indirect)
        found[number] = level
    # A guard may hold the stores of several loads: all go where the latest of them does.
    for load, store in halves:
        found[load] = found[store]
    return found


def _loads(op: Operation) -> bool:
    """Whether values of a statement come from memory."""
    return any(not access.writes for inner in walk(op) for access in accesses(inner))
