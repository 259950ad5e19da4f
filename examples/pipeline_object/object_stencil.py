"""Row by row, above + left + right + below - 4 * here: a row is loaded once, and carried twice.

    python examples/pipeline_object/object_stencil.py

Rows end where they begin. There is nothing above the first row and below the last one: the loop
goes one row too far, and what is copied from there is zeros.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from judged import dialects, judge, kernel

from mlir_async_pipe import Pipeline, copy_tile
from mlir_async_pipe.bindings import ir

WIDTH = 128
ARGUMENTS = (f"memref<?x{WIDTH}xf32>",) * 2


def build() -> Any:
    """The module with the kernel @stencil."""
    d = dialects()
    module, (a, result), here = kernel("stencil", ARGUMENTS, WIDTH)
    pipe = Pipeline(depth=3)
    pipe.buffer((1, WIDTH), "f32")
    with here, ir.Location.unknown():
        index = ir.IndexType.get()
        zero, one, end = (d.arith.constant(index, number) for number in (0, 1, WIDTH))
        nothing, four = (d.arith.constant(ir.F32Type.get(), number) for number in (0.0, 4.0))
        thread = d.gpu.thread_id(d.gpu.Dimension.x)
        right = d.arith.remui(d.arith.addi(thread, one), end)
        left = d.arith.remui(d.arith.addi(thread, d.arith.subi(end, one)), end)
        rows = d.memref.dim(a, zero)

        def copy(row: Any, slot: Any) -> None:
            copy_tile(a, slot, at=(row, 0), mask="edges", align=16)

        def step(row: Any, slot: Any, above: Any, unfinished: Any) -> tuple[Any, Any]:
            """Finish the row above, which lacks this one; begin this one."""
            at = d.memref.load(slot, [zero, thread])
            done = d.scf.IfOp(d.arith.cmpi(d.arith.CmpIPredicate.ugt, row, zero))
            with ir.InsertionPoint(done.then_block):
                value = d.arith.addf(unfinished, at)
                d.memref.store(value, result, [d.arith.subi(row, one), thread])
                d.scf.yield_([])
            beside = [d.memref.load(slot, [zero, column]) for column in (left, right)]
            total = d.arith.addf(above, d.arith.addf(*beside))
            return at, d.arith.subf(total, d.arith.mulf(at, four))

        pipe.loop(0, d.arith.addi(rows, one), 1, copy, step, (nothing, nothing))
    return module


def main() -> None:
    """Judge it with nine rows."""
    a = np.random.default_rng(3).random((9, WIDTH), dtype=np.float32)
    padded = np.pad(a, ((1, 1), (0, 0)))
    expected = padded[:-2] + padded[2:] + np.roll(a, 1, 1) + np.roll(a, -1, 1) - 4 * a
    print("\n".join(judge(build, "stencil", [a, np.zeros_like(a)], expected, threads=WIDTH)))


if __name__ == "__main__":
    main()
