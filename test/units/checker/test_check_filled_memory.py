"""LLVM's intrinsics that copy and fill memory: what they touch, of a size that is known or not.

Covers: vocabulary/memory_ops.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.check_harness import check_text, codes
from helpers.machine_programs import run

KERNEL = """
llvm.mlir.global internal @tile() {{addr_space = 3 : i32, alignment = 16 : i64}} : !llvm.array<64 x f32>
llvm.func @k(%A: !llvm.ptr<1> {{llvm.noalias}}, %C: !llvm.ptr<1> {{llvm.noalias}}, %n: i64)
    attributes {{nvvm.kernel, nvvm.reqntid = array<i32: 64>}} {{
  %t = nvvm.read.ptx.sreg.tid.x : i32
  %bytes = llvm.mlir.constant({bytes} : i64) : i64
  %last = llvm.mlir.constant(63 : i32) : i32
  %tile = llvm.mlir.addressof @tile : !llvm.ptr<3>
  %from = llvm.getelementptr %A[%t] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
  %own = llvm.getelementptr %tile[%t] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
  "llvm.intr.memcpy"(%own, %from, %{size}) <{{isVolatile = {volatile}}}> : (!llvm.ptr<3>, !llvm.ptr<1>, i64) -> ()
  {between}
  %mirror = llvm.sub %last, %t : i32
  %other = llvm.getelementptr %tile[%mirror] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
  %to = llvm.getelementptr %C[%t] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
  "llvm.intr.memmove"(%to, %other, %{size}) <{{isVolatile = false}}> : (!llvm.ptr<1>, !llvm.ptr<3>, i64) -> ()
  llvm.return
}}
"""
RIGHT = {"bytes": 4, "size": "bytes", "volatile": "false", "between": "nvvm.barrier"}


def verdict(text: str) -> tuple[str, set[str]]:
    checked = check_text(text)
    found = "unsafe" if checked.unsafe else "unknown" if checked.unknown else "proven"
    return found, codes(checked.report)


def raced(text: str) -> frozenset[str]:
    source = np.arange(65, dtype=np.float32)
    return run(text, source, np.zeros(66, np.float32), 4, threads=64).race_codes


def test_a_word_each_is_proven_and_copied():
    text = KERNEL.format(**RIGHT)
    assert verdict(text) == ("proven", set())
    source = np.arange(64, dtype=np.float32)
    result = run(text, source, np.zeros(64, np.float32), 4, threads=64)
    assert result.races == ()
    np.testing.assert_array_equal(result.arrays[1], source[::-1])


@pytest.mark.parametrize(
    "changes",
    [{"between": ""}, {"between": "", "volatile": "true"}, {"bytes": 5}],
    ids=["no barrier", "volatile is not atomic", "a byte of the neighbour"],
)
def test_what_races_is_named_by_checker_and_machine(changes):
    text = KERNEL.format(**{**RIGHT, **changes})
    found, reported = verdict(text)
    assert found == "unsafe" and "missing-barrier" in reported
    assert "missing-barrier" in raced(text)


@pytest.mark.parametrize("changes", [{"size": "n"}, {"bytes": 0}], ids=["an argument", "none"])
def test_a_size_that_is_no_constant_above_0_is_unknown(changes):
    assert verdict(KERNEL.format(**{**RIGHT, **changes}))[0] == "unknown"


def test_a_thread_fills_and_copies_memory_of_its_own():
    text = """
llvm.func @k(%C: !llvm.ptr<1> {llvm.noalias}) attributes {nvvm.kernel, nvvm.reqntid = array<i32: 64>} {
  %t = nvvm.read.ptx.sreg.tid.x : i32
  %one = llvm.mlir.constant(1 : i32) : i32
  %byte = llvm.mlir.constant(63 : i8) : i8
  %own = llvm.alloca %one x !llvm.array<2 x f32> : (i32) -> !llvm.ptr
  "llvm.intr.memset.inline"(%own, %byte) <{isVolatile = false, len = 8 : i64}> : (!llvm.ptr, i8) -> ()
  %to = llvm.getelementptr %C[%t] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, !llvm.array<2 x f32>
  "llvm.intr.memcpy.inline"(%to, %own) <{isVolatile = false, len = 8 : i64}> : (!llvm.ptr<1>, !llvm.ptr) -> ()
  llvm.return
}
"""
    assert verdict(text) == ("proven", set())
    result = run(text, np.zeros(128, np.float32), threads=64)
    assert result.races == ()
    assert (result.arrays[0].view(np.uint8) == 63).all()
