"""C = A B for any sizes: a block makes a tile of C, its threads 8 elements of it each.

    python examples/pipeline_object/object_gemm.py

Tiles of A and B share a slot. What lies outside of A and B becomes zeros, which add nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from judged import dialects, judge, kernel

from mlir_async_pipe import Pipeline, copy_tile
from mlir_async_pipe.bindings import ir

TILE, DEPTH, THREADS = 32, 16, 128
ARGUMENTS = ("memref<?x?xf32>",) * 3


def build() -> Any:
    """The module with the kernel @gemm, for a grid of (columns / 32) x (rows / 32) blocks."""
    d = dialects()
    module, (a, b, c), here = kernel("gemm", ARGUMENTS, THREADS)
    pipe = Pipeline(depth=3)
    pipe.buffer((TILE, DEPTH), "f32")
    pipe.buffer((DEPTH, TILE), "f32")
    with here, ir.Location.unknown():
        index, eight = ir.IndexType.get(), ir.VectorType.get([8], ir.F32Type.get())
        n0, n1, n4, n8, tile, depth = (
            d.arith.constant(index, number) for number in (0, 1, 4, 8, TILE, DEPTH)
        )
        thread = d.gpu.thread_id(d.gpu.Dimension.x)
        row = d.arith.divui(thread, n4)
        column = d.arith.muli(d.arith.remui(thread, n4), n8)
        m = d.arith.muli(d.gpu.block_id(d.gpu.Dimension.y), tile)
        n = d.arith.muli(d.gpu.block_id(d.gpu.Dimension.x), tile)
        start = d.arith.constant(eight, ir.Attribute.parse("dense<0.0> : vector<8xf32>"))

        def copy(k: Any, slots: Any) -> None:
            copy_tile(a, slots[0], at=(m, k), mask="edges")
            copy_tile(b, slots[1], at=(k, n), mask="edges")

        def multiply(k: Any, slots: Any, total: Any) -> Any:
            inner = d.scf.ForOp(n0, depth, n1, [total])
            with ir.InsertionPoint(inner.body):
                at = inner.induction_variable
                left = d.vector.broadcast(eight, d.memref.load(slots[0], [row, at]))
                right = d.vector.load(eight, slots[1], [at, column])
                d.scf.yield_([d.vector.fma(left, right, inner.inner_iter_args[0])])
            return inner.results[0]

        total = pipe.loop(0, d.memref.dim(a, n1), DEPTH, copy, multiply, start)
        row, column = d.arith.addi(m, row), d.arith.addi(n, column)
        inside = d.arith.cmpi(d.arith.CmpIPredicate.ult, row, d.memref.dim(c, n0))
        left = d.arith.select(inside, d.arith.subi(d.memref.dim(c, n1), column), n0)
        mask = d.vector.create_mask(ir.Type.parse("vector<8xi1>"), [left])
        d.vector.maskedstore(c, [row, column], mask, total)
    return module


def main() -> None:
    """Judge it with sizes that no tile divides."""
    random = np.random.default_rng(2)
    a, b = (random.random(shape, dtype=np.float32) for shape in ((40, 50), (50, 37)))
    arrays = [a, b, np.zeros((40, 37), np.float32)]
    print("\n".join(judge(build, "gemm", arrays, a @ b, threads=THREADS, grid=(2, 2, 1))))


if __name__ == "__main__":
    main()
