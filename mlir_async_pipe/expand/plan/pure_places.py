"""Where the pure ops of a loop body run.

    %j = arith.addi %i, %c        once a stage: a pure function of the induction variable
    %y = arith.mulf %x, %x        once, with the earliest of its users
    yield %y                      with the earliest statement that uses its iter_arg, or with
                                  the latest of its operands, if that comes later

Ops whose values nobody uses have no place and disappear.
"""

from __future__ import annotations

from collections.abc import Iterable

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    captured,
    defining_op,
    is_block_argument,
    walk,
)
from mlir_async_pipe.expand.plan.statement_places import Place
from mlir_async_pipe.flow.algorithms import walked
from mlir_async_pipe.loops.statements import Body


class PurePlaces:
    """Finds the places of all pure ops of a body.

    `statement_places` is where the statements stand, `issue_places` where they are issued,
    `rematerialised` the ops that may run once a stage.
    """

    def __init__(
        self,
        body: Body,
        statement_places: dict[Operation, Place],
        issue_places: dict[Operation, Place],
        rematerialised: frozenset[Operation],
    ) -> None:
        self._body = body
        self._statement_places = statement_places
        self._issue_places = issue_places
        self._rematerialised = rematerialised
        self._holder = _top_level_holder(body)

    def find(self) -> dict[Operation, tuple[Place, ...]]:
        """Where each pure op runs: one place, or one a stage if it is rematerialised."""
        places: dict[Operation, tuple[Place, ...]] = {}
        yielded = list(self._body.terminator.operands)
        for op in reversed(self._body.ops):
            if op in self._statement_places or op not in self._holder:
                continue
            wanted: list[Place] = []
            for result in op.results:
                wanted += self._wanted_by(result, yielded, places)
            if not wanted:
                continue
            if op in self._rematerialised:
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
            if user == self._body.terminator:
                if not any(
                    u is not None and u != self._body.terminator for u in self._users(result)
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
        """A value that only the yield uses goes with the earliest user of its iter_arg, or with
        the latest of its operands where that comes later or the iter_arg has no user."""
        found: list[Place] = []
        arguments = list(self._body.block.arguments)
        for number, value in enumerate(yielded):
            if value == result:
                found += self._statement_users(arguments[number + 1])
        op = defining_op(result)
        assert op is not None
        earliest = sorted(found, key=_when)[:1]
        return [max([*self._statement_producers(op), *earliest], key=_when, default=Place(0, 0))]

    def _statement_users(self, value: Value) -> list[Place]:
        places = self._issue_places

        def after(value: Value) -> list[Operation]:
            holders = (self._holder.get(use.owner.operation) for use in value.uses)
            return [op for op in holders if op is not None and op != self._body.terminator]

        def users(op: Operation) -> list[Operation]:
            return [] if op in places else [u for result in op.results for u in after(result)]

        return [places[op] for op in walked(after(value), users) if op in places]

    def _statement_producers(self, op: Operation) -> list[Place]:
        places = self._statement_places

        def makers(op: Operation) -> list[Operation]:
            found = (defining_op(value) for value in captured(op))
            return [o for o in found if o is not None and o.block == self._body.block]

        def before(op: Operation) -> list[Operation]:
            return [] if op in places else makers(op)

        return [places[maker] for maker in walked(makers(op), before) if maker in places]


def _when(place: Place) -> tuple[int, int]:
    return place.stage, place.order


def rematerialisable(body: Body) -> frozenset[Operation]:
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
    kept = _makers(body.terminator.operands)
    while kept:
        op = kept.pop()
        if op in closed:
            closed.discard(op)
            kept |= _makers(captured(op))
    return frozenset(closed)


def _makers(values: Iterable[Value]) -> set[Operation]:
    return {op for value in values if (op := defining_op(value)) is not None}


def _inside(value: Value, body: Body) -> bool:
    op = defining_op(value)
    return value.owner == body.block if op is None else op.block == body.block


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
