"""In torch-mlir: from a product in linalg to a pipelined GPU loop, by MLIR's own transforms.

    python examples/embedding/torch_mlir_linalg.py

    linalg.matmul --tile: blocks, k, threads--> gpu.launch, scf.for over k --async-pipe--> loads ahead

What torch-mlir makes of a model arrives as linalg on memrefs, after bufferization. Each thread of a
block has a 1 x 4 tile of C and goes along k in steps of 4; loads of later steps run ahead.
"""

from __future__ import annotations

import numpy as np
from torch_mlir import ir
from torch_mlir.passmanager import PassManager

import mlir_async_pipe

PROGRAM = """
module attributes {transform.with_named_sequence} {
  func.func @matmul(%a: memref<64x256xf32> {llvm.noalias}, %b: memref<256x64xf32> {llvm.noalias},
                    %c: memref<64x64xf32> {llvm.noalias}) {
    %one = arith.constant 1 : index
    gpu.launch blocks(%bx, %by, %bz) in (%gx = %one, %gy = %one, %gz = %one)
        threads(%tx, %ty, %tz) in (%sx = %one, %sy = %one, %sz = %one) {
      linalg.matmul ins(%a, %b : memref<64x256xf32>, memref<256x64xf32>) outs(%c : memref<64x64xf32>)
      gpu.terminator
    }
    return
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.consumed}) {
    %matmul = transform.structured.match ops{["linalg.matmul"]} in %root
      : (!transform.any_op) -> !transform.any_op
    %block, %blocks = transform.structured.tile_using_forall %matmul tile_sizes [16, 16]
      (mapping = [#gpu.block<y>, #gpu.block<x>]) : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %thread, %threads = transform.structured.tile_using_forall %block tile_sizes [1, 4]
      (mapping = [#gpu.thread<y>, #gpu.thread<x>]) : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %step, %loop = transform.structured.tile_using_for %thread tile_sizes [0, 0, 4]
      : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.structured.vectorize %step : !transform.any_op
    %launch = transform.structured.match ops{["gpu.launch"]} in %root
      : (!transform.any_op) -> !transform.any_op
    %mapped = transform.gpu.map_forall_to_blocks %launch grid_dims = [4, 4, 1]
      : (!transform.any_op) -> !transform.any_op
    %done = transform.gpu.map_nested_forall_to_threads %mapped block_dims = [4, 16, 1]
      : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
"""
SHAPES = ((64, 256), (256, 64))
PASSES = (
    "builtin.module(transform-interpreter,canonicalize,cse,func.func(loop-invariant-code-motion),"
    "canonicalize,cse)"
)


def main() -> None:
    """Tile and map, annotate the loop that is left, pipeline it, check it, run it."""
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(PROGRAM)
        PassManager.parse(PASSES).run(module.operation)
        for loop in mlir_async_pipe.find_loops(module, annotated=False):
            mlir_async_pipe.annotate(loop, num_stages=3)
        report = mlir_async_pipe.pipeline(module, target="nvvm:sm_80")
        for entry in report.diagnostics:
            print(entry.message)
        (summary,) = report.of("checks")
        print(
            f"{len(report.of('loops'))} loops, {summary.unsafe} unsafe, {summary.unknown} unknown"
        )
        a, b = (np.random.default_rng(0).random(shape, np.float32) for shape in SHAPES)
        PassManager.parse("builtin.module(gpu-kernel-outlining)").run(module.operation)
        # Outlining hands constants on: the first index, the padding of reads, the step.
        arguments = [a, b, np.zeros((64, 64), np.float32), 0, 0.0, 4]
        run = mlir_async_pipe.machine.run(
            module, "matmul_kernel", arguments, threads=(4, 16), grid=(4, 4)
        )
        print(f"as NumPy: {np.allclose(run.arrays[2], a @ b)}, {len(run.races)} races")


if __name__ == "__main__":
    main()
