"""How many loads stand one after the other in what runs ahead.

    %j = memref.load %index[%i]         level 0        stage 0
    %v = memref.load %A[%j]             level 1        stage 1, with its store
    memref.store %v, %tile[%t]          level 1
    … %tile …                                          stage S - 1

A load whose address was loaded in the same step would wait for it there; a stage later it is there.
"""

from __future__ import annotations

from mlir_async_pipe.bindings.raw_ops import Operation, captured, defining_op, walk
from mlir_async_pipe.loops.statements import Body
from mlir_async_pipe.vocabulary import accesses


def levels(
    body: Body, ahead: set[int], pairs: tuple[tuple[Operation, Operation], ...]
) -> dict[int, int]:
    """The level of each statement that runs ahead; the halves of a copy (`pairs`: load and store)
    are of one level."""
    holder = {inner: s.number for s in body.statements for inner in walk(s.op)}
    loads = {holder[store]: holder[load] for load, store in pairs}
    found: dict[int, int] = {}
    for number in sorted(ahead):
        op = body.statements[number].op
        level = 0
        for producer in _producers(op, body, holder):
            if producer == number or producer not in found:
                continue
            same = loads.get(number) == producer or not _loads(body.statements[producer].op)
            level = max(level, found[producer] + (0 if same else 1))
        found[number] = level
    return found


def _loads(op: Operation) -> bool:
    """Whether values of a statement come from memory."""
    return any(not access.writes for inner in walk(op) for access in accesses(inner))


def _producers(op: Operation, body: Body, holder: dict[Operation, int]) -> set[int]:
    """The statements whose values a statement uses, through pure ops."""
    found: set[int] = set()
    seen: set[Operation] = set()
    pending = [op]
    while pending:
        for value in captured(pending.pop()):
            producer = defining_op(value)
            if producer is None or producer.block != body.block or producer in seen:
                continue
            seen.add(producer)
            if producer in holder:
                found.add(holder[producer])
            else:
                pending.append(producer)
    return found
