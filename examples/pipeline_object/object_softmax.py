"""The softmax (to base 2) of the rows of an array, a row a thread: statistics, then results.

    python examples/pipeline_object/object_softmax.py

Two loops over the same tiles, one after the other, by one pipeline: the largest element and the sum
of 2^(x - largest) so far are carried, then each element is written as 2^(x - largest) / sum.
`softmax_by_hand.py` is the same without `Pipeline`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from judged import dialects, judge, kernel

from mlir_async_pipe import Pipeline, copy_tile
from mlir_async_pipe.bindings import ir

ROWS, TILE = 64, 32
ARGUMENTS = (f"memref<{ROWS}x?xf32>",) * 2


def build() -> Any:
    """The module with the kernel @softmax, for a multiple of 32 columns."""
    d = dialects()
    module, (x, y), here = kernel("softmax", ARGUMENTS, ROWS)
    pipe = Pipeline(depth=3)
    pipe.buffer((ROWS, TILE), "f32")
    with here, ir.Location.unknown():
        index, f32 = ir.IndexType.get(), ir.F32Type.get()
        n0, n1, tile = (d.arith.constant(index, number) for number in (0, 1, TILE))
        row, columns = d.gpu.thread_id(d.gpu.Dimension.x), d.memref.dim(x, n1)

        def copy(first: Any, slot: Any) -> None:
            copy_tile(x, slot, at=(0, first), align=16)

        def statistics(first: Any, slot: Any, largest: Any, total: Any) -> Any:
            loop = d.scf.ForOp(n0, tile, n1, [largest, total])
            with ir.InsertionPoint(loop.body):
                largest, total = loop.inner_iter_args
                value = d.memref.load(slot, [row, loop.induction_variable])
                new = d.arith.maximumf(largest, value)
                kept = d.arith.mulf(total, d.math.exp2(d.arith.subf(largest, new)))
                d.scf.yield_([new, d.arith.addf(kept, d.math.exp2(d.arith.subf(value, new)))])
            return loop.results

        def write(first: Any, slot: Any) -> None:
            loop = d.scf.ForOp(n0, tile, n1)
            with ir.InsertionPoint(loop.body):
                value = d.memref.load(slot, [row, loop.induction_variable])
                value = d.arith.divf(d.math.exp2(d.arith.subf(value, largest)), total)
                column = d.arith.addi(first, loop.induction_variable)
                d.memref.store(value, y, [row, column])
                d.scf.yield_([])

        start = [d.arith.constant(f32, number) for number in (-1.0e30, 0.0)]
        largest, total = pipe.loop(0, columns, TILE, copy, statistics, start)
        pipe.loop(0, columns, TILE, copy, write)
    return module


def softmax(x: Any) -> Any:
    """What NumPy gives."""
    powers = np.exp2(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def main() -> None:
    """Judge it with 160 columns."""
    x = np.random.default_rng(5).random((ROWS, 160), dtype=np.float32)
    print("\n".join(judge(build, "softmax", [x, np.zeros_like(x)], softmax(x), threads=ROWS)))


if __name__ == "__main__":
    main()
