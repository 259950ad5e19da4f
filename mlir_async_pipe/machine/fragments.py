"""Which matrix element each lane holds in each register: the fragment layouts; and how products of matrices are added up.

NVIDIA (PTX ISA, "Matrix Fragments for mma.m16n8k*"), with g = lane / 4, t = lane % 4 and e
elements in a 32-bit register (2 for f16, 4 for i8, 1 for tf32):

    A  register r, element j:  row g + 8 (r & 1)   column t e + j + 4 e (r >> 1)
    B  register r, element j:  row t e + j + 4 e r  column g
    C  register r, element j:  row g + 8 r          column 2 t + j

NVIDIA warpgroup of 128 lanes (PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16"),
with warp = lane / 32:

    D  register 4 b + 2 r + j:  row 16 warp + g + 8 r   column 8 b + 2 t + j

AMD (CDNA3 ISA, matrix fused multiply-add), for an m x n x k product on 64 lanes, with K
elements of A a lane and l = lane:

    A  element j:  row l % m               column (l / m) K + j
    B  element j:  row (l / n) K + j       column l % n
    C  element i:  row 8 (i / 4) + 4 (l / n) + i % 4 for m = 32, 4 (l / n) + i for m = 16
                   column l % n
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mlir_async_pipe.machine.kinds import Kind, cut_tf32
from mlir_async_pipe.machine.terms import as_array

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Fragment:
    """`rows` and `columns` have shape (lanes, elements of a lane, in flat order)."""

    rows: Array
    columns: Array
    shape: tuple[int, int]

    def gather(self, values: Array) -> Array:
        """Matrices from lanes: (warps, lanes, elements) -> (warps, rows, columns)."""
        return values.reshape(len(values), -1)[:, self._source]

    @cached_property
    def _source(self) -> Array:
        """Of each element of the matrix its place in the lanes, one after the other; the last one that holds it."""
        source = np.zeros(self.shape, np.int64)
        source[self.rows, self.columns] = np.arange(self.rows.size).reshape(self.rows.shape)
        return source

    def spread(self, matrices: Array) -> Array:
        """Lanes from matrices: (warps, rows, columns) -> (warps, lanes, elements)."""
        return matrices[:, self.rows, self.columns]


def _fragment(rows: Array, columns: Array, shape: tuple[int, int]) -> Fragment:
    rows, columns = np.broadcast_arrays(rows, columns)
    lanes = rows.shape[0]
    return Fragment(rows.reshape(lanes, -1), columns.reshape(lanes, -1), shape)


def nvidia(m: int, n: int, k: int, element_bits: int) -> tuple[Fragment, Fragment, Fragment]:
    """The fragments of A, B and C of mma.sync; m is 16, or 8 for f64 (m8n8k4)."""
    lane = np.arange(32)[:, None, None]
    g, t = lane // 4, lane % 4
    packed = max(1, 32 // element_bits)
    j = np.arange(packed)
    tall = m // 8
    a = np.arange(m * k // 32 // packed)[:, None]
    b = np.arange(k * n // 32 // packed)[:, None]
    c = np.arange(tall)[:, None]
    wide = 4 * packed
    return (
        _fragment(g + 8 * (a % tall), t * packed + j + wide * (a // tall), (m, k)),
        _fragment(t * packed + j + wide * b, g, (k, n)),
        _fragment(g + 8 * c, 2 * t + np.arange(2), (m, n)),
    )


def warpgroup(m: int, n: int) -> Fragment:
    """The accumulator of wgmma on 128 lanes; m is a multiple of 64, and each 64 rows take
    n / 2 registers of their own, one after the other."""
    lane = np.arange(128)[:, None, None, None, None]
    g, t, warp = lane % 32 // 4, lane % 4, lane // 32
    tile = np.arange(m // 64)[:, None, None, None]
    block = np.arange(n // 8)[:, None, None]
    half = np.arange(2)[:, None]
    return _fragment(64 * tile + 16 * warp + g + 8 * half, 8 * block + 2 * t + np.arange(2), (m, n))


def cdna(m: int, n: int, k: int) -> tuple[Fragment, Fragment, Fragment]:
    """The fragments of A, B and C of mfma with one block, on 64 lanes."""
    lane = np.arange(64)[:, None]
    per_lane_a, per_lane_b, per_lane_c = m * k // 64, k * n // 64, m * n // 64
    i = np.arange(per_lane_c)
    rows = (i // 4) * (4 * (64 // n)) + 4 * (lane // n) + i % 4
    return (
        _fragment(lane % m, (lane // m) * per_lane_a + np.arange(per_lane_a), (m, k)),
        _fragment((lane // n) * per_lane_b + np.arange(per_lane_b), lane % n, (k, n)),
        _fragment(rows, lane % n, (m, n)),
    )


def rdna(generation: int, k: int = 16) -> tuple[Fragment, Fragment, Fragment]:
    """The fragments of wmma 16x16xk on 32 lanes: gfx11 (both halves hold the same A and B,
    rows of C interleaved) or gfx12 (the halves hold 8 elements of k each in turn, rows of C
    in blocks of 8)."""
    lane = np.arange(32)[:, None]
    i = np.arange(8)
    if generation == 11:
        j = np.arange(k)
        depth, rows = j + 0 * lane, 2 * i + lane // 16
    else:
        j = np.arange(k // 2)
        depth = (j // 8) * 16 + (lane // 16) * 8 + j % 8
        rows = 8 * (lane // 16) + i
    return (
        _fragment(lane % 16, depth, (16, k)),
        _fragment(depth, lane % 16, (k, 16)),
        _fragment(rows, lane % 16, (16, 16)),
    )


@dataclass(frozen=True)
class ProductArithmetic:
    """How a product is added up: the kinds of A and B, the type of the sums, the sign of A B, whether integers stay at the
    ends of their range, and what their products are computed in."""

    kinds: tuple[Kind, Kind]
    sums: np.dtype
    sign: int = 1
    saturates: bool = False
    integers: Any = np.int32

    @property
    def exact(self) -> Any:
        """What A B is computed in."""
        if self.sums.kind != "f":
            return self.integers
        return np.float64 if self.sums.itemsize == 8 else np.float32

    @property
    def poison(self) -> Any:
        """What registers hold before the product lands."""
        return np.nan if self.sums.kind == "f" else -1

    def multiply(self, a: Array, b: Array) -> Array:
        """A B with its sign."""
        left, right = (
            (cut_tf32(values) if kind.name == "tf32" else values).astype(self.exact)
            for values, kind in zip((a, b), self.kinds, strict=True)
        )
        product = left @ right
        return as_array(product if self.sign == 1 else self.sign * product)

    def add(self, before: Array, product: Array) -> Array:
        """The sums after a product; integers go around unless they saturate."""
        if self.sums.kind == "f":
            return (before.astype(self.exact) + product).astype(self.sums)
        wide = np.dtype(np.int64) if self.saturates else self.sums
        total = before.astype(wide) + product.astype(wide)
        ends = np.iinfo(self.sums)
        return (np.clip(total, ends.min, ends.max) if self.saturates else total).astype(self.sums)
