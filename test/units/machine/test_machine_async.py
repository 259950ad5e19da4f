"""Copies with zero-fill, abstract scopes and queues, producer and consumer.

Covers: machine/fifos.py, machine/launch.py, machine/dialects/async_ops.py, vocabulary/async_ops.py
"""

import numpy as np
import pytest

from helpers.machine_programs import codes, parse, run, zeros
from mlir_async_pipe import machine
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.session.diagnostics import MachineError

FILL = """
func.func @f(%src: memref<6xf32>, %dst: memref<8xf32>, %at: index, %n: index) {
  %buf = memref.alloc() : memref<4xf32, WG>
  %c0 = arith.constant 0 : index
  %x = nvgpu.device_async_copy %src[%at], %buf[%c0], 4, %n : memref<6xf32> to memref<4xf32, WG>
  %g = nvgpu.device_async_create_group %x
  nvgpu.device_async_wait %g
  %v = vector.load %buf[%c0] : memref<4xf32, WG>, vector<4xf32>
  vector.store %v, %dst[%c0] : memref<8xf32>, vector<4xf32>
  return
}"""


@pytest.mark.parametrize("completion", ["eager", "late"])
@pytest.mark.parametrize(
    "at, count, expected, found",
    [
        (0, 4, [1, 2, 3, 4], set()),
        (1, 3, [2, 3, 4, 0], set()),
        (4, 2, [5, 6, 0, 0], set()),
        # A copy of no element may point anywhere: that is how copies are switched off.
        (100, 0, [0, 0, 0, 0], set()),
        (4, 3, None, {"out-of-bounds"}),
    ],
)
def test_elements_after_the_source_count_are_zeros(completion, at, count, expected, found):
    source = np.arange(1, 7, dtype=np.float32)
    result = run(FILL, source, zeros(8), at, count, completion=completion)
    assert found <= set(result.race_codes)
    if expected is not None:
        assert result.races == ()
        np.testing.assert_array_equal(result.arrays[1][:4], expected)


SCOPES = """
func.func @f(%src: memref<4xf32>, %dst: memref<4xf32>) {
  %a = memref.alloc() : memref<1xf32>
  %b = memref.alloc() : memref<1xf32>
  %c0 = arith.constant 0 : index
  "async_pipe.scope"() ({
    %v = memref.load %src[%c0] : memref<4xf32>
    memref.store %v, %a[%c0] : memref<1xf32>
    "async_pipe.yield"() : () -> ()
  }) {queue = 0 : i64} : () -> ()
  %p = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> TOK
  FIRST
  "async_pipe.scope"() ({
    %v = memref.load %a[%c0] : memref<1xf32>
    %w = arith.addf %v, %v : f32
    memref.store %w, %b[%c0] : memref<1xf32>
    "async_pipe.yield"() : () -> ()
  }) {queue = 1 : i64} : () -> ()
  %q = "async_pipe.commit_queue"() {queue = 1 : i64} : () -> TOK
  SECOND
  %r = memref.load %b[%c0] : memref<1xf32>
  memref.store %r, %dst[%c0] : memref<4xf32>
  return
}"""
WAIT = '"async_pipe.wait_queue"(%{0}) {{queue = {1} : i64}} : (TOK) -> ()'


def scopes(first: str, second: str) -> str:
    return SCOPES.replace("FIRST", first).replace("SECOND", second)


@pytest.mark.parametrize("completion", ["eager", "late", "random:1", "random:2", "random:3"])
def test_scopes_of_two_queues_run_after_their_waits(completion):
    program = scopes(WAIT.format("p", 0), WAIT.format("q", 1))
    result = run(program, np.full(4, 3, np.float32), zeros(4), completion=completion)
    assert result.races == () and result.arrays[1][0] == 6


