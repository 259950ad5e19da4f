"""Runs GEMMs of `examples/generate_blackwell_gemm.py` on the machine, and judges them by NumPy."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from helpers.paths import ROOT
from mlir_async_pipe import machine
from mlir_async_pipe.machine.kinds import SMALL_FLOATS

sys.path.insert(0, str(ROOT / "examples"))
from generate_blackwell_gemm import BlackwellGemm

Array = np.ndarray


def stored(gemm: BlackwellGemm, values: Array) -> Array:
    """Whole numbers as an array that the machine takes for elements of the kernel's type."""
    if gemm.left.element in SMALL_FLOATS:
        return SMALL_FLOATS[gemm.left.element].encode(values.astype(np.float32))
    if gemm.types == "bf16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(np.float16 if gemm.types == "f16" else np.float32)


def _operands(
    gemm: BlackwellGemm, k: int, tiles: tuple[int, int], seed: int
) -> tuple[Array, Array]:
    m, n = tiles[0] * gemm.tile_m, tiles[1] * gemm.tile_n
    random = np.random.default_rng(seed)
    # An array has at least one element; nothing is read of it where k is 0.
    depth = max(k, 1)
    a, b = random.integers(-3, 4, (m, depth)), random.integers(-3, 4, (depth, n))
    return (a, b) if k else (0 * a, b)


def arguments_of(
    gemm: BlackwellGemm, k: int, tiles: tuple[int, int] = (1, 1), seed: int = 0
) -> list[Any]:
    """A and B in the kernel's type, C of so many tiles, and k."""
    a, b = _operands(gemm, k, tiles, seed)
    (m, depth), n = a.shape, b.shape[1]
    right = stored(gemm, b)
    if gemm.b == "k":
        right = np.ascontiguousarray(right.T)
    else:
        right = right.reshape(depth, n // gemm.line, gemm.line).transpose(1, 0, 2)
    return [stored(gemm, a), right, np.full((m, n), 7, np.float32), k]


def run_gemm(
    module: Any,
    gemm: BlackwellGemm,
    k: int,
    *,
    tiles: tuple[int, int] = (1, 1),
    grid: Any = None,
    completion: str = "eager",
    schedule: str = "lockstep",
    seed: int = 0,
) -> tuple[bool, Any]:
    """Whether the kernel gives NumPy's result, and what the machine found."""
    given = arguments_of(gemm, k, tiles, seed)
    result = machine.run(
        module,
        None,
        given,
        grid=grid or (tiles[1], tiles[0], 1),
        completion=completion,
        schedule=schedule,
        seed=seed,
    )
    a, b = _operands(gemm, k, tiles, seed)
    expected = (a @ b).astype(np.float32)
    return bool(np.array_equal(result.arrays[2], expected)), result
