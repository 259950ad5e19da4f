"""Attention of 64 queries, one a thread: softmax(Q K^T) V, key by key, as flash attention does it.

    python examples/pipeline_object/object_attention.py

A slot holds 16 keys and their values. Each thread carries the largest score so far, the sum of
2^(score - largest), and that sum with each key's values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from judged import dialects, judge, kernel

from mlir_async_pipe import Pipeline, copy_tile
from mlir_async_pipe.bindings import ir

QUERIES, KEYS, DEPTH = 64, 16, 32
ARGUMENTS = (f"memref<{QUERIES}x{DEPTH}xf32>", *(f"memref<?x{DEPTH}xf32>",) * 2)


def build() -> Any:
    """The module with the kernel @attention, for a multiple of 16 keys."""
    d = dialects()
    module, (q, k, v, result), here = kernel("attention", (*ARGUMENTS, ARGUMENTS[0]), QUERIES)
    pipe = Pipeline(depth=3)
    for _ in ("keys", "values"):
        pipe.buffer((KEYS, DEPTH), "f32")
    with here, ir.Location.unknown():
        index, f32 = ir.IndexType.get(), ir.F32Type.get()
        row = ir.VectorType.get([DEPTH], f32)
        n0, n1, keys = (d.arith.constant(index, number) for number in (0, 1, KEYS))
        thread = d.gpu.thread_id(d.gpu.Dimension.x)
        query = d.vector.load(row, q, [thread, n0])
        lowest, nothing = (d.arith.constant(f32, number) for number in (-1.0e30, 0.0))
        start = (lowest, nothing, d.vector.broadcast(row, nothing))
        add = ir.Attribute.parse("#vector.kind<add>")

        def copy(first: Any, slots: Any) -> None:
            copy_tile(k, slots[0], at=(first, 0), align=16)
            copy_tile(v, slots[1], at=(first, 0), align=16)

        def attend(first: Any, slots: Any, *state: Any) -> Any:
            loop = d.scf.ForOp(n0, keys, n1, list(state))
            with ir.InsertionPoint(loop.body):
                largest, total, mixed = loop.inner_iter_args
                key, value = (d.vector.load(row, s, [loop.induction_variable, n0]) for s in slots)
                score = d.vector.reduction(f32, add, d.arith.mulf(query, key))
                new = d.arith.maximumf(largest, score)
                weight = d.math.exp2(d.arith.subf(score, new))
                scale = d.math.exp2(d.arith.subf(largest, new))
                total = d.arith.addf(d.arith.mulf(total, scale), weight)
                kept = d.arith.mulf(mixed, d.vector.broadcast(row, scale))
                mixed = d.vector.fma(d.vector.broadcast(row, weight), value, kept)
                d.scf.yield_([new, total, mixed])
            return loop.results

        _, total, mixed = pipe.loop(0, d.memref.dim(k, n0), KEYS, copy, attend, start)
        mixed = d.arith.divf(mixed, d.vector.broadcast(row, total))
        d.vector.store(mixed, result, [thread, n0])
    return module


def main() -> None:
    """Judge it with 80 keys."""
    random = np.random.default_rng(4)
    q, k, v = (random.random((rows, DEPTH), dtype=np.float32) for rows in (QUERIES, 80, 80))
    weights = np.exp2(q @ k.T - (q @ k.T).max(1, keepdims=True))
    expected = weights @ v / weights.sum(1, keepdims=True)
    arrays = [q, k, v, np.zeros_like(q)]
    print("\n".join(judge(build, "attention", arrays, expected, threads=QUERIES)))


if __name__ == "__main__":
    main()
