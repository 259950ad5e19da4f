"""ldmatrix through a pointer reads 16 bytes at the addresses of its active lanes only.

Covers: facts/values/views.py, vocabulary/memory_ops.py
"""

from __future__ import annotations

import pytest

import mlir_async_pipe
from helpers.check_harness import check_text, machine_races
from helpers.paths import ROOT
from mlir_async_pipe.bindings import ir, new_context

pytestmark = pytest.mark.slow

GEMM = ROOT / "examples" / "gemm.mlir"

# 32 rows of 8 halves: rows 0 to 7 are in the older group, rows 8 to 31 in the younger one.
# Lane l of the warp names row l.
KERNEL = """
gpu.module @m {{
  gpu.func @k(%A: memref<32x8xf16> {{llvm.noalias}}) workgroup(%s: memref<32x8xf16, 3>)
      kernel attributes {{known_block_size = array<i32: 32, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c8 = arith.constant 8 : index
    %c24 = arith.constant 24 : index
    %t = gpu.thread_id x
    %upper = arith.remui %t, %c8 : index
    %a = nvgpu.device_async_copy %A[%upper, %c0], %s[%upper, %c0], 8 : memref<32x8xf16> to memref<32x8xf16, 3>
    nvvm.cp.async.commit.group
    %inside = arith.remui %t, %c24 : index
    %lower = arith.addi %inside, %c8 : index
    %b = nvgpu.device_async_copy %A[%lower, %c0], %s[%lower, %c0], 8 : memref<32x8xf16> to memref<32x8xf16, 3>
    nvvm.cp.async.commit.group
    nvvm.cp.async.wait.group {count}
    gpu.barrier
    %base = memref.extract_aligned_pointer_as_index %s : memref<32x8xf16, 3> -> index
    %c16 = arith.constant 16 : index
    %bytes = arith.muli %t, %c16 : index
    %address = arith.addi %base, %bytes : index
    %number = arith.index_cast %address : index to i64
    %pointer = llvm.inttoptr %number : i64 to !llvm.ptr<3>
    {load}
    nvvm.cp.async.wait.group 0
    gpu.return
  }}
}}
"""
ONE = (
    "%x = nvvm.ldmatrix %pointer {eltType = #nvvm.ld_st_matrix_elt_type<b16>, "
    "layout = #nvvm.mma_layout<row>, num = 1 : i32, "
    "shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>} : (!llvm.ptr<3>) -> i32"
)
FOUR = ONE.replace("num = 1", "num = 4").replace("-> i32", "-> !llvm.struct<(i32, i32, i32, i32)>")


@pytest.mark.parametrize(("load", "count"), [(ONE, 1), (ONE, 0), (FOUR, 0)])
def test_rows_that_have_arrived_may_be_read(load: str, count: int) -> None:
    text = KERNEL.format(load=load, count=count)
    checked = check_text(text, "nvvm:sm_80")
    assert (checked.unsafe, checked.unknown) == (frozenset(), frozenset())
    assert not machine_races(text, "nvvm:sm_80")


@pytest.mark.parametrize(("load", "count"), [(FOUR, 1), (ONE, 2), (FOUR, 2)])
def test_rows_in_flight_may_not(load: str, count: int) -> None:
    text = KERNEL.format(load=load, count=count)
    checked = check_text(text, "nvvm:sm_80")
    assert {code for code, _ in checked.unsafe} == {"read-in-flight"}
    assert machine_races(text, "nvvm:sm_80") == checked.unsafe


@pytest.fixture(scope="module")
def lowered() -> str:
    """The GEMM example, pipelined and lowered to the LLVM dialect."""
    with new_context():
        module = ir.Module.parse(GEMM.read_text())
        mlir_async_pipe.pipeline(module, target="nvvm:sm_80")
        return mlir_async_pipe.lower(module, target="nvvm:sm_80", emit="llvm").text


def test_the_lowered_gemm_is_proven(lowered: str) -> None:
    checked = check_text(lowered, "nvvm:sm_80")
    print(f"\nlowered GEMM: {checked.accesses} accesses, {checked.unknown_accesses} unknown")
    assert checked.accesses > 100
    assert not checked.unsafe
    # A row of C is a product with a stride that nobody knows: whether two rows overlap cannot
    # be told, nor whether C is A or B for other blocks, since noalias is gone. All that is async
    # in a block, and all workgroup memory, is proven.
    unknown = [h for h in checked.report.of("hazards") if h.verdict == "unknown"]
    assert {h.op for h in unknown} == {"llvm.store"}
    assert {(h.code, h.reason) for h in unknown} == {
        ("missing-barrier", "opaque-subscript"),
        ("cross-block", "other-blocks"),
        ("cross-block", "may-alias"),
    }


def test_the_lowered_gemm_with_a_weaker_wait_is_not_proven(lowered: str) -> None:
    weaker = lowered.replace("nvvm.cp.async.wait.group 1", "nvvm.cp.async.wait.group 2", 1)
    checked = check_text(weaker, "nvvm:sm_80")
    # The loop's bound is a quotient of the argument that no form holds, so whether a path goes
    # there is not certain; the loads are told all the same.
    reported = {code for code, _ in checked.unsafe} | {code for code, _ in checked.unknown}
    assert "read-in-flight" in reported
