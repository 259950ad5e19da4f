"""Accesses of earlier iterations, of any thread, against those of this one and after the loop.

Covers: checker/iterations.py, checker/carried_slots.py, checker/overlap.py,
checker/forms.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.check_harness import check_module, check_text, machine_races
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


# More stores of one op than are told apart; thread t then loads what thread 63 - t has stored.
MANY_STORES = """
gpu.module @m {{
  gpu.func @k(%out: memref<64xf32> {{llvm.noalias}})
      workgroup(%a: memref<1024xf32, 3>, %b: memref<1024xf32, 3>, %bytes: memref<65536xi8, 3>)
      kernel attributes {{known_block_size = array<i32: 64, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %c16 = arith.constant 16 : index
    %c63 = arith.constant 63 : index
    %c64 = arith.constant 64 : index
    %c256 = arith.constant 256 : index
    %x = arith.constant 1.0 : f32
    %t = gpu.thread_id x
    %other = arith.subi %c63, %t : index
    %p, %q = scf.for %i = %c0 to %c16 step %c1 iter_args(%now = %a, %next = %b)
        -> (memref<1024xf32, 3>, memref<1024xf32, 3>) {{
      %g = nvgpu.device_async_create_group
      nvgpu.device_async_wait %g {{numGroups = 0 : i32}}
      %row = arith.muli %i, %c64 : index
      %at = arith.addi %row, %t : index
      {store}
      scf.yield %next, %now : memref<1024xf32, 3>, memref<1024xf32, 3>
    }}
    %row = arith.constant {row} : index
    {load}
    memref.store %y, %out[%t] : memref<64xf32>
    gpu.return
  }}
}}"""
TWO_BUFFERS = "memref.store %x, %now[%at] : memref<1024xf32, 3>"
FEWER_THREADS = """
%left = arith.subi %c16, %i : index
%fewer = arith.muli %left, %c8 : index
%mine = arith.cmpi ult, %t, %fewer : index
scf.if %mine {
  memref.store %x, %a[%at] : memref<1024xf32, 3>
}"""
VIEWS = """
%square = arith.muli %i, %i : index
%begin = arith.muli %square, %c256 : index
%v = memref.view %bytes[%begin][] : memref<65536xi8, 3> to memref<64xf32, 3>
memref.store %x, %v[%t] : memref<64xf32, 3>"""
OF_BUFFER = """
%place = arith.addi %row, %other : index
%y = memref.load %{}[%place] : memref<1024xf32, 3>"""
OF_VIEW = """
%w = memref.view %bytes[%row][] : memref<65536xi8, 3> to memref<64xf32, 3>
%y = memref.load %w[%other] : memref<64xf32, 3>"""


@pytest.mark.parametrize(
    ("store", "load", "row"),
    [
        (TWO_BUFFERS, OF_BUFFER.format("a"), 0),
        (TWO_BUFFERS, OF_BUFFER.format("b"), 64),
        (TWO_BUFFERS, OF_BUFFER.format("b"), 192),
        (FEWER_THREADS, OF_BUFFER.format("a"), 0),
        (VIEWS, OF_VIEW, 0),
        (VIEWS, OF_VIEW, 1024),
        (VIEWS, OF_VIEW, 2304),
    ],
)
def test_one_access_that_stands_for_many_covers_them_all(store: str, load: str, row: int) -> None:
    """Their memory, where their views begin and their threads differ, not only the iteration."""
    text = MANY_STORES.format(store=store, load=load, row=row)
    found = check_text(text, "nvvm:sm_80")
    races = machine_races(text, "nvvm:sm_80")
    assert races
    assert races <= found.unsafe | found.unknown


# Stores of an iteration each, of a loop around and of one inside: what stands for many must not grow.
TWO_LOOPS = """
gpu.module @m {
  gpu.func @k(%A: memref<64x2xf32> {llvm.noalias}, %out: memref<64x2xf32> {llvm.noalias}, %a: index, %b: index)
      workgroup(%s: memref<2x2xf32, 3>)
      kernel attributes {known_block_size = array<i32: 1, 2, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %c6 = arith.constant 6 : index
    %x = arith.constant 1.0 : f32
    %t = gpu.thread_id x
    scf.for %i = %c0 to %c3 step %c1 {
      %row = arith.muli %i, %c6 : index
      %first = arith.addi %row, %a : index
      %c = nvgpu.device_async_copy %A[%first, %t], %s[%c0, %t], 1 : memref<64x2xf32> to memref<2x2xf32, 3>
      %g = nvgpu.device_async_create_group %c
      %r:2 = scf.for %j = %a to %b step %c1 iter_args(%now = %c0, %next = %c1) -> (index, index) {
        %at = arith.addi %row, %j : index
        %at1 = arith.addi %at, %c1 : index
        gpu.barrier memfence [#gpu.address_space<workgroup>]
        %d = nvgpu.device_async_copy %A[%at1, %t], %s[%next, %t], 1 : memref<64x2xf32> to memref<2x2xf32, 3>
        %h = nvgpu.device_async_create_group %d
        nvgpu.device_async_wait %h {numGroups = 1 : i32}
        gpu.barrier memfence [#gpu.address_space<workgroup>]
        %y = memref.load %s[%now, %t] : memref<2x2xf32, 3>
        memref.store %y, %out[%at, %t] : memref<64x2xf32>
        scf.yield %next, %now : index, index
      }
      nvgpu.device_async_wait %g {numGroups = 0 : i32}
      gpu.barrier memfence [#gpu.address_space<workgroup>]
      %last = arith.addi %row, %b : index
      memref.store %x, %out[%last, %t] : memref<64x2xf32>
    }
    gpu.return
  }
}
"""


def test_what_stands_for_many_stores_settles() -> None:
    """All threads store to column 0, which is told; with ranges that grow it took 15,000 states."""
    found = check_text(TWO_LOOPS, "nvvm:sm_80")
    (summary,) = found.report.of("checks")
    assert summary.states < 2000
    assert found.unsafe
    assert summary.unknown == 0


# The first `%m` iterations store a row each, the others none: the rows lie further back with each iteration.
FIRST_ITERATIONS = """
gpu.module @m {{
  gpu.func @k(%A: memref<?xf32> {{llvm.noalias}}, %m: index, %n: index)
      workgroup(%s: memref<256x32xf32, 3>, %tile: memref<32xf32, 3>)
      kernel attributes {{known_block_size = array<i32: 32, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c31 = arith.constant 31 : index
    %ago = arith.constant {ago} : index
    %x = arith.constant 1.0 : f32
    %t = gpu.thread_id x
    %other = arith.subi %c31, %t : index
    scf.for %k = %c0 to %n step %c1 {{
      %c = nvgpu.device_async_copy %A[%t], %tile[%t], 1 : memref<?xf32> to memref<32xf32, 3>
      %g = nvgpu.device_async_create_group %c
      nvgpu.device_async_wait %g {{numGroups = 0 : i32}}
      %first = arith.cmpi slt, %k, %m : index
      scf.if %first {{
        memref.store %x, %s[%k, %t] : memref<256x32xf32, 3>
      }}
      %late = arith.cmpi sge, %k, %ago : index
      scf.if %late {{
        %row = arith.subi %k, %ago : index
        %y = memref.load %s[%row, {column}] : memref<256x32xf32, 3>
      }}
    }}
    gpu.return
  }}
}}
"""


@pytest.mark.parametrize("ago", [3, 15, 16, 17, 40])
def test_stores_of_the_first_iterations_settle(ago: int) -> None:
    """Each thread reads what it stored itself. With each row at its distance from now there were 20,000 states and no answer."""
    found = check_text(FIRST_ITERATIONS.format(ago=ago, column="%t"), "nvvm:sm_80")
    (summary,) = found.report.of("checks")
    assert summary.states < 4000
    assert not (found.unsafe or found.unknown)


@pytest.mark.parametrize("ago", [3, 15, 16, 17, 40])
def test_a_row_of_long_ago_still_races(ago: int) -> None:
    """What another thread stored as many iterations ago is read without a barrier."""
    text = FIRST_ITERATIONS.format(ago=ago, column="%other")
    found = check_text(text, "nvvm:sm_80")
    (summary,) = found.report.of("checks")
    assert summary.states < 4000
    assert found.unsafe | found.unknown
