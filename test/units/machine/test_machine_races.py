"""The race detector: right programs are clean, and each breakage has its name and both ends.

Covers: machine/detector.py, machine/run_kernel.py, machine/access.py
"""

import numpy as np
import pytest

from helpers.machine_programs import codes, run, two_slots, two_slots_source, zeros
from mlir_async_pipe import machine

COMPLETIONS = ("eager", "late", "random:1", "random:2")


@pytest.mark.parametrize("completion", COMPLETIONS)
@pytest.mark.parametrize("schedule", machine.SCHEDULES)
def test_correct_double_buffer_is_clean_and_right(completion, schedule):
    source = two_slots_source()
    result = run(
        two_slots(),
        source,
        zeros(16, 8),
        threads=8,
        warp=4,
        completion=completion,
        schedule=schedule,
    )
    assert result.races == ()
    np.testing.assert_array_equal(result.arrays[1], source[:, ::-1])


BREAKAGES = {
    "count too large": (
        two_slots("nvgpu.device_async_wait %g {numGroups = 2 : i32}\ngpu.barrier"),
        "read-in-flight",
    ),
    "no wait": (two_slots("gpu.barrier"), "read-in-flight"),
    "no barrier after the wait": (
        two_slots("nvgpu.device_async_wait %g {numGroups = 1 : i32}"),
        "not-visible",
    ),
    "wait after the barrier": (
        two_slots("gpu.barrier\nnvgpu.device_async_wait %g {numGroups = 1 : i32}"),
        "not-visible",
    ),
    "no barrier before the slot is reused": (two_slots(release=""), "missing-barrier"),
    "barrier that orders global memory only": (
        two_slots(release="gpu.barrier memfence [#gpu.address_space<global>]"),
        "missing-barrier",
    ),
    "a version fewer": (
        two_slots().replace("%next = arith.remui %i1, %c2", "%next = arith.remui %i, %c2"),
        "overwrite-in-flight",
    ),
}


@pytest.mark.parametrize("completion", COMPLETIONS)
@pytest.mark.parametrize("name", BREAKAGES)
def test_breakage_is_named_under_every_completion(name, completion):
    program, code = BREAKAGES[name]
    options = {"threads": 8, "completion": completion}
    assert code in codes(program, two_slots_source(), zeros(16, 8), **options)


@pytest.mark.parametrize("schedule", ("forward", "backward", "random"))
def test_breakage_is_named_under_every_schedule(schedule):
    program, code = BREAKAGES["no barrier before the slot is reused"]
    options = {"threads": 8, "warp": 2, "schedule": schedule}
    assert code in codes(program, two_slots_source(), zeros(16, 8), **options)


def test_late_completion_shows_the_race_in_the_values_too():
    program, _ = BREAKAGES["count too large"]
    source = two_slots_source()
    eager = run(program, source, zeros(16, 8), threads=8, completion="eager")
    late = run(program, source, zeros(16, 8), threads=8, completion="late")
    np.testing.assert_array_equal(eager.arrays[1], source[:, ::-1])
    assert np.isnan(late.arrays[1]).any()


def test_race_has_both_ends_at_their_locations():
    program, code = BREAKAGES["no wait"]
    result = run(program, two_slots_source(), zeros(16, 8), threads=8)
    race = next(race for race in result.races if race.code == code)
    lines = program.split("\n")
    assert race.op == "memref.load" and "%buf[%slot" in lines[race.place.line - 1]
    assert race.other_op == "nvgpu.device_async_copy"
    assert "nvgpu.device_async_copy" in lines[race.other_place.line - 1]
    assert race.thread != race.other_thread
    assert "[read-in-flight]" in str(race) and "note: the other access" in str(race)


def test_source_may_not_be_overwritten_in_flight():
    program = """
    func.func @f(%src: memref<4xf32>, %v: f32) {
      %buf = memref.alloc() : memref<4xf32, WG>
      %c0 = arith.constant 0 : index
      %tok = nvgpu.device_async_copy %src[%c0], %buf[%c0], 4 : memref<4xf32> to memref<4xf32, WG>
      %g = nvgpu.device_async_create_group %tok
      memref.store %v, %src[%c0] : memref<4xf32>
      nvgpu.device_async_wait %g
      return
    }"""
    assert codes(program, np.ones(4, np.float32), 5.0) == {"source-overwritten"}


def test_source_may_be_read_in_flight():
    program = """
    func.func @f(%src: memref<4xf32>) -> f32 {
      %buf = memref.alloc() : memref<4xf32, WG>
      %c0 = arith.constant 0 : index
      %tok = nvgpu.device_async_copy %src[%c0], %buf[%c0], 4 : memref<4xf32> to memref<4xf32, WG>
      %g = nvgpu.device_async_create_group %tok
      %v = memref.load %src[%c0] : memref<4xf32>
      nvgpu.device_async_wait %g
      return %v : f32
    }"""
    assert codes(program, np.ones(4, np.float32)) == set()


