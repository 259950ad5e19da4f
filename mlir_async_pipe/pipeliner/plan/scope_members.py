"""Which async statements become one `async_pipe.scope`.

    %v = memref.load %A[%i] {async}                "async_pipe.scope"() ({
    %w = arith.addf %v, %c                -->        load, addf, store
    memref.store %w, %b[0] {async}                 })

A scope hands on memory only: a value that leaves it would be used before it exists.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from mlir_async_pipe.bindings.raw_ops import Operation, walk
from mlir_async_pipe.facts.loops.statements import Body, BodyTable, synchronisation_in
from mlir_async_pipe.pipeliner.plan.statement_places import Place, is_physical
from mlir_async_pipe.session.diagnostics import PipelineError
from mlir_async_pipe.vocabulary.control_flow import CALL_OPS


def form_scopes(
    body: Body, places: Mapping[int, Place], asynchronous: Collection[int]
) -> tuple[frozenset[int], list[tuple[int, ...]]]:
    """Async statements that are no physical async ops, joined where values flow between
    them: neighbours in kernel order and of one stage that use each other's values.

    Returns those statements, and the ops of each scope in textual order, all by their numbers in the
    body's table.
    """
    ops = body.table.ops
    scoped = frozenset(op for op in asynchronous if not is_physical(ops[op]))
    scopes: list[tuple[int, ...]] = []
    run: list[int] = []
    for op in sorted(places, key=lambda op: (places[op].order, op)) if scoped else ():
        if run and (op not in scoped or places[op].stage != places[run[-1]].stage):
            scopes += _connected(body, run)
            run = []
        if op in scoped:
            run.append(op)
    return scoped, scopes + _connected(body, run)


def _connected(body: Body, run: list[int]) -> list[tuple[int, ...]]:
    """Split a run of async statements into the parts that share values, with the pure ops
    on the way; raises PipelineError (async-value-escapes) if a value leaves its scope."""
    for op in run:
        _check_free_of_waits(body.table.ops[op])
        _check_free_of_calls(body.table.ops[op])
    result = [tuple(sorted(members | between)) for members, between in _parts(body, run)]
    for scope in result:
        _check_closed(scope, body.table)
    return sorted(result)


def _check_free_of_waits(op: Operation) -> None:
    """A scope runs at any moment after its issue: a group, a wait or a barrier in it would
    happen then. Raises PipelineError (synchronisation-in-scope)."""
    inner = synchronisation_in(op)
    if inner is None:
        return
    raise PipelineError(
        f"cannot pipeline: async '{op.name}' holds '{inner.name}', which belongs outside of what "
        "completes later",
        code="synchronisation-in-scope",
        at=inner,
        notes=(("the async statement", op),),
        advice="take groups, waits and barriers out of the statement, or leave it synchronous",
    )


def _check_free_of_calls(op: Operation) -> None:
    """MLIR looks for no symbol from inside an unregistered op, so a call in a scope would not
    verify. Raises PipelineError (call-in-scope)."""
    call = next((inner for inner in walk(op) if inner.name in CALL_OPS), None)
    if call is None:
        return
    raise PipelineError(
        f"cannot pipeline: async '{call.name}': a function cannot be called from what completes "
        "later",
        code="call-in-scope",
        at=call,
        advice="inline it, or leave the statement synchronous",
    )


def joined_by_values(body: Body, statements: list[Operation]) -> list[frozenset[Operation]]:
    """Async statements sorted into the parts that share values; what is asynchronous by itself
    joins nobody."""
    table = body.table
    parts = _parts(body, [table.number[op] for op in statements if not is_physical(op)])
    return [frozenset(table.ops[op] for op in members) for members, _ in parts]


def _parts(body: Body, run: list[int]) -> list[tuple[set[int], set[int]]]:
    """The statements of `run` by the values that they share, and the pure ops on the way."""
    leader = {op: op for op in run}
    between: dict[int, set[int]] = {op: set() for op in run}
    pure = set(map(body.table.number.__getitem__, body.pure))

    def find(op: int) -> int:
        while leader[op] != op:
            op = leader[op]
        return op

    for op in run:
        for producer, path in _producers_on_the_way(op, body.table, pure, leader):
            leader[find(op)] = find(producer)
            between[op] |= path
    parts: dict[int, set[int]] = {}
    for op in run:
        parts.setdefault(find(op), set()).add(op)
    return [(members, set().union(*(between[op] for op in members))) for members in parts.values()]


def _producers_on_the_way(
    op: int, table: BodyTable, pure: Collection[int], run: Collection[int]
) -> list[tuple[int, set[int]]]:
    """Statements of `run` whose values reach `op` through pure ops, and those pure ops."""
    found: list[tuple[int, set[int]]] = []
    reaches: dict[int, bool] = {}

    def visit(current: int, path: tuple[int, ...]) -> None:
        for producer in table.makers(current):
            if producer in run:
                found.append((producer, set(path)))
            elif producer in pure and reaches.get(producer, True):
                before = len(found)
                visit(producer, (*path, producer))
                reaches[producer] = len(found) > before

    visit(op, ())
    return found


def _check_closed(scope: tuple[int, ...], table: BodyTable) -> None:
    for op in scope:
        for number in table.following(op):
            if number not in scope:
                made, user = table.ops[op], table.ops[number]
                raise PipelineError(
                    f"cannot pipeline: the value of async '{made.name}' is used outside its "
                    f"async stage by '{user.name}'; async statements hand on memory only",
                    code="async-value-escapes",
                    at=made,
                    notes=(("the user", user),),
                )
