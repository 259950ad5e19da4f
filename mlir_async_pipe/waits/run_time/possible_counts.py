"""Which counts a wait can have at run time: all the ages that its token may have, path by path.

    %t = commit             {0}
    scf.if %c { commit }    {0, 1}
    wait %t                 the count is 0 or 1

A set of ages is a number whose bits are its members, so a commit is a shift and a join is `or`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from mlir_async_pipe.facts.flow.items import Edge, Frame, Item, Node
from mlir_async_pipe.facts.flow.solver import Domain
from mlir_async_pipe.vocabulary import Queue

# Bit 0: a group that no wait of the queue can see. Bit 1: a copy that is in no group yet (age
# -1). Bit k + 2: k groups were committed since.
NEVER, OPEN, NEWEST = 1, 2, 4

MADE = 0
"""The source of a token that the path itself makes."""

Row = dict[int, int]
"""Where a token may come from: a token before the path, by how many groups it grows older (bit
k + 2: by k groups), or `MADE`, by its ages at the end of the path."""


class Ageing(NamedTuple):
    """What paths do: the numbers of groups that they may commit, and the tokens that they make or
    hand on; all others just grow older."""

    groups: int
    rows: dict[int, Row]

    def row(self, value: int) -> Row:
        """Where a token at the end of the path comes from."""
        found = self.rows.get(value)
        return {value: self.groups} if found is None else found


class PossibleAges(Domain[Ageing]):
    """The domain: the possible ages of the tokens in `tracked`; all above `oldest` are one.

    `called` says how many groups a call commits at least (no more are counted at run time),
    `foreign` is the age of a token from elsewhere, `live` has the tokens that the blocks of a frame
    see from those before them.
    """

    has_values = True

    def __init__(
        self,
        tracked: set[int],
        queue: Queue,
        called: Callable[[Any], int],
        foreign: int,
        oldest: int,
        live: Callable[[Frame], dict[Node, set[int]]],
    ) -> None:
        self.tracked = tracked
        self.queue = queue
        self.called = called
        self.foreign = foreign
        self.live = live
        self._ceiling = 1 << (oldest + 3)
        self.unit = self.outside = Ageing(NEWEST, {})
        self.never = Ageing(0, {})
        self.over = self._over

    def start(self, root: Item) -> Ageing:
        """What a function is given."""
        arguments = [a for frame in root.frames[:1] for a in frame.entry.arguments.values()]
        return Ageing(NEWEST, self._made(arguments, self.foreign))

    def _over(self, event: Any) -> Ageing:
        """Commits make every token older; other ops may make tokens."""
        if event.kind == "wait":
            return self.unit
        if isinstance(event, Item):
            mine = event.queue == self.queue
            groups = self.called(event.op) if event.kind == "call" else int(mine)
            ages = self.foreign if event.kind == "call" else NEWEST if mine else NEVER
            most = self._bounded(NEWEST << min(groups, self._ceiling.bit_length()))
            return Ageing(most, self._made(event.results.values(), ages))
        if event.sources:
            return Ageing(NEWEST, {event.number: dict.fromkeys(event.sources, NEWEST)})
        ages = OPEN if event.kind == "copy" else self.foreign
        return Ageing(NEWEST, self._made([event.number], ages))

    def _made(self, values: Iterable[int], ages: int) -> dict[int, Row]:
        return {value: {MADE: ages} for value in values if value in self.tracked}

    def then(self, first: Ageing, later: Ageing) -> Ageing:
        """Tokens of the first path grow older in the later one, or are handed on by it."""
        if later == self.unit or first == self.never:
            return first
        if first == self.unit or later == self.never:
            return later
        rows = {}
        # Many tokens have the same ages.
        grown: dict[int, int] = {}
        for value, row in first.rows.items():
            if value not in later.rows:
                rows[value] = row if later.groups == NEWEST else {}
                for source, ages in row.items() if later.groups != NEWEST else ():
                    if ages not in grown:
                        grown[ages] = self._all_older(ages, later.groups)
                    rows[value][source] = grown[ages]
        for value, row in later.rows.items():
            made = rows[value] = {MADE: row[MADE]} if MADE in row else {}
            for middle, more in row.items():
                for source, ages in first.row(middle).items() if middle != MADE else ():
                    made[source] = made.get(source, 0) | self._all_older(ages, more)
        return Ageing(self._all_older(first.groups, later.groups), rows)

    def join(self, first: Ageing, second: Ageing) -> Ageing:
        """What either path allows."""
        if self.never in (first, second):
            return second if first == self.never else first
        rows: dict[int, Row] = {}
        for value in first.rows.keys() | second.rows.keys():
            row = rows[value] = first.row(value)
            other = second.row(value)
            if row != other:
                row = rows[value] = dict(row)
                for source, ages in other.items():
                    row[source] = row.get(source, 0) | ages
        return Ageing(first.groups | second.groups, rows)

    def hand(self, sources: dict[int, int]) -> Ageing:
        """A token is as old as the one that it is."""
        tracked = self.tracked
        return Ageing(
            NEWEST,
            {to: {of: NEWEST} for to, of in sources.items() if to in tracked or of in tracked},
        )

    def take(self, worth: Ageing, sources: dict[int, int]) -> Ageing:
        """Nothing else is seen outside."""
        return Ageing(worth.groups, {to: worth.row(of) for to, of in sources.items()})

    def along(self, edge: Edge) -> dict[int, int]:
        """All that is alive goes on."""
        live = self.live(edge.target.frame).get(edge.target, set())
        return {value: value for value in live & self.tracked} | super().along(edge)

    def is_apart(self, item: Item) -> bool:
        """Tokens are followed where counters can be carried along."""
        return not item.row.carries

    def past(self, item: Item, through: list[Ageing]) -> Ageing:
        """A token from there was committed no later than here."""
        return Ageing(NEWEST, self._made(item.results.values(), self.foreign))

    def ages(self, here: Ageing, values: Iterable[int]) -> int:
        """The ages that some tokens may have where all paths from the start are worth `here`."""
        found = 0
        for value in values:
            found |= here.row(value).get(MADE, 0)
        return found

    def _all_older(self, ages: int, groups: int) -> int:
        """What ages may become while one of some numbers of groups is committed."""
        few, many = sorted((ages & ~NEVER, groups), key=int.bit_count)
        found = 0
        while few:
            lowest = few & -few
            found |= many * lowest
            few ^= lowest
        return self._bounded(found // NEWEST) | (ages & NEVER)

    def _bounded(self, ages: int) -> int:
        """All above the oldest are one."""
        if ages < self._ceiling:
            return ages
        return (ages & (self._ceiling - 1)) | (self._ceiling >> 1)


def counts_in(ages: int) -> list[int]:
    """The counts that a set of ages stands for, in order; those below 0 are left out."""
    return [bit - 2 for bit in range(2, ages.bit_length()) if ages >> bit & 1]