ATOMIC = """
func.func @f(%src: memref<4xf32>, %v: f32) {
  %buf = memref.alloc() : memref<4xf32, WG>
  %c0 = arith.constant 0 : index
  %tok = nvgpu.device_async_copy %src[%c0], %buf[%c0], 4 : memref<4xf32> to memref<4xf32, WG>
  %g = nvgpu.device_async_create_group %tok
  %old = memref.atomic_rmw addf %v, MEMORY[%c0] : (f32, TYPE) -> f32
  nvgpu.device_async_wait %g
  return
}"""


@pytest.mark.parametrize("memory", ("%src|memref<4xf32>", "%buf|memref<4xf32, WG>"))
def test_atomic_on_a_range_in_flight_races(memory):
    name, kind = memory.split("|")
    program = ATOMIC.replace("MEMORY", name).replace("TYPE", kind)
    assert "atomic-in-flight" in codes(program, np.ones(4, np.float32), 1.0)


def test_atomics_of_many_threads_do_not_race_with_each_other():
    program = """
    func.func @f(%sum: memref<1xi32>) {
      %c0 = arith.constant 0 : index
      %one = arith.constant 1 : i32
      %old = memref.atomic_rmw addi %one, %sum[%c0] : (i32, memref<1xi32>) -> i32
      return
    }"""
    result = run(program, np.zeros(1, np.int32), threads=64, grid=3)
    assert result.races == () and result.arrays[0][0] == 192


def test_plain_store_races_with_an_atomic_of_another_thread():
    program = """
    func.func @f(%sum: memref<2xi32>) {
      %c0 = arith.constant 0 : index
      %t = gpu.thread_id x
      %one = arith.constant 1 : i32
      memref.store %one, %sum[%t] : memref<2xi32>
      %old = memref.atomic_rmw addi %one, %sum[%c0] : (i32, memref<2xi32>) -> i32
      return
    }"""
    assert codes(program, np.zeros(2, np.int32), threads=2) == {"missing-barrier"}


def test_two_threads_storing_one_location_race_within_one_op():
    program = """
    func.func @f(%a: memref<1xi32>) {
      %c0 = arith.constant 0 : index
      %one = arith.constant 1 : i32
      memref.store %one, %a[%c0] : memref<1xi32>
      return
    }"""
    assert codes(program, np.zeros(1, np.int32), threads=2) == {"missing-barrier"}
    assert codes(program, np.zeros(1, np.int32), threads=1) == set()


@pytest.mark.parametrize(
    "kind, dtype",
    [
        ("i8", np.int8),
        ("i16", np.int16),
        ("f16", np.float16),
        ("bf16", np.uint16),
        ("f32", np.float32),
        ("i64", np.int64),
    ],
)
def test_neighbours_of_any_size_do_not_race(kind, dtype):
    program = f"""
    func.func @f(%a: memref<8x{kind}>) {{
      %t = gpu.thread_id x
      %v = memref.load %a[%t] : memref<8x{kind}>
      memref.store %v, %a[%t] : memref<8x{kind}>
      return
    }}"""
    assert codes(program, np.ones(8, dtype), threads=8) == set()


def test_vector_elements_of_half_size_are_distinguished():
    program = """
    func.func @f(%a: memref<4xvector<2xf16>>, %b: memref<8xf32>) {
      %t = gpu.thread_id x
      %v = memref.load %a[%t] : memref<4xvector<2xf16>>
      memref.store %v, %a[%t] : memref<4xvector<2xf16>>
      return
    }"""
    assert codes(program, np.ones((4, 2), np.float16), zeros(8), threads=4) == set()


def test_blocks_of_a_grid_are_not_ordered():
    program = """
    func.func @f(%a: memref<4xi32>) {
      %b = gpu.block_id x
      %one = arith.constant 1 : index
      %zero = arith.constant 0 : index
      %v = arith.index_cast %b : index to i32
      %at = SUBSCRIPT
      memref.store %v, %a[%at] : memref<4xi32>
      return
    }"""
    own = program.replace("SUBSCRIPT", "arith.muli %b, %one : index")
    same = program.replace("SUBSCRIPT", "arith.muli %b, %zero : index")
    assert codes(own, np.zeros(4, np.int32), grid=4) == set()
    assert codes(same, np.zeros(4, np.int32), grid=4) == {"cross-block"}


