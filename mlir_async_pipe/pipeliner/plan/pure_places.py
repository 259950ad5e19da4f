"""Where the pure ops of a loop body run.

    %j = arith.addi %i, %c        once a stage: a pure function of the induction variable
    %y = arith.mulf %x, %x        once, with the earliest of its users, those that the next iteration
                                  has of what the yield forwards among them
    yield %y                      with the earliest statement that uses its iter_arg, or with
                                  the latest of its operands, if that comes later

Ops whose values nobody uses have no place and disappear. Ops and values are those of the body's
table, by number.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from mlir_async_pipe.facts.flow.algorithms import walked
from mlir_async_pipe.facts.loops.statements import Body, BodyTable
from mlir_async_pipe.pipeliner.plan.statement_places import SchedulePlace


class PurePlaces:
    """Finds the places of all pure ops of a body.

    `statement_places` is where the statements stand, `issue_places` where they are issued,
    `rematerialised` the ops that may run once a stage. `synchronisation` is derived again and uses
    nothing.
    """

    def __init__(
        self,
        table: BodyTable,
        statement_places: Mapping[int, SchedulePlace],
        issue_places: Mapping[int, SchedulePlace],
        rematerialised: frozenset[int],
        synchronisation: Collection[int],
    ) -> None:
        self._table = table
        self._end = len(table.ops) - 1
        self._statement_places = statement_places
        self._issue_places = issue_places
        self._rematerialised = rematerialised
        self._synchronisation = synchronisation

    def find(self) -> dict[int, tuple[SchedulePlace, ...]]:
        """Where each pure op runs: one place, or one a stage if it is rematerialised."""
        places: dict[int, tuple[SchedulePlace, ...]] = {}
        for op in reversed(range(self._end)):
            if op in self._statement_places or op in self._synchronisation:
                continue
            wanted = [
                place
                for result in self._table.results[op]
                for place in self._wanted_by(op, result, places)
            ]
            if not wanted:
                continue
            if op in self._rematerialised:
                stages = {place.stage for place in wanted}
                places[op] = tuple(min(p for p in wanted if p.stage == stage) for stage in stages)
            else:
                places[op] = (min(wanted),)
        return places

    def _wanted_by(
        self, op: int, result: int, places: dict[int, tuple[SchedulePlace, ...]]
    ) -> list[SchedulePlace]:
        users = [user for user in self._table.users[result] if self._runs(user, places)]
        if users == [self._end]:
            return [self._place_of_carried(op, result)]
        wanted: list[SchedulePlace] = []
        for user in users:
            issued = self._issue_places.get(user)
            wanted += places.get(user, ()) if issued is None else (issued,)
        if wanted and self._end in users:
            wanted += self._takers(result)[:1]
        return wanted

    def _runs(self, user: int, places: dict[int, tuple[SchedulePlace, ...]]) -> bool:
        """Whether an op is written again: not what synchronises, nor a pure op that nobody uses."""
        return user == self._end or user in self._issue_places or user in places

    def _place_of_carried(self, op: int, result: int) -> SchedulePlace:
        """A value that only the yield uses goes with the earliest user of its iter_arg, or with
        the latest of its operands where that comes later or the iter_arg has no user."""
        return max(
            [*self._statement_producers(op), *self._takers(result)[:1]], default=SchedulePlace(0, 0)
        )

    def _takers(self, result: int) -> list[SchedulePlace]:
        """The statements that use what the yield forwards, in their next iteration, the earliest first."""
        arguments = (n for n, value in enumerate(self._table.yielded, 1) if value == result)
        return sorted(place for argument in arguments for place in self._statement_users(argument))

    def _statement_users(self, argument: int) -> list[SchedulePlace]:
        places, left_out = self._issue_places, {*self._synchronisation, self._end}

        def users(op: int) -> list[int]:
            found = [] if op in places else self._table.following(op)
            return [user for user in found if user not in left_out]

        first = [user for user in self._table.users[argument] if user not in left_out]
        return [places[op] for op in walked(first, users) if op in places]

    def _statement_producers(self, op: int) -> list[SchedulePlace]:
        places, makers = self._statement_places, self._table.makers
        before = walked(makers(op), lambda other: () if other in places else makers(other))
        return [places[maker] for maker in before if maker in places]


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
