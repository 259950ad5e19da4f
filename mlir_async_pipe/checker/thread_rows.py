"""Positions of threads as rows of numbers: (thread, start in each dimension), each once.

rows of both ends      (0, 16, 4), (1, 16, 8), …
by position            (16, 4) from thread 0 to 0, (16, 8) from 1 to 1
"""

from __future__ import annotations

from math import prod

import numpy as np

LARGEST_NUMBER = 1 << 62


def may_differ(
    low_a: np.ndarray, high_a: np.ndarray, low_b: np.ndarray, high_b: np.ndarray
) -> np.ndarray:
    """Where one of the threads low_a … high_a and one of low_b … high_b are two threads."""
    found: np.ndarray = ~((low_a == high_a) & (low_b == high_b) & (low_a == low_b))
    return found


def sure_to_differ(
    low_a: np.ndarray, high_a: np.ndarray, low_b: np.ndarray, high_b: np.ndarray, surely: int
) -> np.ndarray:
    """The same for threads that exist in this very block: the lowest that differ are there."""
    found: np.ndarray = (
        may_differ(low_a, high_a, low_b, high_b)
        & (np.maximum(low_a, low_b) < surely)
        & ((low_a != low_b) | (np.minimum(high_a, high_b) < surely))
    )
    return found


def equal_rows(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of the rows of `a`, each row once, that are rows of `b` too, and of those."""
    _, inverse = rows_once(np.concatenate([a, b]))
    _, in_a, in_b = np.intersect1d(inverse[: len(a)], inverse[len(a) :], return_indices=True)
    return in_a, in_b


def by_position(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows with equal positions merged: with the lowest and the highest thread of each."""
    boxes, inverse = rows_once(rows[:, 1:])
    least = np.full(len(boxes), np.iinfo(np.int64).max)
    most = np.full(len(boxes), -1)
    np.minimum.at(least, inverse, rows[:, 0])
    np.maximum.at(most, inverse, rows[:, 0])
    return np.concatenate([np.zeros((len(boxes), 1), np.int64), boxes], axis=1), least, most


def rows_once(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sorted rows, each once, and where each row went. Rows of few numbers are compared as one
    number of that many digits, which is five times faster."""
    if rows.size:
        low = rows.min(axis=0)
        spans = [
            int(last) - int(first) + 1 for first, last in zip(low, rows.max(axis=0), strict=True)
        ]
        if prod(spans) < LARGEST_NUMBER:
            digits = np.array([prod(spans[d + 1 :]) for d in range(len(spans))])
            numbers, inverse = np.unique((rows - low) @ digits, return_inverse=True)
            return numbers[:, None] // digits % np.array(spans) + low, inverse.reshape(-1)
    once, inverse = np.unique(rows, axis=0, return_inverse=True)
    return once, inverse.reshape(-1)
