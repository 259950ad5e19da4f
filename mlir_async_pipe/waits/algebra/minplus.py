"""Min-plus (tropical) algebra: the shortest-path semiring in which counts are made.

    (A ⊗ B)[i, j] = min over k of A[i, k] + B[k, j]        one loop iteration after another
    v ⊗ A^n                                                n iterations, by repeated squaring

Entry [i, j] of a loop body's matrix is the least number of groups committed while the token
in slot i at the start of an iteration moves to slot j at its end. What stays sparse is moved by
`carried` without matrices: one iteration, shift registers, and any number of iterations.

Arrays are int64. `NEVER` stands for "there is no such path" (the zero of the semiring); sums
saturate at `CEILING`, far above any count that an instruction can hold.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Matrix = Any

NEVER = 1 << 61
CEILING = 1 << 59

# Rows of a product are made in slices so that no temporary exceeds about 32 MB.
_TEMPORARY_ELEMENTS = 1 << 22


def multiply(left: Matrix, right: Matrix) -> Matrix:
    """Min-plus product of shapes (m, k) and (k, n): one path after the other."""
    m, k = left.shape
    n = right.shape[1]
    result = np.full((m, n), NEVER, dtype=np.int64)
    if k == 0:
        return result
    step = max(1, _TEMPORARY_ELEMENTS // max(1, k * n))
    for start in range(0, m, step):
        rows = left[start : start + step]
        result[start : start + step] = (rows[:, :, None] + right[None, :, :]).min(axis=1)
    return _saturate(result)


def _saturate(values: Matrix) -> Matrix:
    # The sum of two finite entries is at most 2^60; anything above contains a NEVER.
    never = values > (CEILING << 1)
    return np.where(never, NEVER, np.minimum(values, CEILING))


def apply(row: Matrix, matrix: Matrix, times: int) -> Matrix:
    """row ⊗ matrix^times (times >= 0), exact, in O(log times) products; shapes (m, n), (n, n)."""
    while times:
        if times & 1:
            row = multiply(row, matrix)
        times >>= 1
        if times:
            matrix = multiply(matrix, matrix)
    return row
