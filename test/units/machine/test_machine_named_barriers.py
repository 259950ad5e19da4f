"""Barriers of some threads of a block: two warps hand a row back and forth.

Covers: machine/dialects/nvvm.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.machine_programs import run
from mlir_async_pipe.machine.warp_order import SCHEDULES
from mlir_async_pipe.session.diagnostics import MachineError

SYNC = "nvvm.barrier id = {id} number_of_threads = %both"
ARRIVE = "nvvm.barrier.arrive id = {id} number_of_threads = %both"
# Warp 0 writes row i when the row before is read, warp 1 reads it when it is written; warp 2 takes
# no part.
PROGRAM = """
func.func @f(%out: memref<5x32xf32>) {
  %row = memref.alloc() : memref<32xf32, WG>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %c31 = arith.constant 31 : index
  %c32 = arith.constant 32 : index
  %written = arith.constant 1 : i32
  %read = arith.constant 2 : i32
  %both = arith.constant 64 : i32
  %t = gpu.thread_id x
  %warp = arith.divui %t, %c32 : index
  %lane = arith.remui %t, %c32 : index
  scf.index_switch %warp
  case 0 {
    scf.for %i = %c0 to %c5 step %c1 {
      BEFORE
      %n = arith.index_cast %i : index to i32
      %v = arith.sitofp %n : i32 to f32
      memref.store %v, %row[%lane] : memref<32xf32, WG>
      WRITTEN
    }
    scf.yield
  }
  case 1 {
    FIRST
    scf.for %i = %c0 to %c5 step %c1 {
      WAIT
      %mirrored = arith.subi %c31, %lane : index
      %v = memref.load %row[%mirrored] : memref<32xf32, WG>
      memref.store %v, %out[%i, %lane] : memref<5x32xf32>
      GIVE
    }
    LAST
    scf.yield
  }
  default {
    scf.yield
  }
  return
}"""
PARTS = {
    "BEFORE": SYNC.format(id="%read"),
    "WRITTEN": ARRIVE.format(id="%written"),
    "FIRST": ARRIVE.format(id="%read"),
    "WAIT": SYNC.format(id="%written"),
    "GIVE": ARRIVE.format(id="%read"),
    "LAST": "",
}


def handed(schedule: str = "lockstep", **changes: str):
    text = PROGRAM
    for name, part in {**PARTS, **changes}.items():
        text = text.replace(name, part)
    return run(text, np.zeros((5, 32), np.float32), threads=96, schedule=schedule)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_two_warps_hand_a_row_back_and_forth(schedule):
    result = handed(schedule)
    assert result.races == ()
    np.testing.assert_array_equal(result.arrays[0], np.repeat(np.arange(5), 32).reshape(5, 32))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    ("changes", "codes"),
    [
        ({"WAIT": ""}, {"missing-barrier", "uninitialised-read"}),
        ({"BEFORE": ""}, {"missing-barrier", "deadlock"}),
        ({"FIRST": ""}, {"deadlock"}),
        ({"WRITTEN": ""}, {"deadlock"}),
        ({"GIVE": ""}, {"deadlock"}),
    ],
    ids=["reader does not wait", "writer does not wait", "no start", "not told", "not given back"],
)
def test_a_part_that_is_missing_is_found(schedule, changes, codes):
    assert handed(schedule, **changes).race_codes & codes


def test_a_deadlock_tells_the_barrier():
    reported = str(handed(FIRST="").races[0])
    assert (
        "'nvvm.barrier' waits for ever (barrier 2: phase 0 lacks 32 arrivals, 0 bytes" in reported
    )


def test_two_counts_of_one_barrier_are_refused():
    with pytest.raises(MachineError, match="barrier 1 of 64 threads, and of 96"):
        handed(
            WAIT="%more = arith.constant 96 : i32\n"
            "nvvm.barrier id = %written number_of_threads = %more"
        )


def test_who_has_arrived_may_not_come_again_before_the_phase_is_over():
    """Two arrivals of one warp are as many threads as one of each, and are no phase (PTX ISA)."""
    twice = PARTS["WRITTEN"] + "\n" + PARTS["WRITTEN"]
    assert handed(WRITTEN=twice).race_codes & {"too-many-arrivals"}
