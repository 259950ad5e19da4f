"""Min-plus (tropical) algebra: the shortest-path semiring in which counts are made.

    (A ⊗ B)[i, j] = min over k of A[i, k] + B[k, j]        one loop iteration after another
    (A ⊕ B)[i, j] = min(A[i, j], B[i, j])                  one branch or the other
    A^n                                                    n iterations, by repeated squaring
    A* = I ⊕ A ⊕ A² ⊕ …                                    any number of iterations

Entry [i, j] of a loop body's matrix is the least number of groups committed while the token
in slot i at the start of an iteration moves to slot j at its end. No entry is negative, so
A* is reached after at most n - 1 products for n slots: A* = (I ⊕ A)^(n-1).

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


def identity(size: int) -> Matrix:
    """The one of the semiring: 0 on the diagonal, `NEVER` elsewhere. Shape (size, size)."""
    result = np.full((size, size), NEVER, dtype=np.int64)
    np.fill_diagonal(result, 0)
    return result


def add(left: Matrix, right: Matrix) -> Matrix:
    """Elementwise minimum (either path may be taken); shapes are equal."""
    return np.minimum(left, right)


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


def power(matrix: Matrix, exponent: int) -> Matrix:
    """`matrix` to the `exponent`-th power (exponent >= 0), exact, in O(log exponent) products."""
    result = identity(matrix.shape[0])
    base = matrix
    while exponent:
        if exponent & 1:
            result = multiply(result, base)
        exponent >>= 1
        if exponent:
            base = multiply(base, base)
    return result


def star(matrix: Matrix) -> Matrix:
    """The Kleene star: the cheapest of any number of iterations, zero included."""
    size = matrix.shape[0]
    result = add(identity(size), matrix)
    steps = 1
    while steps < size - 1:
        result = multiply(result, result)
        steps *= 2
    return result
