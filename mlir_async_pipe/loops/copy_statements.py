"""Which statements of a loop copy from global to workgroup memory.

    nvgpu.device_async_copy %A[…], %a[…]          one statement
    %v = vector.load %A[…]; vector.store %v, %a[…]  two: they become one async copy later
    %v = arith.select %inside, %loaded, %zeros    the load may be masked like that on its way

A copy may stand in regions (grouped, or under a guard); a statement that does anything else
to memory is none.
"""

from __future__ import annotations

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    defining_op,
    users,
    walk,
)
from mlir_async_pipe.loops.statements import Body, Statement, synchronisation_in
from mlir_async_pipe.values.memory_roots import root_of
from mlir_async_pipe.vocabulary import accesses, row_of


def copies_of(body: Body) -> list[Statement]:
    """The statements that copy from global to workgroup memory, or are half of such a copy."""
    copies = [s for s in body.statements if is_copy(s.op)]
    return copies + [s for pair in load_store_copies(body) for s in pair]


def only_reads_workgroup(op: Operation) -> bool:
    """Whether a statement loads fragments: it reads workgroup memory and writes none."""
    found = [access for inner in walk(op) for access in accesses(inner)]
    return bool(found) and all(
        not access.writes and root_of(access.memory).space == "workgroup" for access in found
    )


def is_copy(op: Operation) -> bool:
    """Whether a statement does nothing to memory but copy it from global to workgroup memory,
    by ops that are asynchronous or can be made so; the copies may stand in regions (grouped, or
    under a guard). What waits for its own copies is done when it ends, so it is none."""
    if synchronisation_in(op) is not None:
        return False
    touching = [inner for inner in walk(op) if accesses(inner)]
    return bool(touching) and all(_can_be_async_copy(inner) for inner in touching)


def _can_be_async_copy(op: Operation) -> bool:
    row = row_of(op)
    if row is None or not (row.asynchronous(op) or row.async_attribute):
        return False
    found = accesses(op)
    reads = [a for a in found if not a.writes]
    writes = [a for a in found if a.writes]
    return bool(reads and writes) and all(
        root_of(a.memory).space == space
        for group, space in ((reads, "global"), (writes, "workgroup"))
        for a in group
    )


def load_store_copies(body: Body) -> list[tuple[Statement, Statement]]:
    """Pairs of a load from global and the store of just that value to workgroup memory."""
    by_op = {s.op: s for s in body.statements}
    pairs = []
    for statement in body.statements:
        found = accesses(statement.op)
        if len(found) != 1 or not found[0].writes or found[0].asynchronous:
            continue
        if root_of(found[0].memory).space != "workgroup":
            continue
        load = _stored_load(statement.op)
        if load is None or load not in by_op or len(users(load.results[0])) != 1:
            continue
        source = [access for inner in walk(load) for access in accesses(inner)]
        reads_one = len(source) == 1 and not source[0].writes
        if reads_one and root_of(source[0].memory).space == "global":
            pairs.append((by_op[load], statement))
    return pairs


def _stored_load(store: Operation) -> Operation | None:
    """The op that loads what is stored, also where a condition selects it or else zeros."""
    op = defining_op(store.operands[0])
    if op is not None and op.name == "arith.select" and len(users(op.results[0])) == 1:
        sources = [defining_op(value) for value in list(op.operands)[1:]]
        loads = [source for source in sources if source is not None and accesses(source)]
        return loads[0] if len(loads) == 1 else None
    return op
