"""Numbers that threads of a block do not share: one for each of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlir_async_pipe.checker.forms import Form
from mlir_async_pipe.session.light_dataclass import dataclass


@dataclass(frozen=True)
class EachThread:
    """A number for each thread of the block."""

    data: bytes

    @property
    def numbers(self) -> np.ndarray:
        """The numbers."""
        return np.frombuffer(self.data, np.int64)

    @property
    def mask(self) -> int:
        """The threads in which a bit holds."""
        return sum(1 << int(number) for number in self.numbers.nonzero()[0])


Amount = int | Form | EachThread | None
"""A number, a sum of unknowns, one number for each thread; None is one of which nothing is known."""


def of_array(numbers: Any) -> int | EachThread:
    """One number if all are the same."""
    array = np.asarray(numbers).astype(np.int64)
    flat = array.reshape(-1)
    if (flat == flat[0]).all():
        return int(flat[0])
    return EachThread(np.ascontiguousarray(flat).tobytes())


def chosen(condition: Amount, one: Any, other: Any) -> Amount:
    """What each thread has of two values, by a bit."""
    if one == other or not isinstance(condition, EachThread):
        return one if one == other else None
    if not isinstance(one, int | EachThread) or not isinstance(other, int | EachThread):
        return None
    a, b = (v.numbers if isinstance(v, EachThread) else v for v in (one, other))
    return of_array(np.where(condition.numbers != 0, a, b))
