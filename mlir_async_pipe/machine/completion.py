"""When the data of an async op arrives: the adversary, in three moods.

eager   at the issue
late    at the wait that covers it, the youngest op of a wait first
random  at any moment between the two, ops of all queues in any order, source sampled and
        destination written at separate moments, some lanes before others
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from mlir_async_pipe.machine.fifos import AsyncOp
from mlir_async_pipe.session.diagnostics import UsageError

Array = np.ndarray
COMPLETIONS = ("eager", "late", "random")


class Policy(Protocol):
    """What the queues ask the adversary."""

    poisons: bool

    def issued(self, operation: AsyncOp) -> None:
        """An op has just been issued."""

    def tick(self, pending: list[AsyncOp]) -> None:
        """Time passes."""

    def order(self, finished: list[tuple[AsyncOp, Array]]) -> list[tuple[AsyncOp, Array]]:
        """The order in which one wait lets data arrive."""


class Eager:
    """Data arrives at once."""

    poisons = False

    def issued(self, operation: AsyncOp) -> None:
        """Move everything."""
        operation.move(operation.lanes)

    def tick(self, pending: list[AsyncOp]) -> None:
        """Nothing is left to move."""

    def order(self, finished: list[Any]) -> list[Any]:
        """As issued."""
        return finished


class Late:
    """Data arrives as late as the waits allow."""

    poisons = True

    def issued(self, operation: AsyncOp) -> None:
        """Not yet."""

    def tick(self, pending: list[AsyncOp]) -> None:
        """Not yet."""

    def order(self, finished: list[Any]) -> list[Any]:
        """The youngest first: inside a group no order is promised, and whatever is written
        twice by two groups in flight is reported as a race anyway."""
        return finished[::-1]


class Random:
    """Data arrives at random moments, from a seed."""

    poisons = True

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def issued(self, operation: AsyncOp) -> None:
        """Not yet, or at once."""
        self.tick([operation])

    def tick(self, pending: list[AsyncOp]) -> None:
        """With probability 1/4 one op takes one step, in all its lanes or in some."""
        if self.random.random() >= 0.25:
            return
        operation = pending[int(self.random.integers(len(pending)))]
        chosen = operation.lanes & ~operation.moved
        if self.random.random() < 0.5:
            chosen = chosen & (self.random.random(len(chosen)) < 0.5)
        fresh = chosen & ~operation.sampled
        if fresh.any():
            operation.sample(fresh)
            operation.sampled |= fresh
        elif chosen.any():
            operation.move(chosen)

    def order(self, finished: list[Any]) -> list[Any]:
        """Any order."""
        return [finished[int(i)] for i in self.random.permutation(len(finished))]


def policy_of(completion: str, seed: int) -> Policy:
    """The policy called "eager", "late", "random" or "random:SEED".

    Raises UsageError (bad-completion).
    """
    name, _, given = completion.partition(":")
    if name == "eager" and not given:
        return Eager()
    if name == "late" and not given:
        return Late()
    if name == "random" and (not given or given.isdigit()):
        return Random(int(given) if given else seed)
    raise UsageError(
        f"unknown completion '{completion}'",
        code="bad-completion",
        advice="eager, late, random or random:SEED",
    )