@pytest.mark.parametrize(
    "again", ["memref.atomic_rmw addi %v, %a[%at] : (i32, memref<4xi32>) -> i32", ""]
)
def test_a_plain_store_races_with_atomics_of_other_blocks_also_after_one_of_its_own(again):
    program = f"""
    func.func @f(%a: memref<4xi32>) {{
      %b = gpu.block_id x
      %at = arith.constant 0 : index
      %first = arith.cmpi eq, %b, %at : index
      %v = arith.index_cast %b : index to i32
      scf.if %first {{
        memref.store %v, %a[%at] : memref<4xi32>
        %x = {again or "arith.constant 0 : i32"}
      }} else {{
        %y = memref.atomic_rmw addi %v, %a[%at] : (i32, memref<4xi32>) -> i32
      }}
      return
    }}"""
    assert codes(program, np.zeros(4, np.int32), grid=2) == {"cross-block"}
    atomics = program.replace("memref.store %v, %a[%at] : memref<4xi32>", "")
    assert codes(atomics, np.zeros(4, np.int32), grid=2) == set()


def test_uninitialised_shared_memory_is_found():
    program = """
    func.func @f() -> f32 {
      %buf = memref.alloc() : memref<4xf32, WG>
      %c0 = arith.constant 0 : index
      %v = memref.load %buf[%c0] : memref<4xf32, WG>
      return %v : f32
    }"""
    result = run(program)
    assert set(result.race_codes) == {"uninitialised-read"} and np.isnan(result.results[0])


@pytest.mark.parametrize("index, inside", [(-1, False), (0, True), (3, True), (4, False)])
def test_out_of_bounds_accesses_are_found(index, inside):
    program = """
    func.func @f(%a: memref<4xf32>, %i: index, %v: f32) {
      memref.store %v, %a[%i] : memref<4xf32>
      return
    }"""
    expected = set() if inside else {"out-of-bounds"}
    assert codes(program, zeros(4), index, 1.0) == expected


def test_vector_that_runs_over_the_end_is_out_of_bounds():
    program = """
    func.func @f(%a: memref<2x6xf32>, %i: index) -> vector<4xf32> {
      %v = vector.load %a[%i, %i] : memref<2x6xf32>, vector<4xf32>
      return %v : vector<4xf32>
    }"""
    assert codes(program, zeros(2, 6), 0) == set()
    assert codes(program, zeros(2, 6), 3) == {"out-of-bounds"}


def test_freed_memory_is_out_of_bounds():
    program = """
    func.func @f(%v: f32) -> f32 {
      %a = memref.alloc() : memref<4xf32>
      %c0 = arith.constant 0 : index
      memref.store %v, %a[%c0] : memref<4xf32>
      memref.dealloc %a : memref<4xf32>
      %r = memref.load %a[%c0] : memref<4xf32>
      return %r : f32
    }"""
    assert codes(program, 1.0) == {"out-of-bounds"}


DIVERGENT = """
func.func @f(%n: index) {
  %t = gpu.thread_id x
  %c = arith.cmpi ult, %t, %n : index
  scf.if %c {
    gpu.barrier
  }
  return
}"""


@pytest.mark.parametrize("schedule", ("lockstep", "forward"))
def test_barrier_that_some_threads_skip_is_divergent(schedule):
    options = {"threads": 8, "warp": 2, "schedule": schedule}
    assert codes(DIVERGENT, 8, **options) == set()
    assert codes(DIVERGENT, 4, **options) == {"divergent-barrier"}


COPY = """
func.func @f(%src: memref<4xf32>) {
  %buf = memref.alloc() : memref<4xf32, WG>
  %c0 = arith.constant 0 : index
  %tok = nvgpu.device_async_copy %src[%c0], %buf[%c0], 4 : memref<4xf32> to memref<4xf32, WG>
  REST
  return
}"""


@pytest.mark.parametrize(
    "rest, expected",
    [
        ("", {"uncommitted-copy"}),
        ("%g = nvgpu.device_async_create_group %tok", {"unwaited-copy"}),
        (
            "%g = nvgpu.device_async_create_group %tok\n"
            "nvgpu.device_async_wait %g {numGroups = 1 : i32}",
            {"unwaited-copy"},
        ),
        ("%g = nvgpu.device_async_create_group %tok\nnvgpu.device_async_wait %g", set()),
    ],
)
def test_copies_that_nobody_waits_for_are_found(rest, expected):
    assert codes(COPY.replace("REST", rest), np.ones(4, np.float32)) == expected


def test_wait_on_an_uncommitted_copy_is_found():
    rest = "nvgpu.device_async_wait %tok"
    found = codes(COPY.replace("REST", rest), np.ones(4, np.float32))
    assert found == {"wait-before-commit", "uncommitted-copy"}


def test_raise_for_races_raises_the_first_finding():
    result = run(COPY.replace("REST", ""), np.ones(4, np.float32))
    with pytest.raises(machine.MachineError, match="uncommitted-copy"):
        result.raise_for_races()
