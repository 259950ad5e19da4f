"""The units of a pipelined loop: what runs as one piece, at which stage, in which place.

A unit is a statement, a pure op, or several async statements that become one
`async_pipe.scope`. Instance k of a unit in stage s runs at kernel step k + s; inside a step
units run in kernel order. Pure ops that depend on nothing but the induction variable and
values from outside are made again in every stage that needs them; every other pure op runs
once, with its earliest user.
"""

from __future__ import annotations

from mlir_async_pipe.bindings.raw_ops import Operation, Value, captured, defining_op
from mlir_async_pipe.expand.plan.pure_places import PurePlaces, rematerialisable
from mlir_async_pipe.expand.plan.scope_members import first_statement, form_scopes
from mlir_async_pipe.expand.plan.statement_places import Place, StatementPlaces
from mlir_async_pipe.flow.algorithms import reached
from mlir_async_pipe.loops.statements import Body
from mlir_async_pipe.session.light_dataclass import dataclass


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


class Units:
    """All units of a loop under a schedule, in kernel order, and where each op and value
    belongs."""

    def __init__(self, body: Body, schedule: StatementPlaces) -> None:
        self.body = body
        self.statement_places = schedule.places
        self._asynchronous = schedule.asynchronous
        self.rematerialised = rematerialisable(body)
        textual = {op: number for number, op in enumerate(body.ops)}
        self._scoped, self._scopes = form_scopes(body, schedule, textual)
        self.pure_places = PurePlaces(
            body, self.statement_places, self._places_of_issue(), self.rematerialised
        ).find()
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
            first = self.statement_places[first_statement(ops, self.statement_places)]
            places.update({op: first for op in ops if op in self.statement_places})
        return places

    def _in_kernel_order(self) -> tuple[Unit, ...]:
        textual = {op: number for number, op in enumerate(self.body.ops)}
        entries: list[tuple[tuple[int, ...], tuple[Operation, ...], int]] = []
        # Pure ops between the members of a scope run before the scope: (op, place) -> its text place.
        before: dict[tuple[Operation, Place], int] = {}
        for ops in self._scopes:
            place = self.statement_places[first_statement(ops, self.statement_places)]
            start = textual[ops[0]]
            before.update({(op, place): start for op in self._needed_by(ops)})
            entries.append(((place.order, start, 1, start), ops, place.stage))
        inside = {op for ops in self._scopes for op in ops}
        for op, place in self.statement_places.items():
            if op not in inside:
                entries.append(((place.order, textual[op], 1, textual[op]), (op,), place.stage))
        for op, pure_places in self.pure_places.items():
            if op in inside:
                continue
            for place in pure_places:
                start = min(textual[op], before.get((op, place), textual[op]))
                entries.append(((place.order, start, 0, textual[op]), (op,), place.stage))
        entries.sort(key=lambda entry: (entry[0], entry[2]))
        return tuple(
            Unit(
                ops,
                stage,
                position,
                asynchronous=not self._asynchronous.isdisjoint(ops),
                scoped=any(op in self._scoped for op in ops),
                pure=not any(op in self.statement_places for op in ops),
            )
            for position, (_, ops, stage) in enumerate(entries)
        )

    def _needed_by(self, ops: tuple[Operation, ...]) -> set[Operation]:
        """The pure ops of the body that a scope's values come from, its own left out."""

        def made_of(op: Operation) -> list[Operation]:
            makers = (defining_op(value) for value in captured(op))
            return [maker for maker in makers if maker is not None and maker in self.pure_places]

        return reached(ops, made_of).difference(ops)
