"""Accesses of earlier iterations, of any thread, against those of this one and behind the loop."""

from __future__ import annotations

import pytest
from check_harness import check_text

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


@pytest.mark.parametrize("step", [508, 511, 4])
def test_steps_shorter_than_a_chunk_race_in_the_loop_and_behind_it(step: int) -> None:
    checked = check_text(kernel(step, 0))
    assert {code for code, _ in checked.unsafe} == {"not-visible"}
    (summary,) = checked.report.of("checks")
    assert summary.unsafe == 2


@pytest.mark.parametrize("behind", [-1, -4, -511, -1020, -1025])
def test_a_last_chunk_that_reaches_back_into_those_of_other_threads_is_found(behind: int) -> None:
    checked = check_text(kernel(512, behind))
    (summary,) = checked.report.of("checks")
    assert (summary.unsafe, summary.unknown) == (1, 0)
