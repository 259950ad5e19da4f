"""Barriers that no two threads need are not written, and of those that are none can go.

Covers: pipeliner/plan/barrier_pairs.py, pipeliner/dependence/distance.py, pipeliner/plan/make_plan.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlir_async_pipe
from helpers.fewest_barriers import barriers, fewest, is_proven
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context

TARGET = "nvvm:sm_80"
KERNEL = """
#wg = #gpu.address_space<workgroup>
gpu.module @m {
gpu.func @k(%A : memref<64xf32> {llvm.noalias}, %C : memref<64xf32> {llvm.noalias})
    workgroup(%S : memref<8xf32, #wg>) kernel attributes {BLOCK} {
  %c0 = arith.constant 0 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %c32 = arith.constant 32 : index
  %tid = gpu.thread_id x
  %other = arith.subi %c3, %tid : index
  %high = arith.addi %tid, %c4 : index
  scf.for %i = %c0 to %c32 step %c4 {
    %at = arith.addi %i, %tid : index
    %copy = nvgpu.device_async_copy %A[%at], %S[%tid], 1 : memref<64xf32> to memref<8xf32, #wg>
    %group = nvgpu.device_async_create_group %copy
    nvgpu.device_async_wait %group
    gpu.barrier
    BODY
    memref.store %v, %C[%at] : memref<64xf32>
    gpu.barrier
  } {async_pipe.num_stages = STAGES}
  AFTER
  gpu.return
}
}
"""
KNOWN = "known_block_size = array<i32: 4, 1, 1>"
OWN = "%v = memref.load %S[%tid] : memref<8xf32, #wg>"
OTHERS = "%v = memref.load %S[%other] : memref<8xf32, #wg>"
GUARDED = """%inside = arith.cmpi ult, %tid, %c3 : index
    scf.if %inside {
      %w = memref.load %S[%tid] : memref<8xf32, #wg>
      memref.store %w, %C[%at] : memref<64xf32>
    }
    %v = arith.constant 0.0 : f32"""
OWN_TWICE = """%first = memref.load %S[%tid] : memref<8xf32, #wg>
    memref.store %first, %S[%high] : memref<8xf32, #wg>
    %v = memref.load %S[%high] : memref<8xf32, #wg>"""
BACK_AND_FORTH = """%first = memref.load %S[%other] : memref<8xf32, #wg>
    gpu.barrier
    memref.store %first, %S[%high] : memref<8xf32, #wg>
    gpu.barrier
    %back = arith.addi %other, %c4 : index
    %v = memref.load %S[%back] : memref<8xf32, #wg>"""


def pipelined(
    body: str, stages: int = 3, after: str = "", block: str = KNOWN, check: str = "error"
) -> tuple[Any, Any]:
    """The module and its report."""
    text = KERNEL.replace("BODY", body).replace("STAGES", str(stages)).replace("AFTER", after)
    module = ir.Module.parse(text.replace("BLOCK", block))
    return module, mlir_async_pipe.pipeline(module, TARGET, check=check)


def dropped(report: Any) -> bool:
    """Whether the report tells that the input's barriers went."""
    return "barriers-dropped" in [entry.code for entry in report.diagnostics]


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("body", [OWN, OWN_TWICE])
def test_what_one_thread_alone_touches_needs_no_barrier(body: str, stages: int) -> None:
    with new_context():
        module, report = pipelined(body, stages)
        assert barriers(module) == []
        assert dropped(report)
        assert is_proven(module, TARGET)


@pytest.mark.parametrize("schedule", ["lockstep", "forward", "backward", "random"])
@pytest.mark.parametrize("completion", ["eager", "late", "random:3"])
def test_without_barriers_the_result_is_right(completion: str, schedule: str) -> None:
    with new_context():
        module, _ = pipelined(OWN)
        data = np.arange(64, dtype=np.float32)
        result = machine.run(
            module, "k", [data, np.zeros(64, np.float32)], threads=4,
            completion=completion, schedule=schedule,
        )  # fmt: skip
    assert not result.races
    np.testing.assert_array_equal(result.arrays[1][:32], data[:32])


@pytest.mark.parametrize(
    ("body", "block"),
    [
        (OTHERS, KNOWN),
        (OWN, "known_block_size = array<i32: 4, 2, 1>"),  # two threads have one x
        (OWN, ""),
        (GUARDED, KNOWN),  # the checker would have more ways to follow
    ],
)
def test_barriers_stay_where_threads_meet_or_may_meet(body: str, block: str) -> None:
    with new_context():
        module, report = pipelined(body, block=block, check="none")
        assert barriers(module)
        assert not dropped(report)


def test_a_reader_after_the_loop_keeps_the_barrier_that_was_there_for_it() -> None:
    after = """%late = memref.load %S[%other] : memref<8xf32, #wg>
  memref.store %late, %C[%high] : memref<64xf32>"""
    with new_context():
        module, report = pipelined(OWN, after=after)
        assert len(barriers(module)) == 1
        assert not dropped(report)
        assert is_proven(module, TARGET)


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("body", [OWN, OTHERS, OWN_TWICE, BACK_AND_FORTH])
def test_no_barrier_of_the_result_can_go(body: str, stages: int) -> None:
    """Exhaustive: of all subsets of the result's barriers that are proven, none is smaller."""
    with new_context():
        module, _ = pipelined(body, stages)
        assert fewest(module, TARGET) == len(barriers(module))
