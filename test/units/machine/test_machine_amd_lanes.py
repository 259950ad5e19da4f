"""amdgpu.dpp and rocdl.readlane beside the lanes that LLVM's manual names.

Covers: machine/dialects/amd.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.machine_programs import run
from mlir_async_pipe.session.diagnostics import MachineError

PROGRAM = """
func.func @f(%src: memref<64xi32>, %old: memref<64xi32>, %dst: memref<64xi32>) {
  %t = gpu.thread_id x
  %n = arith.constant 37 : i32
  %v = memref.load %src[%t] : memref<64xi32>
  %o = memref.load %old[%t] : memref<64xi32>
  OP
  memref.store %r, %dst[%t] : memref<64xi32>
  return
}"""
LANE = np.arange(64)
ROW = LANE // 16 * 16


def read_by(op: str) -> list[int]:
    """The lane that each lane reads, negative where it keeps its own old value, -100 for zeros."""
    old = -1 - LANE.astype(np.int32)
    result = run(
        PROGRAM.replace("OP", op),
        LANE.astype(np.int32) + 1,
        old,
        np.zeros(64, np.int32),
        threads=64,
        warp=64,
    )
    assert result.races == ()
    values = result.arrays[2]
    return [int(v) - 1 if v > 0 else (-100 if v == 0 else int(v)) for v in values]


@pytest.mark.parametrize(
    "op, lanes",
    [
        ("quad_perm([1 : i32, 0 : i32, 3 : i32, 2 : i32])", LANE ^ 1),
        ("quad_perm([2 : i32, 3 : i32, 0 : i32, 1 : i32])", LANE ^ 2),
        ("row_mirror", ROW + 15 - LANE % 16),
        ("row_half_mirror", LANE // 8 * 8 + 7 - LANE % 8),
        ("row_ror(3 : i32)", ROW + (LANE - 3) % 16),
        ("row_shr(1 : i32)", np.where(LANE % 16 > 0, LANE - 1, -1 - LANE)),
        ("row_shl(2 : i32) {bound_ctrl = true}", np.where(LANE % 16 < 14, LANE + 2, -100)),
        ("row_bcast_15", np.where(LANE > 15, ROW - 1, -1 - LANE)),
        ("row_bcast_15 {bound_ctrl = true}", np.where(LANE > 15, ROW - 1, -1 - LANE)),
        ("row_bcast_31", np.where(LANE > 31, 31, -1 - LANE)),
        ("row_bcast_15 {row_mask = 10 : i32}", np.where((LANE // 16) % 2 == 1, ROW - 1, -1 - LANE)),
        (
            "row_mirror {bank_mask = 1 : i32}",
            np.where(LANE % 16 < 4, ROW + 15 - LANE % 16, -1 - LANE),
        ),
    ],
)
def test_a_lane_reads_the_lane_that_the_kind_says(op, lanes):
    assert read_by(f"%r = amdgpu.dpp %o %v {op} : i32") == list(lanes)


def test_readlane_gives_one_value_to_the_wave():
    assert read_by("%r = rocdl.readlane %v, %n : (i32, i32) -> i32") == [37] * 64


def test_a_shift_of_the_whole_wave_is_refused():
    with pytest.raises(MachineError, match="kind wave_shl"):
        read_by("%r = amdgpu.dpp %o %v wave_shl : i32")
