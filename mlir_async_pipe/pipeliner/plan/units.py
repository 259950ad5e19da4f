"""The units of a pipelined loop: what runs as one piece, at which stage, in which place.

A unit is a statement, a pure op, or several async statements that become one
`async_pipe.scope`. Instance k of a unit in stage s runs at kernel step k + s; inside a step
units run in kernel order. Pure ops that depend on nothing but the induction variable and
values from outside are made again in every stage that needs them; every other pure op runs
once, with its earliest user.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir_async_pipe.bindings.raw_ops import Operation
from mlir_async_pipe.facts.flow.algorithms import reached
from mlir_async_pipe.facts.loops.statements import Body
from mlir_async_pipe.pipeliner.plan.pure_places import PurePlaces, rematerialisable
from mlir_async_pipe.pipeliner.plan.scope_members import form_scopes
from mlir_async_pipe.pipeliner.plan.statement_places import Place, StatementPlaces


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

    def __init__(self, body: Body, schedule: StatementPlaces) -> None:
        self.body = body
        self.statement_places = schedule.places
        table = body.table
        self._table = table
        self._places = {table.number[op]: place for op, place in schedule.places.items()}
        self._asynchronous = {table.number[op] for op in schedule.asynchronous}
        self._rematerialised = rematerialisable(body)
        self._scoped, self._scopes = form_scopes(body, self._places, self._asynchronous)
        self.pure_places = PurePlaces(
            table,
            self._places,
            self._places_of_issue(),
            self._rematerialised,
            {table.number[op] for op in body.synchronisation},
        ).find()
        self.units = self._in_kernel_order()
        self.last_stage = max((place.stage for place in self._places.values()), default=0)
        self._by_op = {(number, unit.stage): unit for unit in self.units for number in unit.numbers}
        self._of_statement = {
            op: self._by_op[table.number[op], place.stage] for op, place in schedule.places.items()
        }

    def maker(self, op: int, stage: int) -> Unit | None:
        """The unit that runs op `op` of the table for a user in `stage`; None where none does."""
        if op in self._rematerialised:
            return self._by_op[op, stage]
        places = (self._places[op],) if op in self._places else self.pure_places.get(op, ())
        return self._by_op[op, places[0].stage] if places else None

    def unit_of(self, op: Operation) -> Unit:
        return self._of_statement[op]

    def _first(self, scope: tuple[int, ...]) -> Place:
        """The place of the statement of a scope that comes first in order."""
        return min((self._places[op] for op in scope if op in self._places), key=lambda p: p.order)

    def _places_of_issue(self) -> dict[int, Place]:
        """Where each statement is issued: a scope is issued as a whole, with its first one."""
        places = dict(self._places)
        for scope in self._scopes:
            first = self._first(scope)
            places.update((op, first) for op in scope if op in self._places)
        return places

    def _in_kernel_order(self) -> tuple[Unit, ...]:
        # By order, place in the text, pure ops before statements, own place in the text, and stage.
        entries: list[tuple[int, int, int, int, int, tuple[int, ...]]] = []
        # Pure ops between the members of a scope run before the scope: (op, place) -> its text place.
        before: dict[tuple[int, Place], int] = {}
        for scope in self._scopes:
            place, start = self._first(scope), scope[0]
            before.update(((op, place), start) for op in self._needed_by(scope))
            entries.append((place.order, start, 1, start, place.stage, scope))
        inside = {op for scope in self._scopes for op in scope}
        for op, place in self._places.items():
            if op not in inside:
                entries.append((place.order, op, 1, op, place.stage, (op,)))
        for op, pure_places in self.pure_places.items():
            if op in inside:
                continue
            for place in pure_places:
                start = min(op, before.get((op, place), op))
                entries.append((place.order, start, 0, op, place.stage, (op,)))
        entries.sort()
        ops = self._table.ops
        return tuple(
            Unit(
                tuple(ops[number] for number in numbers),
                numbers,
                stage,
                position,
                asynchronous=not self._asynchronous.isdisjoint(numbers),
                scoped=not self._scoped.isdisjoint(numbers),
                pure=not any(number in self._places for number in numbers),
            )
            for position, (*_, stage, numbers) in enumerate(entries)
        )

    def _needed_by(self, scope: tuple[int, ...]) -> set[int]:
        """The pure ops of the body that a scope's values come from, its own left out."""

        def made_of(op: int) -> list[int]:
            return [maker for maker in self._table.makers(op) if maker in self.pure_places]

        return reached(scope, made_of).difference(scope)
