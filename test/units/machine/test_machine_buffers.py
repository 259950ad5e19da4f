"""Buffers that AMD checks in hardware: what lies outside reads as 0 and is not written.

Covers: machine/access.py, machine/dialects/amd.py, machine/lane_values.py, machine/dialects/memref.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.machine_programs import run

FAT = "memref<8xf32, #amdgpu.address_space<fat_raw_buffer>>"
PART = "memref<4xf32, strided<[1], offset: ?>, #amdgpu.address_space<fat_raw_buffer>>"
SHIFTED = """
func.func @f(%src: memref<8xf32>, %dst: memref<8xf32>) {
  %t = gpu.thread_id x
  %three = arith.constant 3 : index
  %at = arith.addi %t, %three : index
  %from = amdgpu.fat_raw_buffer_cast %src FLAGS : memref<8xf32> to FAT
  BODY
  return
}"""
LOADED = "%v = memref.load %from[%at] : FAT\nmemref.store %v, %dst[%t] : memref<8xf32>"
VECTOR = """%v = vector.load %from[%at] : FAT, vector<2xf32>
  %w = vector.extract %v[1] : f32 from vector<2xf32>
  memref.store %w, %dst[%t] : memref<8xf32>"""
VIEW = f"""%part = memref.subview %from[%t] [4] [1] : FAT to {PART}
  %v = memref.load %part[%three] : {PART}
  memref.store %v, %dst[%t] : memref<8xf32>"""
TO_LDS = """%c0 = arith.constant 0 : index
  %buf = memref.alloc() : memref<8xf32, WG>
  amdgpu.gather_to_lds async %from[%at], %buf[%c0] : f32, FAT, memref<8xf32, WG>
  rocdl.asyncmark
  rocdl.wait.asyncmark 0
  %v = memref.load %buf[%t] : memref<8xf32, WG>
  memref.store %v, %dst[%t] : memref<8xf32>"""


def program(body: str, flags: str = "") -> str:
    return SHIFTED.replace("BODY", body).replace("FLAGS", flags).replace("FAT", FAT)


def shifted(by: int) -> np.ndarray:
    values = np.arange(1, 9, dtype=np.float32)
    return np.append(values, np.zeros(by, np.float32))[by:]


@pytest.mark.parametrize("completion", ("eager", "late", "random:3"))
@pytest.mark.parametrize(
    "body, by",
    [(LOADED, 3), (VECTOR, 4), (VIEW, 3), (TO_LDS, 3)],
    ids="load vector view lds".split(),
)
def test_reads_outside_of_a_checked_buffer_are_zero(body, by, completion):
    given = np.arange(1, 9, dtype=np.float32)
    result = run(
        program(body), given, np.full(8, 7, np.float32), threads=8, warp=8, completion=completion
    )
    assert result.races == ()
    np.testing.assert_array_equal(result.arrays[1], shifted(by))


def test_writes_outside_of_a_checked_buffer_are_dropped():
    body = "%v = arith.constant 9.0 : f32\n memref.store %v, %from[%at] : FAT"
    result = run(program(body), np.zeros(8, np.float32), np.zeros(8, np.float32), threads=8)
    assert result.races == ()
    np.testing.assert_array_equal(result.arrays[0], [0, 0, 0, 9, 9, 9, 9, 9])


def test_an_unchecked_buffer_is_memory_as_any_other():
    given = np.zeros(8, np.float32)
    result = run(program(LOADED, "boundsCheck(false)"), given, given.copy(), threads=8)
    assert "out-of-bounds" in result.race_codes


def test_valid_bytes_shorten_the_buffer():
    text = program(LOADED, "validBytes(%bytes)").replace(
        "%three =", "%bytes = arith.constant 20 : i64\n %three =", 1
    )
    result = run(text, np.ones(8, np.float32), np.zeros(8, np.float32), threads=8)
    np.testing.assert_array_equal(result.arrays[1], [1, 1, 0, 0, 0, 0, 0, 0])


# Raw buffers: subscripts of i32 and offsets in elements; offsets in bytes from a resource on.
RAW = """
func.func @f(%src: memref<8xf32>, %dst: memref<8xf32>) {
  %t = gpu.thread_id x
  %i = arith.index_cast %t : index to i32
  %one = arith.constant 1 : i32
  BODY
  memref.store %v, %dst[%t] : memref<8xf32>
  return
}"""
SUBSCRIPTS = (
    "%v = amdgpu.raw_buffer_load {boundsCheck = true, indexOffset = 2 : i32} %src[%i] sgprOffset %one"
    " : memref<8xf32>, i32 -> f32"
)
NEIGHBOURS = """%w = amdgpu.raw_buffer_load {indexOffset = 2 : i32} %src[%i] : memref<8xf32>, i32 -> vector<2xf32>
  %v = vector.extract %w[1] : f32 from vector<2xf32>"""
POINTERS = """%none = arith.constant 0 : i32
  %flat = arith.constant 0 : i16
  %size = arith.constant SIZE : i64
  %four = arith.constant 4 : i32
  %eight = arith.constant 8 : i32
  %at = arith.muli %i, %four : i32
  %from = arith.addi %at, %eight : i32
  %a = memref.extract_aligned_pointer_as_index %src : memref<8xf32> -> index
  %n = arith.index_cast %a : index to i64
  %p = llvm.inttoptr %n : i64 to !llvm.ptr
  %r = rocdl.make.buffer.rsrc %p, %flat, %size, %none : !llvm.ptr to !llvm.ptr<8>
  %v = rocdl.raw.ptr.buffer.load %r, %from, %four, %none : f32"""


@pytest.mark.parametrize(
    ("body", "lost"),
    [
        (SUBSCRIPTS, 3),
        (NEIGHBOURS, 3),
        (POINTERS.replace("SIZE", "32"), 3),
        (POINTERS.replace("SIZE", "24"), 5),
    ],
    ids="subscripts neighbours pointers resource".split(),
)
def test_raw_buffers_are_read_at_the_sum_of_their_offsets(body, lost):
    given = np.arange(1, 9, dtype=np.float32)
    result = run(RAW.replace("BODY", body), given, np.full(8, 7, np.float32), threads=8, warp=8)
    assert result.races == ()
    wanted = shifted(3)
    wanted[8 - lost :] = 0
    np.testing.assert_array_equal(result.arrays[1], wanted)


def test_writes_beyond_a_raw_buffer_are_dropped_and_races_within_are_found():
    stored = """%v = arith.constant 9.0 : f32
  amdgpu.raw_buffer_store {indexOffset = 5 : i32} %v -> %src[INDEX] : f32 -> memref<8xf32>, i32"""
    text = RAW.replace("BODY", stored)
    result = run(
        text.replace("INDEX", "%i"), np.zeros(8, np.float32), np.zeros(8, np.float32), threads=8
    )
    assert result.races == ()
    np.testing.assert_array_equal(result.arrays[0], [0, 0, 0, 0, 0, 9, 9, 9])
    result = run(
        text.replace("INDEX", "%one"), np.zeros(8, np.float32), np.zeros(8, np.float32), threads=8
    )
    assert {race.code for race in result.races} == {"missing-barrier"}
