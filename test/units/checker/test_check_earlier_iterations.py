"""Accesses of earlier iterations, of any thread, against those of this one and after the loop.

Covers: checker/iterations.py, checker/carried_slots.py, checker/slots.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.check_harness import check_module, check_text
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context

# Each thread stores 4 floats of a chunk of 512 in an async scope; the barrier does not publish
# global memory, so all the stores of the iterations before are compared with that of this one.
KERNEL = """
gpu.module @m {{
  gpu.func @k(%D: memref<?xf32> {{llvm.noalias}}, %n: index) workgroup(%s: memref<512xf32, 3>)
      kernel attributes {{known_block_size = array<i32: 128, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %step = arith.constant {step} : index
    %behind = arith.constant {behind} : index
    %tid = gpu.thread_id x
    %t = arith.muli %tid, %c4 : index
    %some = arith.cmpi uge, %n, %c1 : index
    scf.if %some {{
      %trips = arith.subi %n, %c1 : index
      %end = arith.muli %trips, %step : index
      scf.for %i = %c0 to %end step %step {{
        %here = arith.addi %i, %t : index
        {store}
        gpu.barrier memfence [#gpu.address_space<workgroup>]
      }}
      %last = arith.addi %end, %t : index
      %here = arith.addi %last, %behind : index
      {store}
    }}
    gpu.return
  }}
}}
"""
STORE = """
"async_pipe.scope"() ({
  %v = vector.load %s[%t] : memref<512xf32, 3>, vector<4xf32>
  vector.store %v, %D[%here] : memref<?xf32>, vector<4xf32>
  "async_pipe.yield"() : () -> ()
}) {queue = 0 : i64} : () -> ()
%g = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> !nvgpu.device.async.token
"async_pipe.wait_queue"() {queue = 0 : i64, count = 0 : i64} : () -> ()
"""


def kernel(step: int, behind: int) -> str:
    return KERNEL.format(step=step, behind=behind, store=STORE)


@pytest.mark.parametrize(
    ("step", "behind"), [(512, 0), (513, 0), (1024, 0), (512, 512), (512, -512), (512, -1024)]
)
def test_stores_to_chunks_of_512_never_meet(step: int, behind: int) -> None:
    """A whole chunk back each thread meets only itself, and it has waited for itself."""
    checked = check_text(kernel(step, behind))
    (summary,) = checked.report.of("checks")
    assert (summary.unsafe, summary.unknown) == (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("step", [508, 511, 4])
def test_steps_shorter_than_a_chunk_race_in_the_loop_and_after_it(step: int) -> None:
    checked = check_text(kernel(step, 0))
    assert {code for code, _ in checked.unsafe} == {"not-visible"}
    (summary,) = checked.report.of("checks")
    assert summary.unsafe == 2


@pytest.mark.parametrize("behind", [-1, -4, -511, -1020, -1025])
def test_a_last_chunk_that_reaches_back_into_those_of_other_threads_is_found(behind: int) -> None:
    checked = check_text(kernel(512, behind))
    (summary,) = checked.report.of("checks")
    assert (summary.unsafe, summary.unknown) == (1, 0)


# Each iteration stores a row of its own; after the loop row 0 is read by other threads, which
# no barrier told of the store. With a trip count of 40 the store is 39 iterations back.
ROWS = """
gpu.module @m {
  gpu.func @k(%D: memref<?x4xf32> {llvm.noalias}, %n: index) workgroup(%s: memref<4xf32, 3>)
      kernel attributes {known_block_size = array<i32: 4, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %c40 = arith.constant 40 : index
    %t = gpu.thread_id x
    scf.for %i = %c0 to %n step %c1 {
      "async_pipe.scope"() ({
        %v = memref.load %s[%t] : memref<4xf32, 3>
        memref.store %v, %D[%i, %t] : memref<?x4xf32>
        "async_pipe.yield"() : () -> ()
      }) {queue = 0 : i64} : () -> ()
      %g = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> !nvgpu.device.async.token
      "async_pipe.wait_queue"() {queue = 0 : i64, count = 0 : i64} : () -> ()
      gpu.barrier memfence [#gpu.address_space<workgroup>]
    }
    %many = arith.cmpi uge, %n, %c40 : index
    scf.if %many {
      %u = arith.subi %c3, %t : index
      %x = memref.load %D[%c0, %u] : memref<?x4xf32>
    }
    gpu.return
  }
}
"""


def test_a_store_many_iterations_back_is_not_forgotten() -> None:
    """A row of 4 says nothing about how many rows there are."""
    with new_context():
        module = ir.Module.parse(ROWS)
        arrays = [np.zeros((40, 4), dtype=np.float32), 40]
        result = machine.run(module, "k", arrays, threads=(4, 1, 1), completion="late")
        checked = check_module(module)
    races = {(race.code, str(race.place)) for race in result.races}
    assert {code for code, _ in races} >= {"not-visible"}
    assert {entry for entry in races if entry[0] == "not-visible"} <= (
        checked.unsafe | checked.unknown
    )
