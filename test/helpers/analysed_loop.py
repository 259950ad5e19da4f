"""Loops with their dependence analysis, from the text of a body."""

from __future__ import annotations

from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.facts.loops.statements import read_body
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.pipeliner.dependence.distance import LoopIndex
from mlir_async_pipe.pipeliner.dependence.regions import regions_of
from mlir_async_pipe.vocabulary.launch_ids import enclosing_launch_size

FUNCTION = """
#wg = #gpu.address_space<workgroup>
gpu.module @m {{
  gpu.func @f(%A : memref<64xf32> {{llvm.noalias}}, %B : memref<64xf32>, %C : memref<64xf32>,
              %D : memref<64x64xf32>, %n : index, %x : f32) kernel {known} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %c16 = arith.constant 16 : index
    %c31 = arith.constant 31 : index
    %c32 = arith.constant 32 : index
    %c64 = arith.constant 64 : index
    %tid = gpu.thread_id x
    %S = memref.alloc() : memref<64xf32, #wg>
    %T = memref.alloc() : memref<8x8xf32, #wg>
    scf.for %i = {lower} to %c64 step {step} {{
      {body}
    }}
    gpu.return
  }}
}}
"""


def analysed(
    body: str, *, lower: str = "%c0", step: str = "%c1", threads: int | None = None
) -> tuple[object, list, LoopIndex, Arithmetic]:
    """The module (to be kept alive), the regions of the loop's statements, and the index."""
    known = (
        "" if threads is None else f"attributes {{known_block_size = array<i32: {threads}, 1, 1>}}"
    )
    text = FUNCTION.format(body=body, lower=lower, step=step, known=known)
    module = ir.Module.parse(text, new_context())
    loop = next(op for op in walk(module.operation) if op.name == "scf.for")
    arithmetic = Arithmetic(enclosing_launch_size(loop))
    lanes = 64 if "amdgpu." in body else 32
    regions = regions_of([s.op for s in read_body(loop).statements], arithmetic, lanes)
    return module, regions, LoopIndex(loop, arithmetic), arithmetic
