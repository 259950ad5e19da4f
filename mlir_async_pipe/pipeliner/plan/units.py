"""The units of a pipelined loop: what runs as one piece, at which stage, in which place.

A unit is a statement, a pure op, or several async statements that become one
`async_pipe.scope`. Instance k of a unit in stage s runs at kernel step k + s; inside a step
units run in kernel order.

    %j = arith.addi %i, %c        once a stage: a pure function of the induction variable
    %y = arith.mulf %x, %x        once, with the earliest of its users, those that the next iteration
                                  has of what the yield forwards among them
    yield %y                      with the earliest statement that uses its iter_arg, or with
                                  the latest of its operands, if that comes later

Pure ops whose values nobody uses have no place and disappear.

    %v = memref.load %A[%i] {async}                "async_pipe.scope"() ({
    %w = arith.addf %v, %c                -->        load, addf, store
    memref.store %w, %b[0] {async}                 })

A scope forwards memory only: a value that leaves it would be used before it exists.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from mlir_async_pipe.bindings.raw_ops import Operation, walk
from mlir_async_pipe.facts.flow.algorithms import joined, reached, walked
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.facts.loops.statements import Body, BodyTable, synchronisation_in
from mlir_async_pipe.session.diagnostics import InputError, PipelineError
from mlir_async_pipe.vocabulary import row_of
from mlir_async_pipe.vocabulary.control_flow import CALL_OPS, SCOPE

# Where the statements of a loop run: their stages and orders, and which complete later.
#
# Read off the op form, or made up by a scheduler that tries schedules without editing the loop.


class SchedulePlace(NamedTuple):
    """Where an op runs: its stage (iterations of delay) and its order, of which smaller ones run earlier in the
    pipeline; `asynchronous`: it completes later than it is issued."""

    stage: int
    order: int
    asynchronous: bool = False


Schedule = Mapping[Operation, SchedulePlace]
"""Where each statement runs. Ops are keys, so no attribute of them may change while it is in use."""


def check_op_form(body: Body) -> None:
    """Every statement has a stage of 0 or more; raises InputError."""
    for statement in body.statements:
        if statement.part and names.parts_of(statement.op):
            continue
        stage = names.stage_of(statement.op)
        names.order_of(statement.op)
        if stage is None:
            given = next(s.op for s in body.statements if names.STAGE in s.op.attributes)
            why = f"statement {statement.number}, '{statement.op.name}', has no '{names.STAGE}'"
            notes = (("another statement of the loop has one", given),)
            raise InputError(why, code="stage-missing", at=statement.op, notes=notes)
        if stage < 0:
            why = f"'{names.STAGE}' is {stage}, expected 0 or more"
            raise InputError(why, code="negative-stage", at=statement.op)


def in_op_form(body: Body) -> Schedule:
    """The schedule that stands on the ops of a loop. Raises InputError (stage-missing, negative-stage)."""
    check_op_form(body)
    return {s.op: statement_place(s.op, s.number) for s in body.statements}


def statement_place(op: Operation, number: int) -> SchedulePlace:
    """Where the annotations put a statement; `number` is its order if it has none."""
    stage = names.stage_of(op)
    assert stage is not None
    order = names.order_of(op)
    return SchedulePlace(stage, number if order is None else order, is_async(op))


def is_async(op: Operation) -> bool:
    return names.ASYNC in op.attributes or op.name == SCOPE or is_physical(op)


def is_physical(op: Operation) -> bool:
    """Whether the op is asynchronous by itself, without a scope around it."""
    return physical_copy(op) is not None


def physical_copy(op: Operation) -> Operation | None:
    """The first async copy that an op is, or leaves in flight after its regions.

    A guarded copy (`scf.if` around it) is committed after the region, whether or not the
    guard let it happen, so that every iteration has its group. What waits inside its own
    regions, like the kernel of an inner pipeline, leaves nothing to be committed.
    """
    asked = names.ASYNC in op.attributes
    if len(op.regions) == 0:
        return op if _is_copy_in_flight(op, asked) else None
    found = None
    for inner in walk(op):
        row = row_of(inner)
        if row.wait is not None or (row.asynchronous(inner) and len(inner.regions)):
            return None
        if found is None and _is_copy_in_flight(inner, asked):
            found = inner
    return found


def _is_copy_in_flight(op: Operation, asked: bool) -> bool:
    """Whether an op completes later by itself, or will when it is `asked` to: copies to LDS
    without their `async` get it."""
    row = row_of(op)
    return row.asynchronous(op) or (asked and bool(row.async_attribute))


@dataclass(frozen=True, eq=False)
class Unit:
    """One piece of the kernel.

    `ops` are top-level ops of the body in textual order, more than one only for a scope, `numbers`
    theirs in the body's table. `position` is the place in kernel order. `asynchronous`: completes
    later than issued; `scoped`: becomes an `async_pipe.scope` (a physical async op does not).
    """

    ops: tuple[Operation, ...]
    numbers: tuple[int, ...]
    stage: int
    position: int
    asynchronous: bool
    scoped: bool
    pure: bool


class Units:
    """All units of a loop under a schedule, in kernel order, and where each op belongs.

    `pure_places` are those of pure ops, by their number in the body's table."""

    def __init__(self, body: Body, schedule: Schedule) -> None:
        self.body, self.statement_places = body, schedule
        self._table = table = body.table
        self._end = len(table.ops) - 1
        self._places = {table.number[op]: place for op, place in schedule.items()}
        self._asynchronous = {n for n, place in self._places.items() if place.asynchronous}
        self._rematerialised = rematerialisable(body)
        self._scoped, self._scopes = form_scopes(body, self._places, self._asynchronous)
        # Where each statement is issued: a scope is issued as a whole, with its first one.
        self._issued = dict(self._places)
        for scope in self._scopes:
            first = self._first(scope)
            self._issued.update((op, first) for op in scope if op in self._places)
        # What synchronises is derived again, and uses nothing.
        self._synchronisation = {table.number[op] for op in body.synchronisation}
        self.pure_places = self._find_pure_places()
        self.units = self._in_kernel_order()
        self.last_stage = max((place.stage for place in self._places.values()), default=0)
        self._by_op = {(number, unit.stage): unit for unit in self.units for number in unit.numbers}
        self._of_statement = {
            op: self._by_op[table.number[op], place.stage] for op, place in schedule.items()
        }

    def maker(self, op: int, stage: int) -> Unit | None:
        """The unit that runs op `op` of the table for a user in `stage`; None where none does."""
        if op in self._rematerialised:
            return self._by_op[op, stage]
        places = (self._places[op],) if op in self._places else self.pure_places.get(op, ())
        return self._by_op[op, places[0].stage] if places else None

    def unit_of(self, op: Operation) -> Unit:
        return self._of_statement[op]

    def _first(self, scope: tuple[int, ...]) -> SchedulePlace:
        """The place of the statement of a scope that comes first in order."""
        return min((self._places[op] for op in scope if op in self._places), key=lambda p: p.order)

    def _find_pure_places(self) -> dict[int, tuple[SchedulePlace, ...]]:
        """Where each pure op runs: one place, or one a stage if it is rematerialised."""
        places: dict[int, tuple[SchedulePlace, ...]] = {}
        for op in reversed(range(self._end)):
            if op in self._places or op in self._synchronisation:
                continue
            results = self._table.results[op]
            wanted = [p for result in results for p in self._wanted_by(op, result, places)]
            if op in self._rematerialised and wanted:
                stages = {place.stage for place in wanted}
                places[op] = tuple(min(p for p in wanted if p.stage == stage) for stage in stages)
            elif wanted:
                places[op] = (min(wanted),)
        return places

    def _wanted_by(
        self, op: int, result: int, places: dict[int, tuple[SchedulePlace, ...]]
    ) -> list[SchedulePlace]:
        # What is written again: not what synchronises, nor a pure op that nobody uses.
        runs = (self._issued, places, (self._end,))
        users = [u for u in self._table.users[result] if any(u in known for known in runs)]
        if users == [self._end]:
            # It goes with the earliest user of its iter_arg, or with the latest of its operands where that
            # comes later or the iter_arg has no user.
            known, makers = self._places, self._table.makers
            before = walked(makers(op), lambda other: () if other in known else makers(other))
            made = [known[maker] for maker in before if maker in known]
            return [max([*made, *self._takers(result)[:1]], default=SchedulePlace(0, 0))]
        wanted: list[SchedulePlace] = []
        for user in users:
            issued = self._issued.get(user)
            wanted += places.get(user, ()) if issued is None else (issued,)
        if wanted and self._end in users:
            wanted += self._takers(result)[:1]
        return wanted

    def _takers(self, result: int) -> list[SchedulePlace]:
        """The statements that use what the yield forwards, in their next iteration, the earliest first."""
        arguments = (n for n, value in enumerate(self._table.yielded, 1) if value == result)
        return sorted(place for argument in arguments for place in self._statement_users(argument))

    def _statement_users(self, argument: int) -> list[SchedulePlace]:
        places, left_out = self._issued, {*self._synchronisation, self._end}

        def users(op: int) -> list[int]:
            found = [] if op in places else self._table.following(op)
            return [user for user in found if user not in left_out]

        first = [user for user in self._table.users[argument] if user not in left_out]
        return [places[op] for op in walked(first, users) if op in places]

    def _in_kernel_order(self) -> tuple[Unit, ...]:
        # By order, place in the text, pure ops before statements, own place in the text, and stage.
        entries: list[tuple[int, int, int, int, int, tuple[int, ...]]] = []
        # Pure ops between the members of a scope run before the scope: (op, stage, order) -> its text place.
        before: dict[tuple[int, int, int], int] = {}
        for scope in self._scopes:
            place, start = self._first(scope), scope[0]
            needed = reached(scope, lambda op: self.pure_places.keys() & self._table.makers(op))
            outside = needed.difference(scope)
            before.update(((op, place.stage, place.order), start) for op in outside)
            entries.append((place.order, start, 1, start, place.stage, scope))
        inside = {op for scope in self._scopes for op in scope}
        for op, place in self._places.items():
            if op not in inside:
                entries.append((place.order, op, 1, op, place.stage, (op,)))
        for op, place in ((op, p) for op, places in self.pure_places.items() for p in places):
            if op not in inside:
                start = min(op, before.get((op, place.stage, place.order), op))
                entries.append((place.order, start, 0, op, place.stage, (op,)))
        entries.sort()
        units = []
        for position, (*_, stage, numbers) in enumerate(entries):
            ops = tuple(self._table.ops[number] for number in numbers)
            later, scoped = (not n.isdisjoint(numbers) for n in (self._asynchronous, self._scoped))
            pure = self._places.keys().isdisjoint(numbers)
            units.append(Unit(ops, numbers, stage, position, later, scoped, pure))
        return tuple(units)


