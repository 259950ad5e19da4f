"""What roles did to memory, as it is known to those who have waited for it.

a copy that has landed     over for who knows that its phase is
a generic write            over for the async proxy after a fence, for who has waited since
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mlir_async_pipe.checker.phase_faults import NotFollowedError
from mlir_async_pipe.checker.phases.arrivals import Copy
from mlir_async_pipe.checker.phases.touches import Touch, unwaited
from mlir_async_pipe.checker.phases.warp_clocks import Event, Told


class Landed(NamedTuple):
    """A copy that is over for who knows that this phase of the mbarrier `column` is."""

    copy: Copy
    column: int
    phase: int


class Fenced(NamedTuple):
    """A generic write, `done` at last by a fence for the async proxy, if it is `fenced`."""

    touch: Touch
    fenced: bool
    done: Event


def check_waited(landed: Iterable[Landed], there: Sequence[Told]) -> None:
    """Somebody of those who are there knows that copies are over."""
    for one in landed:
        if all(known.before[one.column] <= one.phase for known in there):
            raise unwaited(one.copy)


def threads_of(touch: Touch) -> int:
    """The threads that touch it. Raises NotFollowedError where they are not known."""
    if touch.by is None:
        raise NotFollowedError("unknown-threads")
    return touch.by
