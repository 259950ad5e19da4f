"""What effects and values of ops look at, at one point of a path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mlir_async_pipe.checker.forms import Form
from mlir_async_pipe.checker.phase_faults import NotFollowedError
from mlir_async_pipe.checker.phases.async_memory import AsyncMemory
from mlir_async_pipe.checker.phases.byte_places import Place, Value
from mlir_async_pipe.checker.phases.ranges_of_sums import Knowledge
from mlir_async_pipe.checker.phases.thread_numbers import EachThread, among


class ThreadsDifferError(Exception):
    """Threads that run an op together have different numbers where one is needed."""

    def __init__(self, value: EachThread) -> None:
        super().__init__()
        self.value = value


@dataclass
class Spot:
    """A point of a path: the memory there, what its numbers are, and the threads that are there
    (None: not known which)."""

    memory: AsyncMemory
    known: Knowledge
    mask: int | None
    get: Callable[[int], Value]
    # The phase of a numbered barrier that the threads have arrived in, and wait for.
    meeting: tuple[int, int] | None = None

    def threads(self) -> int:
        if self.mask is None:
            raise NotFollowedError("unknown-threads")
        return self.mask

    def where(self, value: Value) -> int:
        """The threads in which a bit holds."""
        mask = self.threads()
        if isinstance(value, Form):
            return mask if self.known.at_least_one(value) else 0
        if isinstance(value, EachThread):
            return mask & value.mask
        if value is None:
            raise NotFollowedError("unknown-threads")
        assert isinstance(value, int)
        return mask if value & 1 else 0

    def exact(self, number: int) -> int:
        """A number that all threads know."""
        value = self.get(number)
        if not isinstance(value, int):
            raise self._unknown(value)
        return value

    def _unknown(self, value: Value) -> Exception:
        """Threads that have different numbers may be roles of their own."""
        if isinstance(value, EachThread):
            return ThreadsDifferError(value)
        return NotFollowedError("unknown-number")

    def mine(self, number: int) -> Value:
        """A number as the threads that are there have it."""
        value = self.get(number)
        return among(value, self.mask) if isinstance(value, EachThread) and self.mask else value

    def parity(self, number: int) -> int:
        """The lowest bit of a number."""
        value = self.get(number)
        if isinstance(value, int):
            return value & 1
        if isinstance(value, Form):
            residue = self.known.residue(value, 2)
            if residue is not None:
                return residue
            if len(value.terms) == 1 and next(iter(value.terms))[0].kind == "bit":
                return int(self.known.at_least_one(value))
        raise self._unknown(value)

    def place(self, number: int) -> Place:
        """Where a view or pointer leads."""
        place = self.get(number)
        if not isinstance(place, Place):
            raise NotFollowedError("unknown-place")
        return place
