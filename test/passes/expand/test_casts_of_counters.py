"""Loops whose places go through casts, shifts and llvm ops: dependence analysis sees through them.

    %n = arith.trunci %i : i64 to i32, %e = arith.extui %n : i32 to i64, …     place %i + %mine

Copies read what stores of earlier iterations write one tile further back: only places that are
known to differ let the loop be pipelined. What may lose bits on the way is refused.

Covers: vocabulary/operator_table.py, facts/values/linear.py, facts/values/linear.py, pipeliner/dependence/distance.py
"""

from __future__ import annotations

import numpy as np
import pytest

from mlir_async_pipe import machine, pipeline
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.session.diagnostics import AsyncPipeError

KERNEL = """
gpu.module @kernels {{
  gpu.func @add_one(%m: memref<2048xf32> {{llvm.noalias}})
      workgroup(%tile: memref<512xf32, #gpu.address_space<workgroup>> {{llvm.align = 16 : i64}})
      kernel attributes {{known_block_size = array<i32: 128, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c4 = arith.constant 4 : index
    %c512 = arith.constant 512 : index
    %c2048 = arith.constant 2048 : index
    %one = arith.constant dense<1.0> : vector<4xf32>
    %tid = gpu.thread_id x
    %mine = arith.muli %tid, %c4 : index
    scf.for %i = %c0 to %c2048 step %c512 {{
      {place}
      %copy = nvgpu.device_async_copy %m[%at], %tile[%mine], 4 : memref<2048xf32> to memref<512xf32, #gpu.address_space<workgroup>>
      %group = nvgpu.device_async_create_group %copy
      nvgpu.device_async_wait %group
      gpu.barrier
      %v = vector.load %tile[%mine] : memref<512xf32, #gpu.address_space<workgroup>>, vector<4xf32>
      %w = arith.addf %v, %one : vector<4xf32>
      vector.store %w, %m[%at] : memref<2048xf32>, vector<4xf32>
      gpu.barrier
    }} {{async_pipe.num_stages = 3 : i64}}
    gpu.return
  }}
}}
"""
# %at = %i + %mine
PLACES = {
    "the counter cut and extended": """
      %wide = arith.index_cast %i : index to i64
      %n = arith.trunci %wide : i64 to i32
      %e = arith.extui %n : i32 to i64
      %j = arith.index_castui %e : i64 to index
      %at = arith.addi %j, %mine : index""",
    "the counter extended by its sign": """
      %n = arith.index_cast %i : index to i32
      %e = arith.extsi %n : i32 to i64
      %j = index.castu %e : i64 to index
      %at = index.add %j, %mine""",
    "the thread id in 32 bits": """
      %t = arith.index_cast %tid : index to i32
      %two = arith.constant 2 : i32
      %s = llvm.shl %t, %two : i32
      %e = llvm.zext %s : i32 to i64
      %k = arith.index_cast %e : i64 to index
      %at = arith.addi %i, %k : index""",
    "a sum of llvm": """
      %n = arith.index_cast %i : index to i64
      %k = arith.index_cast %mine : index to i64
      %s = llvm.add %n, %k : i64
      %at = arith.index_cast %s : i64 to index""",
    "a map that divides": """
      %at = affine.apply affine_map<(d0, d1) -> ((d0 * 8 + d1 * 8) floordiv 8)>(%i, %mine)""",
}


def _parsed(place: str) -> ir.Module:
    return ir.Module.parse(KERNEL.format(place=place), new_context())


def _run(module: ir.Module) -> np.ndarray:
    data = np.arange(2048, dtype=np.float32)
    return machine.run(module, "add_one", [data], threads=128).arrays[0]


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_a_place_through_casts_is_pipelined_and_computes_the_same(place: str) -> None:
    expected = _run(_parsed(place))
    assert expected.tolist() == [number + 1.0 for number in range(2048)]
    module = _parsed(place)
    pipeline(module, target="nvvm:sm_80")
    assert "memref<3x512xf32" in str(module)
    assert np.array_equal(_run(module), expected)


def test_a_counter_that_loses_bits_is_refused() -> None:
    """As i8 the counter 512 k is 0 in every iteration: all of them write one place."""
    place = """
      %wide = arith.index_cast %i : index to i64
      %n = arith.trunci %wide : i64 to i8
      %e = arith.extui %n : i8 to i64
      %j = arith.index_cast %e : i64 to index
      %at = arith.addi %j, %mine : index"""
    with pytest.raises(AsyncPipeError, match=r"cannot pipeline.*may read"):
        pipeline(_parsed(place), target="nvvm:sm_80")
