"""What a witness says, step by step from the wait back to the commit.

Waits in one frame share what lies outside it: a `Mark` remembers where a trail came to the
start of a frame, and `since` cuts off the rest for the next wait that comes there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.session.diagnostics import Place
from mlir_async_pipe.waits.reasons import REASONS
from mlir_async_pipe.waits.records import WitnessStep

# A witness of a real kernel has 3 to 10 steps; longer ones are cut between wait and origin.
MOST_STEPS = 24

Places = dict[int, tuple[Any, Place]]
"""The places of ops, by the ids of their handles."""


@dataclass(frozen=True)
class Mark:
    """A length of a trail: what had been said and left out when it came here."""

    steps: int
    reasons: int
    left_out: int
    groups_left_out: int


@dataclass(frozen=True)
class Piece:
    """A part of a trail."""

    steps: tuple[WitnessStep, ...]
    reasons: tuple[str, ...]
    left_out: int
    groups_left_out: int


class Trail:
    """The steps said so far, the youngest first. `places` caches the places of ops."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._steps: list[WitnessStep] = []
        self._reasons: list[str] = []
        self._left_out = 0
        self._groups_left_out = 0

    @property
    def is_full(self) -> bool:
        """Whether further steps are only counted."""
        return len(self._steps) >= MOST_STEPS

    def say(self, what: str, op: Any, reason: str | None = None, groups: int = 0) -> None:
        """One step; `reason` if it keeps the count low, `groups` that it commits."""
        if reason is not None:
            self._reasons.append(reason)
        if self.is_full:
            self.leave_out(1, groups)
        else:
            self._steps.append(WitnessStep(what, self._place(op), groups))

    def origin(self, what: str, op: Any, reason: str | None = None) -> None:
        """The last step, which is never left out."""
        if reason is not None:
            self._reasons.append(reason)
        self._steps.append(WitnessStep(what, self._place(op)))

    def leave_out(self, steps: int, groups: int) -> None:
        """Steps that are counted only."""
        self._left_out += steps
        self._groups_left_out += groups

    def note(self, reason: str) -> None:
        """A reason that belongs to no step."""
        self._reasons.append(reason)

    def mark(self) -> Mark:
        """Here, to cut the trail later."""
        return Mark(len(self._steps), len(self._reasons), self._left_out, self._groups_left_out)

    def since(self, mark: Mark) -> Piece:
        """What has been said since a mark."""
        return Piece(
            tuple(self._steps[mark.steps :]),
            tuple(self._reasons[mark.reasons :]),
            self._left_out - mark.left_out,
            self._groups_left_out - mark.groups_left_out,
        )

    def join(self, piece: Piece) -> None:
        """Go on as another trail did."""
        self._steps += piece.steps
        self._reasons += piece.reasons
        self.leave_out(piece.left_out, piece.groups_left_out)

    @property
    def reason(self) -> str:
        """The code that explains most."""
        return next((code for code in REASONS if code in self._reasons), "exact")

    def steps(self) -> tuple[WitnessStep, ...]:
        """All steps in the order in which they run."""
        steps = self._steps
        if self._left_out:
            cut = WitnessStep(f"{self._left_out} more steps", Place(), self._groups_left_out)
            steps = [*steps[:-1], cut, steps[-1]]
        return tuple(reversed(steps))

    def _place(self, op: Any) -> Place:
        # Hashing an op costs more than finding its place; one that is kept keeps its id.
        found = self._places.get(id(op))
        if found is None:
            found = self._places[id(op)] = (op, Place.of(op))
        return found[1]
