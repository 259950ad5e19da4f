"""The units of a pipelined loop: what runs as one piece, at which stage, in which place.

A unit is a statement, a pure op, or several async statements that become one
`async_pipe.scope`. Instance k of a unit in stage s runs at kernel step k + s; inside a step
units run in kernel order. Pure ops that depend on nothing but the induction variable and
values from outside are made again in every stage that needs them; every other pure op runs
once, with its earliest user.
"""

from __future__ import annotations

from dataclasses import dataclass

import mlir_async_pipe.annotations as names
from mlir_async_pipe.bindings import ir
from mlir_async_pipe.diagnostics import PipelineError
from mlir_async_pipe.ir_helpers import (
    Operation,
    Value,
    captured,
    defining_op,
    is_block_argument,
    walk,
)
from mlir_async_pipe.statements import Body
from mlir_async_pipe.vocabulary import row_of

SCOPE = "async_pipe.scope"


@dataclass(frozen=True)
class Unit:
    """One piece of the kernel.

    `ops` are top-level ops of the body in textual order, more than one only for a scope.
    `position` is the place in kernel order. `asynchronous`: completes later than issued;
    `scoped`: becomes an `async_pipe.scope` (a physical async op does not).
    """

    ops: tuple[Operation, ...]
    stage: int
    position: int
    asynchronous: bool
    scoped: bool
    pure: bool


@dataclass(frozen=True)
class Place:
    """Stage and order of an op; smaller runs earlier in the pipeline."""

    stage: int
    order: int


class Units:
    """All units of a loop in kernel order, and where each op and value belongs."""

    def __init__(self, body: Body) -> None:
        self.body = body
        self.statement_places = {s.op: _statement_place(s.op, s.number) for s in body.statements}
        self._holder = _top_level_holder(body)
        self.rematerialised = _rematerialisable(body)
        textual = {op: number for number, op in enumerate(body.ops)}
        self._scoped, self._scopes = _scopes(body, self.statement_places, textual)
        self._issue_places = self._places_of_issue()
        self.pure_places = self._place_pure_ops()
        self.units = self._in_kernel_order()
        self.last_stage = max((place.stage for place in self.statement_places.values()), default=0)
        self.by_op: dict[tuple[Operation, int], Unit] = {
            (op, unit.stage): unit for unit in self.units for op in unit.ops
        }

    def producer(self, value: Value, stage: int) -> Unit | None:
        """The unit that makes `value` for a user in `stage`; None if it is from outside."""
        op = defining_op(value)
        if op is None or op.block != self.body.block:
            return None
        if op in self.rematerialised:
            return self.by_op[(op, stage)]
        return next((self.by_op[(op, s)] for s in self._stages_of(op)), None)

    def unit_of(self, op: Operation) -> Unit:
        """The unit of a statement."""
        return self.by_op[(op, self.statement_places[op].stage)]

    def _stages_of(self, op: Operation) -> tuple[int, ...]:
        if op in self.statement_places:
            return (self.statement_places[op].stage,)
        return tuple(place.stage for place in self.pure_places.get(op, ()))

    def _places_of_issue(self) -> dict[Operation, Place]:
        """Where each statement is issued: a scope is issued as a whole, with its first one."""
        places = dict(self.statement_places)
        for ops in self._scopes:
            first = self.statement_places[_first_statement(ops, self.statement_places)]
            places.update({op: first for op in ops if op in self.statement_places})
        return places

    def _place_pure_ops(self) -> dict[Operation, tuple[Place, ...]]:
        """Where each pure op runs: one place, or one a stage if it is rematerialised."""
        places: dict[Operation, tuple[Place, ...]] = {}
        yielded = list(self.body.terminator.operands)
        for op in reversed(self.body.ops):
            if op in self.statement_places or op not in self._holder:
                continue
            wanted: list[Place] = []
            for result in op.results:
                wanted += self._wanted_by(result, yielded, places)
            if not wanted:
                continue
            if op in self.rematerialised:
                earliest: dict[int, Place] = {}
                for place in wanted:
                    known = earliest.get(place.stage)
                    if known is None or place.order < known.order:
                        earliest[place.stage] = place
                places[op] = tuple(earliest.values())
            else:
                places[op] = (min(wanted, key=lambda place: (place.stage, place.order)),)
        return places

    def _wanted_by(
        self, result: Value, yielded: list[Value], places: dict[Operation, tuple[Place, ...]]
    ) -> list[Place]:
        wanted: list[Place] = []
        for use in result.uses:
            user = self._holder.get(use.owner.operation)
            if user is None:
                continue
            if user == self.body.terminator:
                if not any(
                    u is not None and u != self.body.terminator for u in self._users(result)
                ):
                    wanted += self._place_of_carried(result, yielded, places)
            elif user in self._issue_places:
                wanted.append(self._issue_places[user])
            else:
                wanted.extend(places.get(user, ()))
        return wanted

    def _users(self, value: Value) -> list[Operation | None]:
        return [self._holder.get(use.owner.operation) for use in value.uses]

    def _place_of_carried(
        self, result: Value, yielded: list[Value], places: dict[Operation, tuple[Place, ...]]
    ) -> list[Place]:
        """A value that only the yield uses goes with the earliest user of its iter_arg, and
        where that has none, with the latest of its operands."""
        found: list[Place] = []
        arguments = list(self.body.block.arguments)
        for number, value in enumerate(yielded):
            if value == result:
                found += self._statement_users(arguments[number + 1])
        if found:
            return [min(found, key=lambda place: (place.stage, place.order))]
        op = defining_op(result)
        assert op is not None
        operands = self._statement_producers(op)
        return [max(operands, key=lambda place: (place.stage, place.order), default=Place(0, 0))]

    def _statement_users(self, value: Value) -> list[Place]:
        found: list[Place] = []
        pending, seen = [value], {value}
        while pending:
            for use in pending.pop().uses:
                user = self._holder.get(use.owner.operation)
                if user is None or user == self.body.terminator:
                    continue
                if user in self._issue_places:
                    found.append(self._issue_places[user])
                    continue
                for result in user.results:
                    if result not in seen:
                        seen.add(result)
                        pending.append(result)
        return found

    def _statement_producers(self, op: Operation) -> list[Place]:
        found: list[Place] = []
        pending, seen = [op], {op}
        while pending:
            for value in captured(pending.pop()):
                producer = defining_op(value)
                if producer is None or producer.block != self.body.block or producer in seen:
                    continue
                seen.add(producer)
                if producer in self.statement_places:
                    found.append(self.statement_places[producer])
                else:
                    pending.append(producer)
        return found

    def _in_kernel_order(self) -> tuple[Unit, ...]:
        textual = {op: number for number, op in enumerate(self.body.ops)}
        entries: list[tuple[int, int, tuple[Operation, ...], int]] = []
        for ops in self._scopes:
            place = self.statement_places[_first_statement(ops, self.statement_places)]
            entries.append((place.order, textual[ops[0]], ops, place.stage))
        inside = {op for ops in self._scopes for op in ops}
        for op, place in self.statement_places.items():
            if op not in inside:
                entries.append((place.order, textual[op], (op,), place.stage))
        for op, pure_places in self.pure_places.items():
            if op not in inside:
                entries += [(p.order, textual[op], (op,), p.stage) for p in pure_places]
        entries.sort(key=lambda entry: (entry[0], entry[1], entry[3]))
        return tuple(
            Unit(
                ops,
                stage,
                position,
                asynchronous=any(_is_async(op) for op in ops),
                scoped=any(op in self._scoped for op in ops),
                pure=not any(op in self.statement_places for op in ops),
            )
            for position, (_, _, ops, stage) in enumerate(entries)
        )


