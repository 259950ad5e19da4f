"""Matrices of a wave that loops carry lower as those of a kernel without loops do.

Covers: lowering/nvvm/to_nvvm.py
"""

from __future__ import annotations

import pytest

import mlir_async_pipe
from mlir_async_pipe.bindings import ir, new_context

SUMS = '!gpu.mma_matrix<16x16xf32, "COp">'
TILE = "memref<16x16xf16, #gpu.address_space<workgroup>>"


def product(into: str) -> str:
    loaded = f"{{leadDimension = 16 : index}} : {TILE} ->"
    a, b = (f'!gpu.mma_matrix<16x16xf16, "{side}Op">' for side in "AB")
    return (
        f"%a = gpu.subgroup_mma_load_matrix %tile[%c0, %c0] {loaded} {a}\n"
        f"%b = gpu.subgroup_mma_load_matrix %tile[%c0, %c0] {loaded} {b}\n"
        f"%d = gpu.subgroup_mma_compute %a, %b, {into} : {a}, {b} -> {SUMS}\n"
    )


LOOP = f"""
%r = scf.for %i = %c0 to %n step %c1 iter_args(%sums = %start) -> ({SUMS}) {{
  %first = arith.muli %i, %c16 : index
  %from = arith.addi %first, %row : index
  %v = vector.load %rows[%from, %column] : memref<?x16xf16>, vector<8xf16>
  vector.store %v, %tile[%row, %column] : {TILE}, vector<8xf16>
  gpu.barrier
  {product("%sums")}
  gpu.barrier
  scf.yield %d : {SUMS}
}} {{async_pipe.num_stages = 3 : i64}}
"""
KERNEL = f"""
gpu.module @m {{
  gpu.func @k(%rows: memref<?x16xf16> {{llvm.noalias, llvm.align = 16 : i64}},
              %out: memref<16x16xf32> {{llvm.noalias}}, %n: index)
      workgroup(%tile: {TILE} {{llvm.align = 16 : i64}})
      kernel attributes {{known_block_size = array<i32: 32, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c8 = arith.constant 8 : index
    %c16 = arith.constant 16 : index
    %zero = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    %row = arith.divui %t, %c2 : index
    %half = arith.remui %t, %c2 : index
    %column = arith.muli %half, %c8 : index
    %start = gpu.subgroup_mma_constant_matrix %zero : {SUMS}
    BODY
    gpu.subgroup_mma_store_matrix RESULT, %out[%c0, %c0] {{leadDimension = 16 : index}}
      : {SUMS}, memref<16x16xf32>
    gpu.return
  }}
}}"""


@pytest.mark.parametrize(("body", "result"), [(LOOP, "%r"), (product("%start"), "%d")])
@pytest.mark.parametrize("pipelined", [True, False])
def test_sums_of_a_loop_are_lowered(body: str, result: str, pipelined: bool) -> None:
    with new_context():
        module = ir.Module.parse(KERNEL.replace("BODY", body).replace("RESULT", result))
        if pipelined:
            mlir_async_pipe.pipeline(module, target="nvvm:sm_80")
        text = mlir_async_pipe.lower(module, target="nvvm:sm_80", emit="llvm").text
    assert "nvvm.wmma.mma" in text
    assert ("nvvm.cp.async.wait.group" in text) == (pipelined and body == LOOP)
