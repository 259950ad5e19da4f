"""Several pipelined loops in one function, and what stands before, between and after them.

Covers: pipeliner/plan/barrier_pairs.py, pipeliner/dependence/surroundings.py, pipeliner/dependence/privatise.py
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from helpers.row_programs import (
    copying_loop,
    counts,
    kernel,
    pipelined,
    proven,
    stored_to,
    wrong_runs,
)
from mlir_async_pipe.bindings import new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.session.diagnostics import AsyncPipeError
from mlir_async_pipe.session.report import Session

SIZES = [(n, 0) for n in range(7)]
STAGES = "async_pipe.num_stages = {} : i64"


@pytest.fixture(autouse=True)
def _context() -> Iterator[None]:
    with new_context():
        yield


def versions(session: Session) -> list[list[int]]:
    return [[b.versions for b in loop.buffers] for loop in session.report().of("loops")]


def workgroup_types(module: object) -> list[str]:
    return [str(op.results[0].type) for op in walk(module) if op.name == "memref.alloc"]


def test_two_loops_share_the_versions_of_one_buffer() -> None:
    text = kernel(copying_loop() + copying_loop(first_row="%c16"))
    module, session = pipelined(text)
    assert versions(session) == [[3], [3]]
    assert workgroup_types(module) == ["memref<3x4xf32, #gpu.address_space<workgroup>>"]
    assert proven(session)
    assert wrong_runs(text, module, SIZES) == []


def test_the_deeper_loop_says_how_many_versions_are_made() -> None:
    text = kernel(
        copying_loop(STAGES.format(2))
        + copying_loop(STAGES.format(4), first_row="%c16")
        + copying_loop(STAGES.format(3), first_row="%c5")
    )
    module, session = pipelined(text)
    assert versions(session) == [[2], [4], [3]]
    assert workgroup_types(module) == ["memref<4x4xf32, #gpu.address_space<workgroup>>"]
    assert proven(session)
    assert wrong_runs(text, module, SIZES) == []


def test_a_loop_that_is_not_pipelined_uses_slot_zero() -> None:
    text = kernel(copying_loop() + copying_loop("", first_row="%c16") + copying_loop())
    module, session = pipelined(text)
    assert proven(session)
    assert wrong_runs(text, module, SIZES) == []


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("trips", ["%n", "%c5", "%c2"])
def test_what_the_last_iteration_wrote_is_read_after_the_loop(stages: int, trips: str) -> None:
    text = kernel(copying_loop(STAGES.format(stages), trips=trips) + stored_to("%c16"))
    module, session = pipelined(text)
    assert [v for (v,) in versions(session)] == ([stages] if trips != "%c2" or stages < 4 else [])
    assert proven(session)
    sizes = [(n, 0) for n in range(1, 7)] if trips == "%n" else [(0, 0)]
    assert wrong_runs(text, module, sizes) == []


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_a_loop_of_no_iterations_leaves_what_stood_before_it(stages: int) -> None:
    store = """
  %first = memref.load %A[%c5, %t] : memref<32x4xf32>
  memref.store %first, %B[%t] : memref<4xf32, #wg>
  gpu.barrier
"""
    text = kernel(store + copying_loop(STAGES.format(stages)) + stored_to("%c16"))
    module, session = pipelined(text)
    assert proven(session)
    assert wrong_runs(text, module, SIZES) == []


def test_the_next_loop_may_read_what_the_one_before_it_left() -> None:
    reader = """
  scf.for %i = %c0 to %n step %c1 {
    %v = memref.load %B[%other] : memref<4xf32, #wg>
    %row = arith.addi %i, %c16 : index
    memref.store %v, %O[%row, %t] : memref<32x4xf32>
  }
"""
    text = kernel(copying_loop() + reader)
    module, session = pipelined(text)
    assert versions(session) == [[3]]
    assert proven(session)
    assert wrong_runs(text, module, SIZES[1:]) == []


def test_readers_before_the_loop_meet_it_again_in_an_outer_loop() -> None:
    text = kernel(
        "memref.store %zero, %B[%t] : memref<4xf32, #wg>\n gpu.barrier\n"
        "scf.for %o = %c0 to %m step %c1 {\n"
        "%row16 = arith.addi %o, %c16 : index\n"
        + stored_to("%row16")
        + "gpu.barrier\n"
        + copying_loop()
        + "}"
    ).replace("%t = gpu", "%zero = arith.constant 0.0 : f32\n  %t = gpu")
    module, session = pipelined(text)
    assert versions(session) == [[3]]
    assert wrong_runs(text, module, [(n, m) for n in range(4) for m in range(4)]) == []


HALF_WRITTEN = """
  scf.for %i = %c0 to %n step %c1 {
    %x = memref.load %A[%i, %t] : memref<32x4xf32>
    %early = arith.cmpi ult, %i, %c2 : index
    scf.if %early {
      memref.store %x, %B[%t] : memref<4xf32, #wg>
    }
    scf.if %early {
      %v = memref.load %B[%t] : memref<4xf32, #wg>
      memref.store %v, %O[%i, %t] : memref<32x4xf32>
    }
  } {async_pipe.stage = [0, 0, 1]}