def _statement_place(op: Operation, number: int) -> Place:
    stage = names.stage_of(op)
    assert stage is not None
    order = names.order_of(op)
    return Place(stage, number if order is None else order)


def _is_async(op: Operation) -> bool:
    return names.ASYNC in op.attributes or op.name == SCOPE or is_physical(op)


def is_physical(op: Operation) -> bool:
    """Whether the op is asynchronous by itself, without a scope around it."""
    return physical_copy(op) is not None


def physical_copy(op: Operation) -> Operation | None:
    """The first async copy that an op is, or leaves in flight behind its regions.

    A guarded copy (`scf.if` around it) is committed behind the region, whether or not the
    guard let it happen, so that every iteration has its group. What waits inside its own
    regions, like the kernel of an inner pipeline, leaves nothing to be committed.
    """
    if len(op.regions) == 0:
        row = row_of(op)
        return op if row is not None and row.asynchronous(op) else None
    found = None
    for inner in walk(op):
        row = row_of(inner)
        if row is None:
            continue
        if row.wait is not None or (row.asynchronous(inner) and len(inner.regions)):
            return None
        if row.asynchronous(inner) and found is None:
            found = inner
    return found


def _top_level_holder(body: Body) -> dict[Operation, Operation]:
    """For each op of the body, nested ones included, the top-level op that holds it.

    Synchronisation is left out: it is derived again and uses nothing."""
    dropped = set(body.synchronisation)
    holder: dict[Operation, Operation] = {body.terminator: body.terminator}
    for op in body.ops:
        if op in dropped:
            continue
        for inner in walk(op) if len(op.regions) else (op,):
            holder[inner] = op
    return holder


def _rematerialisable(body: Body) -> frozenset[Operation]:
    """Pure ops over the induction variable and outside values that the yield does not use."""
    induction = body.block.arguments[0]
    closed: set[Operation] = set()
    for op in body.pure:
        if all(
            value == induction
            or not _inside(value, body)
            or (defining_op(value) in closed and not is_block_argument(value))
            for value in captured(op)
        ):
            closed.add(op)
    kept = {defining_op(v) for v in body.terminator.operands if not is_block_argument(v)}
    while kept:
        op = kept.pop()
        if op in closed:
            closed.discard(op)
            kept |= {defining_op(v) for v in captured(op) if not is_block_argument(v)}
    return frozenset(closed)


def _inside(value: Value, body: Body) -> bool:
    owner = value.owner
    return (
        owner == body.block if isinstance(owner, ir.Block) else owner.operation.block == body.block
    )


def _first_statement(ops: tuple[Operation, ...], places: dict[Operation, Place]) -> Operation:
    return min((op for op in ops if op in places), key=lambda op: places[op].order)


def _scopes(
    body: Body, places: dict[Operation, Place], textual: dict[Operation, int]
) -> tuple[frozenset[Operation], list[tuple[Operation, ...]]]:
    """Async statements that are no physical async ops, joined where values flow between
    them: neighbours in kernel order and of one stage that use each other's values.

    Returns those statements, and the ops of each scope in textual order.
    """
    ranked = sorted(places, key=lambda op: (places[op].order, textual[op]))
    scopes: list[tuple[Operation, ...]] = []
    scoped: set[Operation] = set()
    run: list[Operation] = []
    for op in [*ranked, None]:
        joins = op is not None and _is_async(op) and not is_physical(op)
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
    parts: dict[Operation, list[Operation]] = {}
    for op in run:
        parts.setdefault(find(op), []).append(op)
    result = []
    for members in parts.values():
        ops = set(members).union(*(between[op] for op in members))
        ordered = tuple(sorted(ops, key=lambda op: textual[op]))
        _check_closed(ordered, body)
        result.append(ordered)
    return sorted(result, key=lambda ops: textual[ops[0]])


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