def rematerialisable(body: Body) -> frozenset[int]:
    """Pure ops over the induction variable and outside values that the yield does not use."""
    table = body.table
    closed: set[int] = set()
    for op in map(table.number.__getitem__, body.pure):
        if table.follows_induction(op, closed):
            closed.add(op)
    kept = table.makers(len(table.ops) - 1)
    while kept:
        op = kept.pop()
        if op in closed:
            closed.discard(op)
            kept += table.makers(op)
    return frozenset(closed)


def form_scopes(
    body: Body, places: Mapping[int, SchedulePlace], asynchronous: Collection[int]
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
    between; raises PipelineError (async-value-escapes) if a value leaves its scope."""
    for op in run:
        _check_inside(body.table.ops[op])
    result = [tuple(sorted(members | between)) for members, between in _parts(body, run)]
    for scope in result:
        _check_closed(scope, body.table)
    return sorted(result)


def _check_inside(op: Operation) -> None:
    """A scope runs at any moment after its issue: a group, a wait or a barrier in it would happen then. MLIR looks
    for no symbol from inside an unregistered op, so a call in a scope would not verify.

    Raises PipelineError (synchronisation-in-scope, call-in-scope)."""
    inner = synchronisation_in(op)
    if inner is not None:
        raise PipelineError(
            f"cannot pipeline: async '{op.name}' holds '{inner.name}', which belongs outside of what "
            "completes later",
            code="synchronisation-in-scope",
            at=inner,
            notes=(("the async statement", op),),
            advice="take groups, waits and barriers out of the statement, or leave it synchronous",
        )
    for call in (inner for inner in walk(op) if inner.name in CALL_OPS):
        why = "a function cannot be called from what completes later"
        raise PipelineError(
            f"cannot pipeline: async '{call.name}': {why}",
            code="call-in-scope",
            at=call,
            advice="inline it, or leave the statement synchronous",
        )


def joined_by_values(body: Body, statements: list[Operation]) -> list[frozenset[Operation]]:
    """Async statements sorted into the parts that share values; what is asynchronous by itself joins nobody."""
    table = body.table
    parts = _parts(body, [table.number[op] for op in statements if not is_physical(op)])
    return [frozenset(table.ops[op] for op in members) for members, _ in parts]


def _parts(body: Body, run: list[int]) -> list[tuple[set[int], set[int]]]:
    """The statements of `run` by the values that they share, and the pure ops between."""
    pure = set(map(body.table.number.__getitem__, body.pure))
    found = {op: _producers_between(op, body.table, pure, run) for op in run}
    pairs = ((op, producer) for op, producers in found.items() for producer, _ in producers)
    return [
        (set(part), set[int]().union(*(path for op in part for _, path in found[op])))
        for part in joined(run, pairs)
    ]


def _producers_between(
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
    for number, following in ((op, user) for op in scope for user in table.following(op)):
        if following not in scope:
            made, user = table.ops[number], table.ops[following]
            raise PipelineError(
                f"cannot pipeline: the value of async '{made.name}' is used outside its "
                f"async stage by '{user.name}'; async statements hand on memory only",
                code="async-value-escapes",
                at=made,
                notes=(("the user", user),),
            )
