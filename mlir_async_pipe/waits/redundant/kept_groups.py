"""How many of the youngest groups are still groups of their own once some commits have gone.

    kept[j]  =  the most that are left, over all paths, of the j groups committed last

A wait that let N groups stay in flight lets the same ops stay if its new count is at least
kept[N]: then it is stricter on no path. (A prologue that commits as many groups as the iterations
of its loop may not lose one: the loop's count would sink, and with it what the loop overlaps.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from mlir_async_pipe.flow.items import Item
from mlir_async_pipe.flow.solver import Domain

NONE = -(1 << 60)

Change = Literal["kept", "dropped", "any", "none"]
"""What an op does: it commits a group that stays, or that joins the next one, or it may commit
any number that stay, or none."""


class Kept(NamedTuple):
    """What paths keep: `last[j]` the most of their j youngest groups, `NONE` if all have fewer;
    `all[n]` the most on those that commit n groups, up to as many as `last` tells."""

    last: tuple[int, ...]
    all: dict[int, int]


class KeptGroups(Domain[Kept]):
    """The domain, for windows of 0 to `most` groups; `change` says what items do."""

    def __init__(self, most: int, change: Callable[[Item], Change]) -> None:
        self.most = most
        self.unit = self._path(0)
        self.never = Kept((NONE,) * (most + 1), {})
        # Nobody knows how many groups there are, and all may stay.
        self.outside = Kept(tuple(range(most + 1)), {n: n for n in range(most + 1)})
        # There are no groups before: the youngest ones are none.
        self.nothing = Kept((0,) * (most + 1), {})
        worth = {"none": self.unit, "any": self.outside}
        worth |= {"kept": self._path(0, 1), "dropped": self._path(0, 0)}
        self.over = lambda item: worth[change(item)]

    def _path(self, *kept: int) -> Kept:
        """A path on which so many of its youngest groups stay; the last number is for all."""
        room = self.most + 1
        last = (*kept, *[NONE] * room)[:room]
        return Kept(last, {len(kept) - 1: kept[-1]} if len(kept) <= room else {})

    def then(self, first: Kept, later: Kept) -> Kept:
        """Some youngest groups are all of the later path, or reach back into the first one."""
        if self.never in (first, later):
            return self.never
        last = list(later.last)
        every: dict[int, int] = {}
        for number, kept in later.all.items():
            for before, more in enumerate(first.last[: self.most + 1 - number]):
                if more != NONE:
                    last[number + before] = max(last[number + before], more + kept)
            for before, more in first.all.items():
                if number + before <= self.most:
                    every[number + before] = max(every.get(number + before, 0), more + kept)
        return Kept(tuple(last), every)

    def join(self, first: Kept, second: Kept) -> Kept:
        """The path that keeps more."""
        every = first.all | second.all
        for number in first.all.keys() & second.all.keys():
            every[number] = max(first.all[number], second.all[number])
        return Kept(tuple(map(max, first.last, second.last)), every)

    def past(self, item: Item, through: list[Kept]) -> Kept:
        """What may have been committed in another thread is not known."""
        return self.outside
