"""How many of the youngest groups are still groups of their own once some commits have gone.

    kept[j]  =  the most that are left, over all paths, of the j groups committed last

A wait that let N groups stay in flight lets the same ops stay if its new count is at least
kept[N]: then it is stricter on no path. (A prologue that commits as many groups as the iterations
of its loop may not lose one: the loop's count would sink, and with it what the loop overlaps.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from mlir_async_pipe.bindings.raw_ops import Operation, Value

Kept = tuple[int, ...]

Change = Literal["kept", "dropped", "any", "none"]
"""What an op does: it commits a group that stays, or that joins the next one, or it may commit
any number that stay, or none."""


@dataclass
class KeptGroups:
    """The domain: `kept`, for windows of 0 to `most` groups."""

    most: int
    change: Callable[[Operation], Change]
    unreached: Kept | None = None

    @property
    def all(self) -> Kept:
        """Every group stays."""
        return tuple(range(self.most + 1))

    @property
    def none(self) -> Kept:
        """There are no groups."""
        return (0,) * (self.most + 1)

    def over(self, op: Operation, state: Kept) -> Kept:
        """A commit is the last group from now on."""
        change = self.change(op)
        if change == "any":
            return self.all
        if change == "none":
            return state
        return (0, *(older + (change == "kept") for older in state[:-1]))

    def join(self, first: Kept, second: Kept) -> Kept:
        """The path that keeps more."""
        return tuple(map(max, first, second))

    again = join

    def hand(self, targets: Sequence[Value], sources: Sequence[Value], state: Kept) -> Kept:
        """Values change nothing."""
        return state

    def apart(self, op: Operation, state: Kept) -> Kept:
        """What is in flight there is not known."""
        return self.all

    def behind_apart(self, op: Operation, state: Kept) -> Kept:
        """Nor is what may have been committed there."""
        return self.all
