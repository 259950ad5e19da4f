"""Sums an array batch by batch: the next batch is copied while the current one is added.

    python examples/pipelined_sum.py        prints the counted kernel, and runs it on the CPU

Two slots, copied to and read from in turn. Nobody counts by hand how many copies may stay in
flight: the count pass finds 1 for the loop and 0 after it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import mlir_async_pipe
from mlir_async_pipe import Pipeline, machine
from mlir_async_pipe.bindings import ir, load, new_context

BATCH = 16
SLOTS = 2

SKELETON = f"""
func.func @sum(%input : memref<?x{BATCH}xf32> {{llvm.noalias}}, %output : memref<1xf32>) {{
  return
}}
"""


def build() -> Any:
    """The module with the kernel @sum (one batch or more), in the current context."""
    arith, memref, scf, vector = (
        load(f"dialects.{name}") for name in ("arith", "memref", "scf", "vector")
    )
    module = ir.Module.parse(SKELETON)
    block = module.body.operations[0].regions[0].blocks[0]
    source, output = block.arguments
    pipe = Pipeline(depth=SLOTS)
    with ir.Location.unknown(), ir.InsertionPoint(block.operations[0]):
        f32, index = ir.F32Type.get(), ir.IndexType.get()
        batch = ir.VectorType.get([BATCH], f32)
        zero, one, two = (arith.constant(index, n) for n in (0, 1, SLOTS))
        slots = memref.alloca(ir.MemRefType.get([SLOTS, BATCH], f32), [], [])
        batches = memref.dim(source, zero)
        start = arith.constant(
            batch, ir.DenseElementsAttr.get_splat(batch, ir.FloatAttr.get(f32, 0.0))
        )

        def copy(number: Any) -> None:
            slot = arith.remui(number, two)
            with pipe.produce():
                loaded = vector.load(batch, source, [number, zero])
                vector.store(loaded, slots, [slot, zero])

        def add(number: Any, total: Any) -> Any:
            slot = arith.remui(number, two)
            with pipe.consume():
                total = arith.addf(total, vector.load(batch, slots, [slot, zero]))
            return total

        copy(zero)
        loop = scf.ForOp(one, batches, one, [start])
        with ir.InsertionPoint(loop.body):
            copy(loop.induction_variable)
            before = arith.subi(loop.induction_variable, one)
            scf.yield_([add(before, loop.inner_iter_args[0])])
        last = arith.subi(batches, one)
        total = add(last, loop.results[0])
        memref.store(vector.reduction(f32, vector.CombiningKind.ADD, total), output, [zero])
    return module


def main() -> None:
    """Build, count, check, run, and compare with NumPy."""
    with new_context():
        module = build()
        mlir_async_pipe.count_waits(module)
        print(module)
        values = np.arange(5 * BATCH, dtype=np.float32).reshape(5, BATCH)
        done = machine.run(module, "sum", [values, np.zeros(1, np.float32)], completion="late")
        print(f"sum {done.arrays[1][0]}, NumPy {values.sum()}, {len(done.races)} races")


if __name__ == "__main__":
    main()
