"""Loads by buffer resources: which part of the memory they read is not followed, so no race is certain.

Covers: vocabulary/memory_ops.py
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
