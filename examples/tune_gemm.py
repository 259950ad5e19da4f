"""Tile sizes, stages and order of copies of the GEMM, tried beside each other.

    async-pipe-tune examples/tune_gemm.py --target=nvvm:sm_80 \\
        --space tile_m=64,128 tile_n=64,128 tile_k=32,64 num_stages=2,3,4 issue=first,spread

`build` makes the kernel, `inputs` one tile's matrices for the machine, and `work` says how much that
is (docs/tuning.md).
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from generate_gemm import Gemm

# Iterations of the k loop on the machine: more than any prologue has.
ITERATIONS = 8


def build(tile_m: int = 128, tile_n: int = 128, tile_k: int = 32) -> str:
    """The annotated GEMM. Raises ValueError for tiles that it cannot have."""
    gemm = Gemm(tile_m=tile_m, tile_n=tile_n, tile_k=tile_k)
    problems = gemm.problems()
    if problems:
        raise ValueError("; ".join(problems))
    return gemm.module()


def inputs(tile_m: int = 128, tile_n: int = 128, tile_k: int = 32) -> list[np.ndarray]:
    """A, B (a column of C a row) and C of one tile."""
    numbers = np.random.default_rng(0)
    k = ITERATIONS * tile_k
    a, b = (numbers.standard_normal((rows, k)).astype(np.float16) for rows in (tile_m, tile_n))
    return [a, b, np.zeros((tile_m, tile_n), np.float32)]


def work(tile_m: int = 128, tile_n: int = 128, tile_k: int = 32) -> float:
    """Products of numbers that a block makes of those inputs."""
    return tile_m * tile_n * tile_k * ITERATIONS
