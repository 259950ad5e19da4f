"""Kernels as front ends hand them over, in linalg on tensors: tiled by MLIR's own passes, pipelined by `num_stages` alone.

    python examples/embedding/linalg_front_end.py

    linalg --tile, bufferize, map to a grid, write loops--> gpu.launch, scf.for --async-pipe--> loads ahead, proven

Nothing is said of the kernels but `num_stages=3`. The sizes of block and grid come from the tiles, and a tensor that a
function returns has memory of its own, so that no two arrays may be one. Works in each stack whose MLIR has linalg,
and needs no GPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mlir_async_pipe
from mlir_async_pipe.bindings import ir, new_context, passmanager


@dataclass(frozen=True)
class Kernel:
    """A function on tensors, and how the ops called `op` are tiled in it: for blocks, for the threads of a block, and
    for a loop in each thread (0: not along this dimension). `grid` and `block` follow from the tiles."""

    text: str
    op: str
    blocks: tuple[int, ...]
    threads: tuple[int, ...]
    loop: tuple[int, ...]
    grid: tuple[int, ...]
    block: tuple[int, ...]


MATMUL = Kernel(
    """
    func.func @matmul(%a: tensor<64x256xf32>, %b: tensor<256x64xf32>) -> tensor<64x64xf32> {
      %zero = arith.constant 0.0 : f32
      %empty = tensor.empty() : tensor<64x64xf32>
      %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<64x64xf32>) -> tensor<64x64xf32>
      %c = linalg.matmul ins(%a, %b : tensor<64x256xf32>, tensor<256x64xf32>)
                         outs(%start : tensor<64x64xf32>) -> tensor<64x64xf32>
      return %c : tensor<64x64xf32>
    }""",
    "linalg.matmul", (16, 16), (1, 1), (), (4, 4), (16, 16),
)  # fmt: skip
BATCHED = Kernel(
    """
    func.func @batched(%a: tensor<3x32x64xf32>, %b: tensor<3x64x32xf32>) -> tensor<3x32x32xf32> {
      %zero = arith.constant 0.0 : f32
      %empty = tensor.empty() : tensor<3x32x32xf32>
      %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<3x32x32xf32>) -> tensor<3x32x32xf32>
      %c = linalg.batch_matmul ins(%a, %b : tensor<3x32x64xf32>, tensor<3x64x32xf32>)
                               outs(%start : tensor<3x32x32xf32>) -> tensor<3x32x32xf32>
      return %c : tensor<3x32x32xf32>
    }""",
    "linalg.batch_matmul", (1, 16, 16), (0, 1, 1), (), (2, 2, 3), (16, 16),
)  # fmt: skip
STENCIL = Kernel(
    """
    func.func @stencil(%x: tensor<40x258xf32>) -> tensor<40x256xf32> {
      %left = tensor.extract_slice %x[0, 0] [40, 256] [1, 1] : tensor<40x258xf32> to tensor<40x256xf32>
      %middle = tensor.extract_slice %x[0, 1] [40, 256] [1, 1] : tensor<40x258xf32> to tensor<40x256xf32>
      %right = tensor.extract_slice %x[0, 2] [40, 256] [1, 1] : tensor<40x258xf32> to tensor<40x256xf32>
      %empty = tensor.empty() : tensor<40x256xf32>
      %y = linalg.generic {
          indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>,
                           affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
          iterator_types = ["parallel", "parallel"]}
          ins(%left, %middle, %right : tensor<40x256xf32>, tensor<40x256xf32>, tensor<40x256xf32>)
          outs(%empty : tensor<40x256xf32>) {
        ^bb0(%l: f32, %m: f32, %r: f32, %o: f32):
          %lm = arith.addf %l, %m : f32
          %sum = arith.addf %lm, %r : f32
          linalg.yield %sum : f32
      } -> tensor<40x256xf32>
      return %y : tensor<40x256xf32>
    }""",
    "linalg.generic", (0, 128), (0, 1), (1, 0), (2,), (128,),
)  # fmt: skip
REDUCTION = Kernel(
    """
    func.func @reduction(%x: tensor<256x96xf32>) -> tensor<256xf32> {
      %zero = arith.constant 0.0 : f32
      %empty = tensor.empty() : tensor<256xf32>
      %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<256xf32>) -> tensor<256xf32>
      %y = linalg.reduce ins(%x : tensor<256x96xf32>) outs(%start : tensor<256xf32>) dimensions = [1]
        (%v: f32, %sum: f32) {
          %next = arith.addf %v, %sum : f32
          linalg.yield %next : f32
        }
      return %y : tensor<256xf32>
    }""",
    "linalg.reduce", (128,), (1,), (), (2,), (128,),
)  # fmt: skip
SOFTMAX = Kernel(
    """
    func.func @softmax(%x: tensor<64x96xf32>) -> tensor<64x96xf32> {
      %empty = tensor.empty() : tensor<64x96xf32>
      %y = linalg.softmax dimension(1) ins(%x : tensor<64x96xf32>) outs(%empty : tensor<64x96xf32>)
        -> tensor<64x96xf32>
      return %y : tensor<64x96xf32>
    }""",
    "linalg.softmax", (32,), (1,), (), (2,), (32,),
)  # fmt: skip
GATHER = Kernel(
    """
    func.func @gather(%x: tensor<50x256xf32>, %which: tensor<40xindex>) -> tensor<40x256xf32> {
      %empty = tensor.empty() : tensor<40x256xf32>
      %y = linalg.generic {
          indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
          iterator_types = ["parallel", "parallel"]}
          ins(%which : tensor<40xindex>) outs(%empty : tensor<40x256xf32>) {
        ^bb0(%row: index, %o: f32):
          %column = linalg.index 1 : index
          %v = tensor.extract %x[%row, %column] : tensor<50x256xf32>
          linalg.yield %v : f32
      } -> tensor<40x256xf32>
      return %y : tensor<40x256xf32>
    }""",
    "linalg.generic", (0, 128), (0, 1), (1, 0), (2,), (128,),
)  # fmt: skip
KERNELS = {
    "matmul": MATMUL, "batched": BATCHED, "stencil": STENCIL, "reduction": REDUCTION,
    "softmax": SOFTMAX, "gather": GATHER,
}  # fmt: skip

# Tiles for blocks and for threads; what makes the start of a sum goes along.
TILED = """
module attributes {{transform.with_named_sequence}} {{
  {text}
  transform.named_sequence @__transform_main(%root: !transform.any_op {{transform.consumed}}) {{
    %op = transform.structured.match ops{{["{op}"]}} in %root : (!transform.any_op) -> !transform.any_op
    %block, %blocks = transform.structured.tile_using_forall %op tile_sizes {blocks} (mapping = [{block_ids}])
      : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %thread, %threads = transform.structured.tile_using_forall %block tile_sizes {threads} (mapping = [{thread_ids}])
      : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    {rest}
    %memory = transform.bufferization.one_shot_bufferize %root
      {{bufferize_function_boundaries = true, function_boundary_type_conversion = 1 : i32}}
      : (!transform.any_op) -> !transform.any_op
    %function = transform.structured.match ops{{["func.func"]}} in %memory : (!transform.any_op) -> !transform.any_op
    %launch = transform.gpu.map_forall_to_blocks %function {{generate_gpu_launch}}
      : (!transform.any_op) -> !transform.any_op
    %mapped = transform.gpu.map_nested_forall_to_threads %launch block_dims = {block}
      : (!transform.any_op) -> !transform.any_op
    transform.yield
  }}
}}
"""
IN_A_LOOP = """%step, %loop = transform.structured.tile_using_for %thread tile_sizes {loop}
      : (!transform.any_op) -> (!transform.any_op, !transform.any_op)"""
DECOMPOSED = """%parts = transform.structured.decompose_interface %thread
      : (!transform.any_op) -> !transform.any_op"""
LOOPS = (
    "builtin.module(canonicalize,cse,func.func(promote-buffers-to-stack,convert-linalg-to-loops,"
    "loop-invariant-code-motion),canonicalize,cse)"
)


def launched(kernel: Kernel) -> Any:
    """The module of a kernel after MLIR's passes: a gpu.launch with loops."""
    rest = DECOMPOSED if kernel.op == "linalg.softmax" else ""
    if kernel.loop:
        rest = IN_A_LOOP.format(loop=list(kernel.loop))
    text = TILED.format(
        text=kernel.text, op=kernel.op, rest=rest,
        blocks=list(kernel.blocks), block_ids=ids("block", kernel.blocks),
        threads=list(kernel.threads), thread_ids=ids("thread", kernel.threads),
        block=[*kernel.block, 1, 1][:3],
    )  # fmt: skip
    module = ir.Module.parse(text)
    passmanager.PassManager.parse("builtin.module(transform-interpreter)").run(module.operation)
    passmanager.PassManager.parse(LOOPS).run(module.operation)
    return module


def ids(kind: str, tiles: tuple[int, ...]) -> str:
    """The ids that run over the tiled dimensions, x along the last."""
    axes = "zyx"[-sum(tile > 0 for tile in tiles) :]
    return ", ".join(f"#gpu.{kind}<{axis}>" for axis in axes)


def pipelined(name: str) -> tuple[Any, Any]:
    """The module of a kernel with its loops pipelined, and the report."""
    module = launched(KERNELS[name])
    for loop in mlir_async_pipe.find_loops(module, annotated=False):
        mlir_async_pipe.annotate(loop, num_stages=3)
    return module, mlir_async_pipe.pipeline(module, target="nvvm:sm_80")


def main() -> None:
    """Print what became of each."""
    for name in KERNELS:
        with new_context():
            _, report = pipelined(name)
        (summary,) = report.of("checks")
        said = "proven" if summary.unknown == summary.unsafe == 0 else summary.reasons
        print(f"{name}: {len(report.of('loops'))} loops, {said}")


if __name__ == "__main__":
    main()