@pytest.mark.parametrize("completion", ["eager", "late"])
def test_a_scope_that_reads_too_early_races_with_the_scope_before(completion):
    program = scopes("", WAIT.format("q", 1) + "\n" + WAIT.format("p", 0))
    result = run(program, np.full(4, 3, np.float32), zeros(4), completion=completion)
    assert result.race_codes == {"read-in-flight"}
    assert {(race.op, race.other_op) for race in result.races} == {
        ("async_pipe.scope", "async_pipe.scope")
    }


def test_waiting_for_another_queue_does_not_help():
    program = scopes(WAIT.format("p", 0), WAIT.format("p", 0))
    found = codes(program, np.ones(4, np.float32), zeros(4), completion="late")
    assert found == {"read-in-flight", "unwaited-copy"}


def test_on_one_physical_queue_a_wait_for_the_younger_group_covers_the_older():
    """cp.async has one FIFO, so with a target both abstract queues are the same."""
    program = SCOPES.replace("FIRST", "").replace("SECOND", WAIT.format("q", 1))
    separate = program.replace("memref.load %a[%c0]", "memref.load %src[%c0]").replace(
        "memref<1xf32>\n    %w", "memref<4xf32>\n    %w"
    )
    alone = codes(separate, np.ones(4, np.float32), zeros(4))
    assert alone == {"unwaited-copy"}
    merged = codes(separate, np.ones(4, np.float32), zeros(4), target=Target.parse("nvvm:sm_80"))
    assert merged == set()


def test_a_scope_in_place_reads_what_it_overwrites():
    program = """
    func.func @f(%a: memref<1xf32>) {
      %c0 = arith.constant 0 : index
      "async_pipe.scope"() ({
        %v = memref.load %a[%c0] : memref<1xf32>
        %w = arith.addf %v, %v : f32
        memref.store %w, %a[%c0] : memref<1xf32>
        "async_pipe.yield"() : () -> ()
      }) {queue = 0 : i64} : () -> ()
      "async_pipe.commit_queue"() {queue = 0 : i64} : () -> ()
      "async_pipe.wait_queue"() {queue = 0 : i64, count = 0 : i64} : () -> ()
      return
    }"""
    result = run(program, np.array([3], np.float32), completion="late")
    assert result.races == () and result.arrays[0][0] == 6


def test_a_barrier_inside_a_scope_is_refused():
    program = """
    func.func @f() {
      "async_pipe.scope"() ({
        gpu.barrier
        "async_pipe.yield"() : () -> ()
      }) {queue = 0 : i64} : () -> ()
      return
    }"""
    with pytest.raises(MachineError, match="synchronisation-in-scope"):
        run(program)


RING = """
func.func @f(%src: memref<16xf32>, %dst: memref<16xf32>) {
  %buf = memref.alloc() : memref<2xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c8 = arith.constant 8 : index
  PRODUCE
  scf.for %i = %c0 to %c8 step %c1 {
    %n = arith.addi %i, %c1 : index
    %s = arith.remui %n, %c2 : index
    %r = arith.remui %i, %c2 : index
    "async_pipe.producer_acquire"() {queue = 0 : i64, depth = DEPTH : i64} : () -> ()
    "async_pipe.scope"() ({
      %v = memref.load %src[%n] : memref<16xf32>
      memref.store %v, %buf[%s] : memref<2xf32>
      "async_pipe.yield"() : () -> ()
    }) {queue = 0 : i64} : () -> ()
    "async_pipe.commit_queue"() {queue = 0 : i64} : () -> ()
    "async_pipe.consumer_wait"() {queue = 0 : i64COUNT} : () -> ()
    %v = memref.load %buf[%r] : memref<2xf32>
    memref.store %v, %dst[%i] : memref<16xf32>
    "async_pipe.consumer_release"() {queue = 0 : i64} : () -> ()
  }
  "async_pipe.consumer_wait"() {queue = 0 : i64} : () -> ()
  return
}"""
FIRST = """
  "async_pipe.producer_acquire"() {queue = 0 : i64, depth = 2 : i64} : () -> ()
  "async_pipe.scope"() ({
    %v = memref.load %src[%c0] : memref<16xf32>
    memref.store %v, %buf[%c0] : memref<2xf32>
    "async_pipe.yield"() : () -> ()
  }) {queue = 0 : i64} : () -> ()
  "async_pipe.commit_queue"() {queue = 0 : i64} : () -> ()
"""


