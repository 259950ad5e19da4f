"""What effects and values of ops look at, at one point of a path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mlir_async_pipe.checker.forms import Form
from mlir_async_pipe.checker.phase_faults import NotFollowedError
from mlir_async_pipe.checker.phases.async_memory import AsyncMemory
from mlir_async_pipe.checker.phases.byte_places import Value
from mlir_async_pipe.checker.phases.ranges_of_sums import Knowledge
from mlir_async_pipe.checker.phases.thread_numbers import EachThread


@dataclass
class Spot:
    """A point of a path: the memory there, what its numbers are, and the threads that are there
    (None: not known which)."""

    memory: AsyncMemory
    known: Knowledge
    mask: int | None
    get: Callable[[int], Value]

    def threads(self) -> int:
        """The threads that are there."""
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
