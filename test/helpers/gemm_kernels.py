"""Makes GEMMs with the generator of the examples folder, and runs them on the CPU."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np

from helpers.paths import ROOT
from mlir_async_pipe import machine
from mlir_async_pipe.machine.run_kernel import RunResult

EXAMPLES = ROOT / "examples"


def gemm_text(*options: str) -> str:
    """What the generator prints for these options."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "generate_gemm.py"), *options],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def operands(shape: tuple[int, int, int], types: str) -> tuple[list[Any], np.ndarray]:
    """Arguments A, B, C for M, N, K, and the product; small integers, so that it is exact.

    bf16 operands are arrays of bit patterns, as the machine takes them.
    """
    m, n, k = shape
    random = np.random.default_rng(m * n + k)
    a, b = (random.integers(-4, 5, size).astype(np.float32) for size in ((m, k), (n, k)))
    product = a @ b.T
    if types == "bf16":
        packed = [(x.view(np.uint32) >> 16).astype(np.uint16) for x in (a, b)]
    else:
        kind = {"f16": np.float16, "tf32": np.float32, "s8": np.int8}[types]
        packed = [x.astype(kind) for x in (a, b)]
    accumulator = np.int32 if types == "s8" else np.float32
    return [*packed, np.full((m, n), -7, accumulator)], product


def run_gemm(
    module: Any,
    shape: tuple[int, int, int],
    grid: tuple[int, int] = (1, 1),
    *,
    types: str = "f16",
    completion: str = "late",
    threads: int = 128,
) -> tuple[RunResult, bool]:
    """Run the kernel @gemm; returns the run, and whether C is the product."""
    arguments, product = operands(shape, types)
    result = machine.run(
        module, "gemm", arguments, threads=threads, grid=grid, completion=completion
    )
    found = result.arrays[2]
    assert found is not None
    return result, bool(np.array_equal(found.astype(np.float64), product))
