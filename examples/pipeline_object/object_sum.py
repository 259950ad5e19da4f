"""Adds the rows of an array: the next row is copied while this one is added. CubeCL's example.

    python examples/pipeline_object/object_sum.py

Two slots, written by hand: produce, then consume what was produced one row earlier. Whose slot it
is, how many copies may stay in flight and where barriers stand is nobody's business here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from judged import dialects, judge, kernel

from mlir_async_pipe import Pipeline, copy_tile
from mlir_async_pipe.bindings import ir

THREADS, ROW = 128, 512
ARGUMENTS = (f"memref<?x{ROW}xf32>", f"memref<{ROW}xf32>")


def build() -> Any:
    """The module with the kernel @sum, for one row or more."""
    d = dialects()
    module, (rows, total), here = kernel("sum", ARGUMENTS, THREADS)
    pipe = Pipeline(depth=2)
    pipe.buffer(ROW, "f32")
    with here, ir.Location.unknown():
        index, four = ir.IndexType.get(), ir.VectorType.get([4], ir.F32Type.get())
        zero, one = (d.arith.constant(index, number) for number in (0, 1))
        # Each thread adds what another one copied.
        last = d.arith.constant(index, ROW - 4)
        mine = d.arith.subi(
            last, d.arith.muli(d.gpu.thread_id(d.gpu.Dimension.x), d.arith.constant(index, 4))
        )
        start = d.arith.constant(four, ir.Attribute.parse("dense<0.0> : vector<4xf32>"))

        def copy(row: Any) -> None:
            with pipe.produce() as slot:
                copy_tile(rows, slot, at=(row, 0), align=16)

        def add(total: Any) -> Any:
            with pipe.consume() as slot:
                return d.arith.addf(total, d.vector.load(four, slot, [mine]))

        copy(zero)
        loop = d.scf.ForOp(one, d.memref.dim(rows, zero), one, [start])
        with ir.InsertionPoint(loop.body):
            copy(loop.induction_variable)
            d.scf.yield_([add(loop.inner_iter_args[0])])
        d.vector.store(add(loop.results[0]), total, [mine])
    return module


def main() -> None:
    """Judge it with seven rows."""
    rows = np.random.default_rng(1).random((7, ROW), dtype=np.float32)
    arrays = [rows, np.zeros(ROW, np.float32)]
    print("\n".join(judge(build, "sum", arrays, rows.sum(0), threads=THREADS)))


if __name__ == "__main__":
    main()
