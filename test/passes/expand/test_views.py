"""Views of a versioned buffer show the slot of their iteration.

Covers: pipeliner/expand/write/versioned_buffers.py, pipeliner/plan/buffer_plan.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.paths import ROOT
from mlir_async_pipe import machine, pipeline
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session

KERNEL = ROOT / "lit-tests" / "expand" / "views.mlir"
PASSES = (
    "async-pipe-normalise",
    "async-pipe-schedule",
    "async-pipe-expand",
    "async-pipe-count-waits",
)


# The buffer is named by its number where it is filled, by its attribute where it is read.
OTHER_SPACE_NAME = """
func.func @k(%A: memref<1024xf32>, %O: memref<1024xf32>) attributes {gpu.kernel} {
  %c0 = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  %c1024 = arith.constant 1024 : index
  %t = gpu.thread_id x
  %b = memref.alloc() : memref<128xf32, 3>
  scf.for %i = %c0 to %c1024 step %c128 {
    %s = arith.addi %i, %t : index
    %w = memref.memory_space_cast %b : memref<128xf32, 3> to memref<128xf32, #gpu.address_space<workgroup>>
    %x = nvgpu.device_async_copy %A[%s], %b[%t], 1 : memref<1024xf32> to memref<128xf32, 3>
    %g = nvgpu.device_async_create_group %x
    nvgpu.device_async_wait %g
    gpu.barrier
    %v = memref.load %w[%t] : memref<128xf32, #gpu.address_space<workgroup>>
    memref.store %v, %O[%s] : memref<1024xf32>
    gpu.barrier
  } {async_pipe.num_stages = 3 : i64, async_pipe.independent}
  return
}
"""


@pytest.mark.parametrize("completion", ["eager", "late", "random"])
@pytest.mark.parametrize("tiles", [0, 1, 2, 5])
def test_subviews_reshapes_and_reinterpret_casts_follow_to_their_slot(
    tiles: int, completion: str
) -> None:
    given = np.arange(tiles * 128, dtype=np.float32)
    with new_context():
        module = ir.Module.parse(KERNEL.read_text())
        for name in PASSES:
            found = passes.find(name)
            found.run(module.operation, found.options(), Session())
        result = machine.run(
            module, "views", [given, np.zeros_like(given)], threads=128, completion=completion
        )
    tile, half = given.reshape(-1, 128), np.arange(128) % 64
    expected = (tile[:, 1 + 2 * half] + tile[:, 64 + half]).reshape(-1)
    assert result.races == ()
    np.testing.assert_array_equal(result.arrays[1], expected)


@pytest.mark.parametrize("completion", ["eager", "late", "random"])
def test_a_cast_to_another_name_of_the_space_follows_too(completion: str) -> None:
    given = np.arange(1024, dtype=np.float32)
    with new_context():
        module = ir.Module.parse(OTHER_SPACE_NAME)
        pipeline(module, target="nvvm:sm_80")
        assert "memref<3x128xf32, 3>" in str(module)
        result = machine.run(
            module, "k", [given, np.zeros_like(given)], threads=128, completion=completion
        )
    assert result.races == ()
    np.testing.assert_array_equal(result.arrays[1], given)
