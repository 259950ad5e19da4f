"""Random loops of products in tensor memory give NumPy's result when pipelined, in every completion:
types, swizzles, orders, slots, products in flight, trip counts from 0 to three rings, tile after tile. The
checker proves them.

Covers: pipeliner/expand/write/write_ring.py, facts/loops/transactions.py
"""

from __future__ import annotations

import os
import random

import pytest

from helpers.machine_programs import parse
from helpers.tensor_memory_kernels import BlackwellGemm, run_gemm
from mlir_async_pipe import pipeline

NIGHTLY = os.environ.get("ASYNC_PIPE_NIGHTLY") == "1"
FIRST = int(os.environ.get("ASYNC_PIPE_SEED", "0")) % 10**6 * 1000
# The first has five slots, three of them in flight, in a persistent nest: the most steps of all that were drawn.
SEEDS = [261126084, *range(FIRST, FIRST + (300 if NIGHTLY else 30))]
MOODS = [("eager", "backward"), ("late", "forward"), ("random", "random")]


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_loop_is_right_when_it_is_pipelined(seed):
    draw = random.Random(seed)
    types, b = draw.choice(
        [("f16", "k"), ("bf16", "n"), ("tf32", "k"), ("e4m3", "k"), ("e5m2", "k")]
    )
    gemm = BlackwellGemm(
        tile_n=64 if b == "n" else 32,
        types=types,
        b=b,
        stages=draw.randint(2, 4),
        in_flight=draw.randint(0, 3),
        persistent=draw.random() < 0.4,
        swizzle=draw.choice([32, 64, 128]),
    )
    issue = draw.choice(["auto", "first", "last"])
    module = parse(
        gemm.module().replace("async_pipe.num", f'async_pipe.issue = "{issue}", async_pipe.num')
    )
    report = pipeline(module, check="warn")
    assert [(found.unsafe, found.unknown) for found in report.of("checks")] == [(0, 0)]
    (record,) = report.of("loops")
    slots = record.buffers[0].versions
    for completion, schedule in MOODS:
        trips = draw.choice([0, 1, slots, draw.randint(0, 3 * slots)])
        k = max(0, trips * gemm.line - draw.choice([0, 24]))
        tiles = (draw.randint(1, 3), 1) if gemm.persistent else (1, 1)
        right, result = run_gemm(
            module,
            gemm,
            k,
            tiles=tiles,
            grid=1 if gemm.persistent else None,
            completion=completion,
            schedule=schedule,
            seed=seed,
        )
        assert right, (gemm, issue, k, completion)
        assert result.races == ()
