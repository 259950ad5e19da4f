"""Numbers that threads of a block do not share: one for each of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from mlir_async_pipe.checker.forms import Form


@dataclass(frozen=True)
class EachThread:
    """A number for each thread of the block."""

    data: bytes

    @property
    def numbers(self) -> np.ndarray:
        return np.frombuffer(self.data, np.int64)

    @property
    def mask(self) -> int:
        """The threads in which a bit holds."""
        return sum(1 << int(number) for number in self.numbers.nonzero()[0])

    def split(self, mask: int) -> list[int]:
        """Some threads by their number."""
        found: dict[int, int] = {}
        for thread in threads_of(mask):
            number = int(self.numbers[thread])
            found[number] = found.get(number, 0) | 1 << thread
        return list(found.values())


@lru_cache(maxsize=64)
def threads_of(mask: int) -> tuple[int, ...]:
    return tuple(number for number in range(mask.bit_length()) if mask >> number & 1)


@lru_cache(maxsize=1 << 10)
def among(value: EachThread, mask: int) -> int | EachThread:
    """The numbers of some threads: one, if it is the same; what others have does not count."""
    chosen = list(threads_of(mask))
    numbers = np.full(len(value.numbers), value.numbers[chosen[0]])
    numbers[chosen] = value.numbers[chosen]
    return of_array(numbers)


Amount = int | Form | EachThread | None
"""A number, a sum of unknowns, one number for each thread; None is one of which nothing is known."""


def of_array(numbers: Any) -> int | EachThread:
    """One number if all are the same."""
    array = np.asarray(numbers).astype(np.int64)
    flat = array.reshape(-1)
    if (flat == flat[0]).all():
        return int(flat[0])
    return EachThread(np.ascontiguousarray(flat).tobytes())


def gathered(parts: list[tuple[int, Any]], whole: int) -> Any:
    """What each thread has, where threads of some masks have one value each."""
    first = parts[0][1]
    if all(value == first for _, value in parts):
        return first
    if not all(isinstance(value, int | EachThread) for _, value in parts):
        return None
    numbers = np.zeros(whole.bit_length(), np.int64)
    for mask, value in parts:
        for thread in threads_of(mask):
            numbers[thread] = value if isinstance(value, int) else value.numbers[thread]
    return of_array(numbers)


def chosen(condition: Amount, one: Any, other: Any) -> Amount:
    """What each thread has of two values, by a bit."""
    if one == other or not isinstance(condition, EachThread):
        return one if one == other else None
    if not isinstance(one, int | EachThread) or not isinstance(other, int | EachThread):
        return None
    a, b = (v.numbers if isinstance(v, EachThread) else v for v in (one, other))
    return of_array(np.where(condition.numbers != 0, a, b))