"""


def test_a_reader_after_a_loop_that_writes_not_everything_each_time_is_refused() -> None:
    text = kernel(HALF_WRITTEN + stored_to("%c16", place="%t"))
    with pytest.raises(AsyncPipeError) as caught:
        pipelined(text)
    assert caught.value.code == "escapes"
    pipelined(text.replace(stored_to("%c16", place="%t"), ""))


def test_one_barrier_stands_between_two_loops() -> None:
    text = kernel(copying_loop(trips="%c5") + copying_loop(first_row="%c16", trips="%c5"))
    module, session = pipelined(text)
    kinds = [op.name for op in walk(module) if op.name in ("gpu.barrier", "scf.for")]
    # Kernel 1, epilogue 2, what the shared buffer needs in between, kernel 1, epilogue 2.
    one = ["scf.for", *["gpu.barrier"] * 3]
    assert kinds == [*one, "gpu.barrier", *one]
    assert proven(session)
    assert wrong_runs(text, module, [(0, 0)]) == []


def test_a_group_in_flight_over_a_whole_loop_is_counted_over_it() -> None:
    """The copy into %C is issued before the loop and needed after it: the loop's own
    waits retire it on the way, and its own count is the number of groups of the loop."""
    text = kernel(
        """
  %C = memref.alloc() : memref<4xf32, #wg>
  %ahead = nvgpu.device_async_copy %A[%c16, %t], %C[%t], 1 : memref<32x4xf32> to memref<4xf32, #wg>
  %early = nvgpu.device_async_create_group %ahead
"""
        + copying_loop(trips="%c5")
        + """
  nvgpu.device_async_wait %early
  gpu.barrier
"""
        + stored_to("%c16", "%C")
    )
    module, session = pipelined(text)
    assert proven(session)
    assert wrong_runs(text, module, [(0, 0)]) == []
    # Kernel 1, epilogue 1 and 0; the wait for the early group is redundant after a count of 0.
    assert counts(module) == [1, 1, 0]


CALLEE = """
func.func private @g(%B: memref<4xf32, #wg>, %O: memref<32x4xf32>, %r: index) {
  %t = gpu.thread_id x
  %v = memref.load %B[%t] : memref<4xf32, #wg>
  memref.store %v, %O[%r, %t] : memref<32x4xf32>
  return
}
"""
CALL = "func.call @g(%B, %O, %c16) : (memref<4xf32, #wg>, memref<32x4xf32>, index) -> ()\n"
CHOSEN = """
  %C = memref.alloc() : memref<4xf32, #wg>
  %p = arith.cmpi eq, %m, %c1 : index
  %S = arith.select %p, %B, %C : memref<4xf32, #wg>
"""


def refused(text: str) -> str:
    with pytest.raises(AsyncPipeError) as caught:
        pipelined(text)
    return caught.value.code


def test_a_call_after_the_loop_sees_the_last_iteration() -> None:
    text = kernel(copying_loop() + CALL) + CALLEE
    module, session = pipelined(text)
    assert versions(session) == [[3]]
    assert wrong_runs(text, module, SIZES[1:]) == []


def test_a_call_that_may_see_an_older_iteration_is_refused() -> None:
    assert refused(kernel(HALF_WRITTEN + CALL) + CALLEE) == "escapes"


def test_a_read_through_another_name_that_may_see_an_older_iteration_is_refused() -> None:
    text = kernel(CHOSEN + HALF_WRITTEN + stored_to("%c16", "%S", "%t"))
    assert refused(text) == "escapes"


def test_a_global_that_another_function_reads_is_refused() -> None:
    declared = 'memref.global "private" @buf : memref<4xf32, #wg>\n'
    get = "%B = memref.get_global @buf : memref<4xf32, #wg>"
    callee = CALLEE.replace("%B: memref<4xf32, #wg>, ", "").replace("%t = gpu", f"{get}\n%t = gpu")
    call = "func.call @g(%O, %c16) : (memref<32x4xf32>, index) -> ()\n"
    text = (
        kernel(copying_loop() + call)
        .replace("%B = memref.alloc() : memref<4xf32, #wg>", get)
        .replace("func.func @f", f"{declared}func.func @f")
    )
    assert refused(text + callee) == "escapes"
    pipelined(text.replace(call, ""))


PREDICATED = 'async_pipe.num_stages = 3 : i64, async_pipe.short_trip = "predicate"'


def test_a_predicated_loop_leaves_its_last_version_to_the_reader_after_it() -> None:
    text = kernel(copying_loop(PREDICATED) + stored_to("%c16"))
    module, session = pipelined(text)
    assert versions(session) == [[3]]
    assert proven(session)
    assert wrong_runs(text, module, SIZES[1:]) == []


def test_a_predicated_copy_does_not_fill_memory_with_zeros_that_is_read_later() -> None:
    """After the last iteration the copy of a predicated kernel writes zeros: into a slot that
    is free, or not at all."""
    text = kernel(
        """
  %C = memref.alloc() : memref<32x4xf32, #wg>
  scf.for %i = %c0 to %n step %c1 {
    %tk = nvgpu.device_async_copy %A[%i, %t], %C[%i, %t], 1 : memref<32x4xf32> to memref<32x4xf32, #wg>
    %g = nvgpu.device_async_create_group %tk
    nvgpu.device_async_wait %g
    %v = memref.load %C[%i, %t] : memref<32x4xf32, #wg>
    memref.store %v, %O[%i, %t] : memref<32x4xf32>
  } {async_pipe.stage = [0, 1, 1], async_pipe.async_stages = [0], async_pipe.short_trip = "predicate"}
"""
    )
    assert refused(text) == "predicate-unsupported"
