"""How many groups are younger than the oldest one that nobody took, where queues share a FIFO.

    commit 0; commit 1; commit 0; take 0      two younger groups: one of each queue
    commit 0; commit 1; commit 0; take 1      one

A take on a queue whose groups exceed its takes by h, itself included, waits for the group with h
younger ones of its own queue; the FIFO holds those of others between them. So a set of paths is worth,
for each h, the least number of groups of the FIFO after the j-th youngest own group, for all j: h
says at the take which j it needs. Paths with one h give the minimum for each j; a loop comes to rest,
since h and j are bounded by what is ever held at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir_async_pipe.facts.flow.items import Item
from mlir_async_pipe.facts.flow.solver import Domain

# More groups than any wait of an abstract queue leaves in flight.
MOST_HELD = 64
# On some path, any number of groups may have been taken.
ENDLESS = -(1 << 30)

Key = tuple[int, int]


@dataclass(frozen=True)
class Worth:
    """What a set of paths is worth; the first number of a key is own groups less takes.

    `passing[h, c]`: the least number of groups on a path with c own ones. `younger[h, j]`: the least
    number after the j-th youngest own group, the youngest being number 0.
    """

    passing: dict[Key, int]
    younger: dict[Key, int]


UNIT = Worth({(0, 0): 0}, {})
OWN = Worth({(1, 1): 1}, {(1, 0): 0})
OTHER = Worth({(0, 0): 1}, {})
TAKE = Worth({(-1, 0): 0}, {})
TAKES = Worth({(ENDLESS, 0): 0}, {})


@dataclass(frozen=True)
class YoungerGroups(Domain[Worth]):
    """The domain: `own` groups and takes of one queue, `others` on its FIFO; `most` own groups are
    held at once."""

    own: frozenset[Item]
    others: frozenset[Item]
    takes: frozenset[Item]
    may_take: frozenset[Item]
    most: int
    unit: Worth = UNIT
    never: Worth = Worth({}, {})
    outside: Worth = UNIT

    def over(self, item: Item) -> Worth:
        if item in self.own:
            return OWN
        if item in self.others:
            return OTHER
        if item in self.takes:
            return TAKE
        if item in self.may_take:
            return TAKES if item.kind == "call" else self.join(UNIT, TAKE)
        return UNIT

    def then(self, first: Worth, later: Worth) -> Worth:
        """Groups of the first path are as much older as the later one has groups."""
        passing: dict[Key, int] = {}
        younger: dict[Key, int] = {}
        for (held, own), groups in later.passing.items():
            for (before, count), more in first.passing.items():
                if count + own <= self.most:
                    _least(passing, (self._held(before, held), count + own), groups + more)
            for (before, number), more in first.younger.items():
                if number + own <= self.most:
                    _least(younger, (self._held(before, held), number + own), groups + more)
        before_it = {held for held, _ in (*first.passing, *first.younger)}
        for (held, number), groups in later.younger.items():
            for before in before_it:
                _least(younger, (self._held(before, held), number), groups)
        return Worth(passing, younger)

    def _held(self, before: int, after: int) -> int:
        """Own groups less takes: at most as many as matter, and endlessly few stays so."""
        held = before + after
        return ENDLESS if held < -self.most else min(held, self.most)

    def join(self, first: Worth, second: Worth) -> Worth:
        """The least of both, for each number that is held."""
        return Worth(
            _least_of(first.passing, second.passing), _least_of(first.younger, second.younger)
        )

    def after_take(self, worth: Worth) -> int:
        """The groups that are younger than the one just taken; -1 if there may be none to take."""
        held = {held for held, _ in (*worth.passing, *worth.younger)}
        return min(-1 if h < 0 else worth.younger.get((h, h), -1) for h in held)


def _least(known: dict[Key, int], key: Key, groups: int) -> None:
    if groups < known.get(key, groups + 1):
        known[key] = groups


def _least_of(first: dict[Key, int], second: dict[Key, int]) -> dict[Key, int]:
    if not (first and second):
        return first or second
    found = dict(first)
    for key, groups in second.items():
        _least(found, key, groups)
    return found
