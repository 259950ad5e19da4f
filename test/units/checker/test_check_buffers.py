"""Loads by buffer resources: which part of the memory they read is not followed, so no race is certain.

Covers: vocabulary/memory_ops.py, checker/as_read.py
"""

from __future__ import annotations

import pytest

from helpers.check_harness import check_text, verdict

KERNEL = """
gpu.module @m {
  gpu.func @k(%rows: memref<64x64xf32> {llvm.noalias}) kernel
      attributes {known_block_size = array<i32: 64, 1, 1>, known_grid_size = array<i32: 1, 1, 1>} {
    %c0 = arith.constant 0 : index
    %one = arith.constant 1 : i32
    %zero = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    %row = arith.index_cast %t : index to i32
    memref.store %zero, %rows[%t, %c0] : memref<64x64xf32>
    BETWEEN
    %v = LOAD
    gpu.return
  }
}"""
BUFFER = "amdgpu.raw_buffer_load %rows[%row, %one] : memref<64x64xf32>, i32, i32 -> f32"
FIRST = "memref.load %rows[%c0, %c0] : memref<64x64xf32>"


@pytest.mark.parametrize(
    ("load", "between", "expected"),
    [
        (BUFFER, "", "unknown"),
        (BUFFER, "gpu.barrier", "safe"),
        (FIRST, "", "unsafe"),
        (FIRST, "gpu.barrier", "safe"),
    ],
)
def test_a_part_that_is_not_followed_makes_no_certain_race(load, between, expected):
    report = check_text(KERNEL.replace("BETWEEN", between).replace("LOAD", load)).report
    assert verdict(report) == expected


RAW = """
gpu.module @m {
  gpu.func @k(%row: memref<64xf32>, %v: f32) kernel
      attributes {known_block_size = array<i32: 64, 1, 1>, known_grid_size = array<i32: 1, 1, 1>} {
    %t = gpu.thread_id x
    %one = arith.constant 1 : index
    %next = arith.xori %t, %one : index
    %mine = arith.index_cast %t : index to i32
    %theirs = arith.index_cast %next : index to i32
    memref.store %v, %row[%t] : memref<64xf32>
    %x = amdgpu.raw_buffer_load {ATTRIBUTES} %row[INDEX] : memref<64xf32>, i32 -> f32
    gpu.return
  }
}"""


@pytest.mark.parametrize(
    ("index", "attributes", "expected"),
    [
        ("%mine", "", "safe"),
        ("%mine", "indexOffset = 1 : i32", "unknown"),
        ("%theirs", "", "unknown"),
        ("%theirs", "boundsCheck = false", "unsafe"),
    ],
)
def test_buffers_of_one_dimension_are_followed_by_their_subscript(index, attributes, expected):
    """What is out of bounds is read as 0: a race is certain only where that is ruled out."""
    text = RAW.replace("INDEX", index).replace("ATTRIBUTES", attributes)
    assert verdict(check_text(text).report) == expected


RESOURCE = """
module attributes {{"ttg.num-warps" = 1 : i32, "ttg.threads-per-warp" = 64 : i32}} {{
llvm.func @f(%p: !llvm.ptr<1> {{llvm.noalias}}, %x: i32, %mask: i1, %n: i64) attributes {{rocdl.kernel}} {{
  %c0 = llvm.mlir.constant(0 : i32) : i32
  %c4 = llvm.mlir.constant(4 : i32) : i32
  %out = llvm.mlir.constant(-2147483648 : i32) : i32
  %flat = llvm.mlir.constant(0 : i16) : i16
  %rows = llvm.mlir.constant(16 : i16) : i16
  %size = llvm.mlir.constant(2147483646 : i64) : i64
  %large = llvm.mlir.constant(4294967295 : i64) : i64
  %flags = llvm.mlir.constant(159744 : i32) : i32
  %by_lane = llvm.mlir.constant(8548352 : i32) : i32
  %tid = rocdl.workitem.id.x : i32
  %at = llvm.mul %tid, %c4 : i32
  %odd = llvm.xor %at, %c4 : i32
  %masked = llvm.select %mask, %at, %out : i1, i32
  %either = llvm.select %mask, %at, %c4 : i1, i32
  %r = rocdl.make.buffer.rsrc %p, {stride}, {size}, {flags} : <1> to <8>
  {body}
  llvm.return
}}}}"""
STORE = "rocdl.raw.ptr.buffer.store %x, %r, {}, {}, %c0 : i32"
LOAD = "%v = rocdl.raw.ptr.buffer.load %r, {}, %c0, %c0 : i32"
ALONE = {"stride": "%flat", "size": "%size", "flags": "%flags"}


@pytest.mark.parametrize(
    ("body", "changes", "expected"),
    [
        # Each thread has a place of its own, masked or not.
        (STORE.format("%at", "%c0"), {}, "safe"),
        (STORE.format("%masked", "%c0"), {}, "safe"),
        (LOAD.format("%masked") + "\n  " + STORE.format("%masked", "%c0"), {}, "safe"),
        # Another thread's place, and one place of all; it may be out of range.
        (LOAD.format("%odd") + "\n  " + STORE.format("%masked", "%c0"), {}, "unknown"),
        (STORE.format("%either", "%c0"), {}, "unknown"),
        (STORE.format("%c4", "%c0"), {}, "unknown"),
        # What else an address may be made of is not followed.
        (STORE.format("%at", "%c4"), {}, "unknown"),
        (STORE.format("%at", "%c0"), {"stride": "%rows"}, "unknown"),
        (STORE.format("%at", "%c0"), {"size": "%n"}, "unknown"),
        (STORE.format("%at", "%c0"), {"size": "%large"}, "unknown"),
        (STORE.format("%at", "%c0"), {"flags": "%by_lane"}, "unknown"),
    ],
)
def test_offsets_from_a_resource_are_places(body, changes, expected):
    report = check_text(RESOURCE.format(body=body, **(ALONE | changes))).report
    assert verdict(report) == expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("llvm.call @llvm.exp2.f32(%f) : (f32) -> f32", "safe"),
        ("llvm.call @__ockl_get_num_groups(%c0) : (i32) -> i64", "safe"),
        ("llvm.call @__ockl_hostcall(%c0) : (i32) -> i64", "unknown"),
        ("llvm.call @llvm.amdgcn.unheard.of(%c0) : (i32) -> i32", "unknown"),
        ('llvm.call_intrinsic "llvm.amdgcn.ds.permute"(%at, %x) : (i32, i32) -> i32', "safe"),
    ],
)
def test_calls_that_only_compute_touch_no_memory(call, expected):
    body = f"%f = llvm.bitcast %x : i32 to f32\n  %y = {call}\n  " + STORE.format("%at", "%c0")
    names = "llvm.func @llvm.exp2.f32(f32) -> f32\nllvm.func @__ockl_get_num_groups(i32) -> i64\n"
    names += (
        "llvm.func @__ockl_hostcall(i32) -> i64\nllvm.func @llvm.amdgcn.unheard.of(i32) -> i32\n"
    )
    text = RESOURCE.format(body=body, **ALONE).replace("llvm.func @f", f"{names}llvm.func @f")
    assert verdict(check_text(text).report) == expected
