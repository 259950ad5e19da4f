"""The softmax of `object_softmax.py` from the bindings alone: buffers, copies, groups, waits, barriers.

    python examples/pipeline_object/softmax_by_hand.py

What `Pipeline` does there is written out here: where the buffer stands, which thread copies what, the
group and its wait, and the barriers. Stages and counts are still found, from annotations.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from judged import dialects, judge, kernel
from object_softmax import ARGUMENTS, ROWS, TILE, softmax

import mlir_async_pipe
from mlir_async_pipe.bindings import ir, load

CHUNK = 4


def build() -> Any:
    """The module with the kernel @softmax, for a multiple of 32 columns."""
    d, nvgpu = dialects(), load("dialects.nvgpu")
    module, (x, y), here = kernel("softmax", ARGUMENTS, ROWS)
    with here, ir.Location.unknown():
        index, f32 = ir.IndexType.get(), ir.F32Type.get()
        space = ir.Attribute.parse("#gpu.address_space<workgroup>")
        shared = ir.MemRefType.get([ROWS, TILE], f32, memory_space=space)
        buffer = d.memref.alloc(shared, [], [], alignment=16)
        n0, n1, tile, chunk, in_row, step = (
            d.arith.constant(index, number)
            for number in (0, 1, TILE, CHUNK, TILE // CHUNK, ROWS * CHUNK // TILE)
        )
        row, columns = d.gpu.thread_id(d.gpu.Dimension.x), d.memref.dim(x, n1)
        copy_row = d.arith.divui(row, in_row)
        copy_column = d.arith.muli(d.arith.remui(row, in_row), chunk)

        def copy(first: Any) -> None:
            column = d.arith.addi(first, copy_column)
            to, tokens = copy_row, []
            for _ in range(TILE // CHUNK):
                at = [to, column]
                tokens.append(nvgpu.device_async_copy(buffer, [to, copy_column], x, at, CHUNK))
                to = d.arith.addi(to, step)
            nvgpu.device_async_wait(nvgpu.device_async_create_group(tokens))
            d.gpu.barrier()

        def element(inner: Any) -> Any:
            return d.memref.load(buffer, [row, inner.induction_variable])

        start = [d.arith.constant(f32, number) for number in (-1.0e30, 0.0)]
        first_loop = d.scf.ForOp(n0, columns, tile, start)
        with ir.InsertionPoint(first_loop.body):
            copy(first_loop.induction_variable)
            inner = d.scf.ForOp(n0, tile, n1, list(first_loop.inner_iter_args))
            with ir.InsertionPoint(inner.body):
                largest, total = inner.inner_iter_args
                value = element(inner)
                new = d.arith.maximumf(largest, value)
                kept = d.arith.mulf(total, d.math.exp2(d.arith.subf(largest, new)))
                d.scf.yield_([new, d.arith.addf(kept, d.math.exp2(d.arith.subf(value, new)))])
            d.gpu.barrier()
            d.scf.yield_(list(inner.results))
        largest, total = first_loop.results
        second_loop = d.scf.ForOp(n0, columns, tile)
        with ir.InsertionPoint(second_loop.body):
            copy(second_loop.induction_variable)
            inner = d.scf.ForOp(n0, tile, n1)
            with ir.InsertionPoint(inner.body):
                value = d.math.exp2(d.arith.subf(element(inner), largest))
                column = d.arith.addi(second_loop.induction_variable, inner.induction_variable)
                d.memref.store(d.arith.divf(value, total), y, [row, column])
                d.scf.yield_([])
            d.gpu.barrier()
            d.scf.yield_([])
        for loop in (first_loop, second_loop):
            mlir_async_pipe.annotate(loop, num_stages=3)
    return module


def main() -> None:
    """Judge it with 160 columns."""
    x = np.random.default_rng(5).random((ROWS, 160), dtype=np.float32)
    print("\n".join(judge(build, "softmax", [x, np.zeros_like(x)], softmax(x), threads=ROWS)))


if __name__ == "__main__":
    main()