def ring(produce: str = FIRST, depth: int = 2, count: str = "") -> str:
    return RING.replace("PRODUCE", produce).replace("DEPTH", str(depth)).replace("COUNT", count)


@pytest.mark.parametrize("completion", ["eager", "late", "random:5"])
def test_producer_and_consumer_share_a_ring(completion):
    source = np.arange(16, dtype=np.float32)
    result = run(ring(), source, zeros(16), completion=completion)
    assert result.races == ()
    np.testing.assert_array_equal(result.arrays[1][:8], source[:8])
    assert [record.exact for record in result.waits] == [1, 0]


def test_a_given_count_that_is_too_large_races():
    found = codes(ring(count=", count = 2 : i64"), np.ones(16, np.float32), zeros(16))
    assert "read-in-flight" in found


def test_acquiring_more_slots_than_there_are_is_found():
    assert codes(ring(depth=1), np.ones(16, np.float32), zeros(16)) == {"queue-overflow"}


def test_a_consumer_that_outruns_its_producer_is_found():
    program = """
    func.func @f() {
      "async_pipe.consumer_wait"() {queue = 0 : i64} : () -> ()
      return
    }"""
    assert codes(program) == {"wait-before-commit"}


def test_counts_above_what_the_hardware_tells_apart_are_clamped():
    """ptxas clamps cp.async.wait_group to 63: the oldest of 65 groups is over then."""
    program = """
    func.func @f(%src: memref<65xf32>) -> f32 {
      %buf = memref.alloc() : memref<65xf32, WG>
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c65 = arith.constant 65 : index
      scf.for %i = %c0 to %c65 step %c1 {
        %x = nvgpu.device_async_copy %src[%i], %buf[%i], 1 : memref<65xf32> to memref<65xf32, WG>
        %g = nvgpu.device_async_create_group %x
      }
      nvvm.cp.async.wait.group 100
      %v = memref.load %buf[INDEX] : memref<65xf32, WG>
      nvvm.cp.async.wait.group 0
      return %v : f32
    }"""
    source = np.ones(65, np.float32)
    assert codes(program.replace("INDEX", "%c1"), source) == set()
    late = program.replace("INDEX", "%c2").replace(
        "%c65 =", "%c2 = arith.constant 2 : index\n%c65 ="
    )
    assert codes(late, source) == {"read-in-flight"}


def test_waits_of_one_thread_do_not_cover_another():
    program = """
    func.func @f(%src: memref<2xf32>) {
      %buf = memref.alloc() : memref<2xf32, WG>
      %t = gpu.thread_id x
      %c0 = arith.constant 0 : index
      %first = arith.cmpi eq, %t, %c0 : index
      %x = nvgpu.device_async_copy %src[%t], %buf[%t], 1 : memref<2xf32> to memref<2xf32, WG>
      %g = nvgpu.device_async_create_group %x
      scf.if %first {
        nvgpu.device_async_wait %g
      }
      %v = memref.load %buf[%t] : memref<2xf32, WG>
      nvgpu.device_async_wait %g
      return
    }"""
    result = run(program, np.ones(2, np.float32), threads=2)
    (race,) = result.races
    assert (race.code, race.thread, race.other_thread) == ("read-in-flight", 1, 1)


def test_the_module_may_change_after_it_was_run():
    module = parse("func.func @f() -> i32 {\n%r = arith.constant 1 : i32\nreturn %r : i32\n}")
    first = machine.run(module)
    assert first.results == (1,) and machine.run(module).results == (1,)
