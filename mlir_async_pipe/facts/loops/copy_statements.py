"""Which statements of a loop copy from global to workgroup memory, and which only load.

    nvgpu.device_async_copy %A[…], %a[…]          one statement
    %v = vector.load %A[…]; vector.store %v, %a[…]  two: they become one async copy later
    %v = arith.select %inside, %loaded, %zeros    the load may be masked like that on its way
    scf.if %inside { load; store }                one: a guarded copy
    %v = load; scf.if %inside { store %v, … }     two

A copy may stand in regions (grouped, under a guard, in a loop over rows); a statement that does
anything else to memory is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    ancestors,
    defining_op,
    enclosing,
    plain_values,
    users,
    walk,
    walk_named,
)
from mlir_async_pipe.facts.loops.annotations import (
    is_inside_pipeline,
    is_requested,
    reads_global_memory,
    requested_loops,
)
from mlir_async_pipe.facts.loops.statements import (
    Body,
    Statement,
    read_body,
    synchronisation_in,
    with_producers,
)
from mlir_async_pipe.facts.values.memory_roots import root_of
from mlir_async_pipe.session.arguments import operation_of
from mlir_async_pipe.session.called_from import called_by_users
from mlir_async_pipe.vocabulary import accesses, row_of
from mlir_async_pipe.vocabulary.control_flow import LOOP_OPS, in_scope


@dataclass(frozen=True)
class Copies:
    """The statements that copy, and the pairs of a load and a store that are to become one copy."""

    statements: list[Statement]
    pairs: tuple[tuple[Operation, Operation], ...]


def copies_of(body: Body) -> Copies:
    """The statements that do nothing but copy from global to workgroup memory, by ops that are
    asynchronous or can be made so, or are half of such a copy. What waits for its own copies is
    done when it ends, so it is none."""
    touching = {
        s.number: [inner for inner in walk(s.op) if accesses(inner)] for s in body.statements
    }
    holder = {op: number for number, ops in touching.items() for op in ops}
    pairs = [
        (load, store)
        for ops in touching.values()
        for store in ops
        if (load := copied_load(store)) is not None and load in holder
    ]
    halves = {op for pair in pairs for op in pair}
    copying = {
        s.number
        for s in body.statements
        if touching[s.number]
        and synchronisation_in(s.op) is None
        and all(op in halves or _can_be_async_copy(op) for op in touching[s.number])
        and (halves.isdisjoint(touching[s.number]) or _runs_in_order(s.op))
    }
    while True:
        # The other half stands in a statement that does something else too.
        torn = {
            holder[op]
            for pair in pairs
            if not {holder[op] for op in pair} <= copying
            for op in pair
        } & copying
        if not torn:
            break
        copying -= torn
    return Copies(
        [s for s in body.statements if s.number in copying],
        tuple(pair for pair in pairs if holder[pair[0]] in copying),
    )


def _runs_in_order(statement: Operation) -> bool:
    """Whether all regions of a statement are such as a scope may have."""
    return all(in_scope(op) for op in walk(statement) if len(op.regions))


def only_reads(statement: Statement, space: str) -> bool:
    """Whether all that a statement does to memory is to load from one space, outside of loops."""
    inner = list(walk(statement.op))
    found = [access for op in inner for access in accesses(op)]
    return (
        bool(found)
        and not any(op.name in LOOP_OPS for op in inner)
        and all(not a.writes and root_of(a.memory).space == space for a in found)
    )


def _can_be_async_copy(op: Operation) -> bool:
    row = row_of(op)
    if not (row.asynchronous(op) or row.async_attribute):
        return False
    found = accesses(op)
    reads = [a for a in found if not a.writes]
    writes = [a for a in found if a.writes]
    return bool(reads and writes) and all(
        root_of(a.memory).space == space
        for group, space in ((reads, "global"), (writes, "workgroup"))
        for a in group
    )


def fills_workgroup(op: Operation) -> bool:
    """Whether an op does nothing to memory but to write workgroup memory, at once."""
    found = accesses(op)
    return (
        len(found) == 1
        and found[0].writes
        and not found[0].asynchronous
        and root_of(found[0].memory).space == "workgroup"
    )


def reads_global(op: Operation) -> bool:
    """Whether an op does nothing to memory but to read global memory."""
    found = accesses(op)
    return bool(found) and all(not a.writes and root_of(a.memory).space == "global" for a in found)


def copied_load(store: Operation) -> Operation | None:
    """The load from global memory whose value, and nothing else, a store writes to workgroup
    memory; None if that is not what `store` does."""
    if not fills_workgroup(store) or not store.operands:
        return None
    source = _stored_load(store)
    if source is None or len(source.results) != 1 or len(users(source.results[0])) != 1:
        return None
    loads = [inner for inner in walk(source) if accesses(inner)]
    copies = len(loads) == 1 and len(accesses(loads[0])) == 1 and reads_global(loads[0])
    return loads[0] if copies else None


def _stored_load(store: Operation) -> Operation | None:
    """The op that loads what is stored, also where a condition selects it or else zeros."""
    op = defining_op(store.operands[0])
    if op is not None and op.name == "arith.select" and len(users(op.results[0])) == 1:
        sources = [defining_op(value) for value in list(op.operands)[1:]]
        loads = [source for source in sources if source is not None and accesses(source)]
        return loads[0] if len(loads) == 1 else None
    return op


def computes(loop: Operation) -> bool:
    """Whether a loop does more than to copy, so that its copies have something to run beside."""
    body = read_body(loop)
    copies = {s.number for s in copies_of(body).statements}
    return len(with_producers(body, copies)) < len(body.statements) or bool(
        body.terminator.operands
    )


@called_by_users
@plain_values()
def find_loops(module: Any, *, annotated: bool = True) -> list[Operation]:
    """All scf.for that are to be pipelined, outer before inner, in textual order.

    With `annotated` False the innermost ones that read global memory and that nobody annotated:
    those that `num_stages` may help. A loop inside that reads none belongs to the computation, and
    one that does nothing but copy is a copy of the loop around it.
    """
    if annotated:
        return requested_loops(module)
    reading = [
        loop
        for loop in walk_named(operation_of(module), "scf.for".__eq__)
        if reads_global_memory(loop)
    ]
    tried = [loop for loop in reading if computes(loop) or enclosing(loop, ["scf.for"]) is None]
    around = {op for loop in tried for op in ancestors(loop)}
    return [
        loop
        for loop in tried
        if loop not in around and not is_requested(loop) and not is_inside_pipeline(loop)
    ]
