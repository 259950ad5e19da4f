"""Matrix ops: which element each lane holds, checked against the vendors' tables.

The expected places are copied element by element from the PTX ISA's figures of mma fragments
and AMD's matrix instruction calculator, not computed by the code under test.

Covers: machine/fragments.py, machine/dialects/amd.py, machine/dialects/gpu.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.machine_programs import run
from mlir_async_pipe.machine import fragments

PLACES = [
    # mma.m16n8k16, 16-bit: register and element of A, B, C
    ("A 16x16x16", fragments.nvidia(16, 8, 16, 16)[0], 5, 0, (1, 2)),
    ("A 16x16x16", fragments.nvidia(16, 8, 16, 16)[0], 5, 3, (9, 3)),
    ("A 16x16x16", fragments.nvidia(16, 8, 16, 16)[0], 5, 4, (1, 10)),
    ("A 16x16x16", fragments.nvidia(16, 8, 16, 16)[0], 31, 7, (15, 15)),
    ("B 16x8x16", fragments.nvidia(16, 8, 16, 16)[1], 6, 0, (4, 1)),
    ("B 16x8x16", fragments.nvidia(16, 8, 16, 16)[1], 6, 3, (13, 1)),
    ("C 16x8", fragments.nvidia(16, 8, 16, 16)[2], 6, 1, (1, 5)),
    ("C 16x8", fragments.nvidia(16, 8, 16, 16)[2], 6, 2, (9, 4)),
    # mma.m16n8k8, tf32
    ("A tf32", fragments.nvidia(16, 8, 8, 32)[0], 5, 1, (9, 1)),
    ("A tf32", fragments.nvidia(16, 8, 8, 32)[0], 5, 2, (1, 5)),
    ("B tf32", fragments.nvidia(16, 8, 8, 32)[1], 5, 1, (5, 1)),
    # mma.m16n8k32, 8-bit
    ("A s8", fragments.nvidia(16, 8, 32, 8)[0], 5, 3, (1, 7)),
    ("A s8", fragments.nvidia(16, 8, 32, 8)[0], 5, 4, (9, 4)),
    ("A s8", fragments.nvidia(16, 8, 32, 8)[0], 5, 8, (1, 20)),
    # mma.m8n8k4, f64
    ("A f64", fragments.nvidia(8, 8, 4, 64)[0], 6, 0, (1, 2)),
    ("C f64", fragments.nvidia(8, 8, 4, 64)[2], 6, 1, (1, 5)),
    # v_mfma_f32_16x16x16_f16
    ("A mfma 16", fragments.cdna(16, 16, 16)[0], 17, 2, (1, 6)),
    ("B mfma 16", fragments.cdna(16, 16, 16)[1], 17, 2, (6, 1)),
    ("C mfma 16", fragments.cdna(16, 16, 16)[2], 17, 2, (6, 1)),
    # v_mfma_f32_32x32x8_f16
    ("A mfma 32", fragments.cdna(32, 32, 8)[0], 33, 3, (1, 7)),
    ("C mfma 32", fragments.cdna(32, 32, 8)[2], 33, 0, (4, 1)),
    ("C mfma 32", fragments.cdna(32, 32, 8)[2], 33, 5, (13, 1)),
    # v_wmma_f32_16x16x16_f16 on gfx11: both halves hold A, rows of C interleaved
    ("A wmma 11", fragments.rdna(11)[0], 18, 9, (2, 9)),
    ("C wmma 11", fragments.rdna(11)[2], 18, 3, (7, 2)),
    # on gfx12: the halves of a wave split k
    ("A wmma 12", fragments.rdna(12)[0], 18, 1, (2, 9)),
    ("C wmma 12", fragments.rdna(12)[2], 18, 3, (11, 2)),
    # v_wmma_f32_16x16x32_f16 on gfx1250
    ("A wmma 1250", fragments.rdna(12, 32)[0], 2, 8, (2, 16)),
    ("A wmma 1250", fragments.rdna(12, 32)[0], 18, 8, (2, 24)),
]


@pytest.mark.parametrize("name, fragment, lane, element, place", PLACES)
def test_lane_holds_the_element_that_the_table_says(name, fragment, lane, element, place):
    assert (fragment.rows[lane, element], fragment.columns[lane, element]) == place


@pytest.mark.parametrize(
    "layouts",
    [
        fragments.nvidia(16, 8, 16, 16),
        fragments.nvidia(16, 8, 32, 8),
        fragments.cdna(16, 16, 16),
        fragments.cdna(32, 32, 8),
        fragments.rdna(12),
        fragments.rdna(12, 32),
    ],
)
def test_every_element_has_exactly_one_owner(layouts):
    for fragment in layouts:
        owners = np.zeros(fragment.shape, int)
        np.add.at(owners, (fragment.rows, fragment.columns), 1)
        assert (owners == 1).all()


LDMATRIX = """
func.func @f(%in: memref<32x8xf16>, %out: memref<32xvector<4x2xf16>>) {
  %t = gpu.thread_id x
  %c0 = arith.constant 0 : index
  %buf = memref.alloc() : memref<32x8xf16, WG>
  %row = vector.load %in[%t, %c0] : memref<32x8xf16>, vector<8xf16>
  vector.store %row, %buf[%t, %c0] : memref<32x8xf16, WG>, vector<8xf16>
  gpu.barrier
  %m = nvgpu.ldmatrix %buf[%t, %c0] {numTiles = 4 : i32, transpose = TRANSPOSE} : memref<32x8xf16, WG> -> vector<4x2xf16>
  memref.store %m, %out[%t] : memref<32xvector<4x2xf16>>
  return
}"""


@pytest.mark.parametrize("transpose", [False, True])
def test_ldmatrix_spreads_rows_over_lanes(transpose):
    given = np.arange(256, dtype=np.float16).reshape(32, 8)
    program = LDMATRIX.replace("TRANSPOSE", str(transpose).lower())
    result = run(program, given, np.zeros((32, 4, 2), np.float16), threads=32)
    assert result.races == ()
    for lane in range(32):
        for tile in range(4):
            matrix = given[8 * tile : 8 * tile + 8]
            matrix = matrix.T if transpose else matrix
            expected = matrix[lane // 4, 2 * (lane % 4) : 2 * (lane % 4) + 2]
            np.testing.assert_array_equal(result.arrays[1][lane, tile], expected)


def test_ldmatrix_reads_the_addresses_of_the_lanes_of_its_tiles_only():
    """With one tile, lanes from 8 on may point anywhere."""
    program = """
    func.func @f(%in: memref<8x8xf16, WG>) {
      %t = gpu.thread_id x
      %c0 = arith.constant 0 : index
      %m = nvgpu.ldmatrix %in[%t, %c0] {numTiles = 1 : i32, transpose = false} : memref<8x8xf16, WG> -> vector<1x2xf16>
      return
    }"""
    given = np.zeros((8, 8), np.float16)
    assert run(program, given, threads=32).races == ()
    four = program.replace("numTiles = 1", "numTiles = 4").replace("vector<1x2", "vector<4x2")
    assert run(four, given, threads=32).race_codes == {"out-of-bounds"}


def test_warp_op_in_a_part_of_a_warp_is_found():
    program = """
    func.func @f(%in: memref<8x8xf16, WG>, %n: index) {
      %t = gpu.thread_id x
      %c0 = arith.constant 0 : index
      %c8 = arith.constant 8 : index
      %row = arith.remui %t, %c8 : index
      %some = arith.cmpi ult, %t, %n : index
      scf.if %some {
        %m = nvgpu.ldmatrix %in[%row, %c0] {numTiles = 1 : i32, transpose = false} : memref<8x8xf16, WG> -> vector<1x2xf16>
      }
      return
    }"""
    given = np.zeros((8, 8), np.float16)
    assert run(program, given, 32, threads=64).races == ()
    assert run(program, given, 40, threads=64).race_codes == {"divergent-warp-op"}


MFMA = """
func.func @f(%a: memref<64xvector<4xf16>>, %b: memref<64xvector<4xf16>>, %c: memref<64xvector<4xf32>>) {
  %t = gpu.thread_id x
  %x = memref.load %a[%t] : memref<64xvector<4xf16>>
  %y = memref.load %b[%t] : memref<64xvector<4xf16>>
  %z = memref.load %c[%t] : memref<64xvector<4xf32>>
  %d = amdgpu.mfma 16x16x16 %x * %y + %z blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
  memref.store %d, %c[%t] : memref<64xvector<4xf32>>
  return
}"""


def test_mfma_multiplies_what_the_lanes_hold():
    random = np.random.default_rng(1)
    a, b = (random.integers(-4, 5, (16, 16)).astype(np.float16) for _ in range(2))
    c = random.integers(-4, 5, (16, 16)).astype(np.float32)
    lane, j = np.arange(64)[:, None], np.arange(4)
    held_a = a[lane % 16, lane // 16 * 4 + j]
    held_b = b[lane // 16 * 4 + j, lane % 16]
    held_c = c[lane // 16 * 4 + j, lane % 16]
    result = run(MFMA, held_a, held_b, held_c, threads=64, warp=64)
    expected = a.astype(np.float32) @ b.astype(np.float32) + c
    np.testing.assert_array_equal(result.arrays[2], expected[lane // 16 * 4 + j, lane % 16])


TRANSPOSE = """
func.func @f(%tile: memref<4x16xf16, #gpu.address_space<workgroup>>, %out: memref<64x4xf16>) {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c16 = arith.constant 16 : index
  %t = gpu.thread_id x
  %lane = arith.remui %t, %c16 : index
  %row = arith.divui %lane, %c4 : index
  %chunk = arith.remui %lane, %c4 : index
  %column = arith.muli %chunk, %c4 : index
  %v = amdgpu.transpose_load %tile[%row, %column] : memref<4x16xf16, #gpu.address_space<workgroup>> -> vector<4xf16>
  vector.store %v, %out[%t, %c0] : memref<64x4xf16>, vector<4xf16>
  return
}"""


def test_transposed_load_gives_each_lane_a_column():
    """ds_read_tr16_b64: 16 lanes read four rows of 16 elements, four elements each."""
    tile = np.arange(64, dtype=np.float16).reshape(4, 16)
    result = run(TRANSPOSE, tile, np.zeros((64, 4), np.float16), threads=64, warp=64)
    np.testing.assert_array_equal(result.arrays[1], np.tile(tile.T, (4, 1)))
