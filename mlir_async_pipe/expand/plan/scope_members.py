"""Which async statements become one `async_pipe.scope`.

    %v = memref.load %A[%i] {async}                "async_pipe.scope"() ({
    %w = arith.addf %v, %c                -->        load, addf, store
    memref.store %w, %b[0] {async}                 })

A scope hands on memory only: a value that leaves it would be used before it exists.
"""

from __future__ import annotations

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    captured,
    defining_op,
    walk,
)
from mlir_async_pipe.expand.plan.statement_places import Place, StatementPlaces, is_physical
from mlir_async_pipe.loops.statements import Body, synchronisation_in
from mlir_async_pipe.session.diagnostics import PipelineError
from mlir_async_pipe.vocabulary.control_flow import CALL_OPS


def form_scopes(
    body: Body, schedule: StatementPlaces, textual: dict[Operation, int]
) -> tuple[frozenset[Operation], list[tuple[Operation, ...]]]:
    """Async statements that are no physical async ops, joined where values flow between
    them: neighbours in kernel order and of one stage that use each other's values.

    Returns those statements, and the ops of each scope in textual order.
    """
    places = schedule.places
    ranked = sorted(places, key=lambda op: (places[op].order, textual[op]))
    scopes: list[tuple[Operation, ...]] = []
    scoped: set[Operation] = set()
    run: list[Operation] = []
    for op in [*ranked, None]:
        joins = op in schedule.asynchronous and not is_physical(op)
        if run and (not joins or op is None or places[op].stage != places[run[-1]].stage):
            scopes += _connected(body, run, textual)
            run = []
        if joins and op is not None:
            run.append(op)
            scoped.add(op)
    return frozenset(scoped), scopes


def _connected(
    body: Body, run: list[Operation], textual: dict[Operation, int]
) -> list[tuple[Operation, ...]]:
    """Split a run of async statements into the parts that share values, with the pure ops
    on the way; raises PipelineError (async-value-escapes) if a value leaves its scope."""
    result = []
    for op in run:
        _check_free_of_waits(op)
        _check_free_of_calls(op)
    for members, between in _parts(body, run):
        ordered = tuple(sorted(members | between, key=lambda op: textual[op]))
        _check_closed(ordered, body)
        result.append(ordered)
    return sorted(result, key=lambda ops: textual[ops[0]])


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
    parts = _parts(body, [op for op in statements if not is_physical(op)])
    return [frozenset(members) for members, _ in parts]


def _parts(body: Body, run: list[Operation]) -> list[tuple[set[Operation], set[Operation]]]:
    """The statements of `run` by the values that they share, and the pure ops on the way."""
    leader = {op: op for op in run}
    between: dict[Operation, set[Operation]] = {op: set() for op in run}

    def find(op: Operation) -> Operation:
        while leader[op] != op:
            op = leader[op]
        return op

    for op in run:
        for producer, path in _producers_on_the_way(op, body, set(run)):
            leader[find(op)] = find(producer)
            between[op] |= path
    parts: dict[Operation, set[Operation]] = {}
    for op in run:
        parts.setdefault(find(op), set()).add(op)
    return [(members, set().union(*(between[op] for op in members))) for members in parts.values()]


def _producers_on_the_way(
    op: Operation, body: Body, run: set[Operation]
) -> list[tuple[Operation, set[Operation]]]:
    """Statements of `run` whose values reach `op` through pure ops, and those pure ops."""
    found: list[tuple[Operation, set[Operation]]] = []
    reaches: dict[Operation, bool] = {}

    def visit(current: Operation, path: tuple[Operation, ...]) -> None:
        for value in captured(current):
            producer = defining_op(value)
            if producer is None or producer.block != body.block:
                continue
            if producer in run:
                found.append((producer, set(path)))
            elif producer in body.pure and reaches.get(producer, True):
                before = len(found)
                visit(producer, (*path, producer))
                reaches[producer] = len(found) > before

    visit(op, ())
    return found


def _check_closed(ops: tuple[Operation, ...], body: Body) -> None:
    inside = set(ops)
    for op in ops:
        for result in op.results:
            for use in result.uses:
                user = use.owner.operation
                while user.block != body.block:
                    user = user.parent.operation
                if user not in inside:
                    raise PipelineError(
                        f"cannot pipeline: the value of async '{op.name}' is used outside its "
                        f"async stage by '{user.name}'; async statements hand on memory only",
                        code="async-value-escapes",
                        at=op,
                        notes=(("the user", user),),
                    )


def first_statement(ops: tuple[Operation, ...], places: dict[Operation, Place]) -> Operation:
    """The statement of a scope that comes first in order."""
    return min((op for op in ops if op in places), key=lambda op: places[op].order)
