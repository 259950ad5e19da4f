"""Threads tell each other through memory: blocks with flags run together, what a release tells and
an acquire hears is ordered, and nothing else is.

Covers: machine/warp_clock.py, machine/warp_order.py, machine/dialects/memref.py, test/helpers/flag_kernels.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.flag_kernels import RACY, RIGHT, STUCK, THREADS, WANTED, arguments, spin, text
from helpers.machine_programs import run
from mlir_async_pipe.machine import SCHEDULES
from mlir_async_pipe.machine.run_kernel import RunResult
from mlir_async_pipe.session.diagnostics import MachineError, UsageError


def handed(ends: tuple[str, str], **options: object) -> RunResult:
    """Run the kernel with these two ends on two blocks."""
    return run(text(*ends), *arguments(), threads=THREADS, grid=2, **options)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", RIGHT)
def test_a_row_is_handed_over_through_a_flag(name: str, schedule: str) -> None:
    result = handed(RIGHT[name], schedule=schedule)
    assert result.races == ()
    np.testing.assert_array_equal(result.arrays[2], WANTED)


@pytest.mark.parametrize("schedule", ("forward", "backward"))
@pytest.mark.parametrize("name", RACY)
def test_a_row_that_is_not_ordered_races(name: str, schedule: str) -> None:
    assert handed(RACY[name], schedule=schedule).race_codes == {"cross-block"}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_flag_that_nobody_sets_is_a_deadlock_at_its_loop(schedule: str) -> None:
    result = handed(STUCK, schedule=schedule, warp=1)
    assert result.race_codes == {"deadlock"}
    assert {race.op for race in result.races} == {"scf.while", "gpu.barrier"}
    assert all(race.place.line > 0 for race in result.races)


def test_a_part_of_a_warp_that_waits_for_ever_is_refused_since_the_rest_might_help() -> None:
    with pytest.raises(MachineError, match="warp=1") as caught:
        handed(STUCK)
    assert caught.value.code == "unsupported-op"


def test_a_loop_that_gives_up_by_itself_is_no_deadlock() -> None:
    tries = """%left = scf.while (%n = %all) : (i32) -> i32 {
      %f = llvm.load %F atomic acquire {alignment = 4 : i64} : !llvm.ptr<1> -> i32
      %unset = arith.cmpi eq, %f, %zero : i32
      %some = arith.cmpi ne, %n, %none : i32
      %go = arith.andi %unset, %some : i1
      scf.condition(%go) %n : i32
    } do {
    ^bb0(%n: i32):
      %less = arith.subi %n, %one : i32
      scf.yield %less : i32
    }"""
    assert "deadlock" not in handed(("", tries), warp=1).race_codes


LOOP_OF_BLOCKS = """
func.func @k(%F: !llvm.ptr<1>) {
  %c0 = arith.constant 0 : index
  %one = llvm.mlir.constant(1 : i32) : i32
  %zero = llvm.mlir.constant(0 : i32) : i32
  %b = gpu.block_id x
  %first = arith.cmpi eq, %b, %c0 : index
  cf.cond_br %first, ^poll, ^set
^poll:
  %f = llvm.load %F atomic acquire {alignment = 4 : i64} : !llvm.ptr<1> -> i32
  %go = arith.cmpi eq, %f, %zero : i32
  cf.cond_br %go, ^poll, ^end
^set:
  llvm.store VALUE, %F atomic release {alignment = 4 : i64} : i32, !llvm.ptr<1>
  cf.br ^end
^end:
  return
}"""


@pytest.mark.parametrize(("value", "codes"), [("%one", set()), ("%zero", {"deadlock"})])
def test_a_loop_of_branches_lets_other_blocks_run(value: str, codes: set[str]) -> None:
    program = LOOP_OF_BLOCKS.replace("VALUE", value)
    result = run(program, np.zeros(1, np.int32), threads=2, grid=2)
    assert result.race_codes == codes


BETWEEN_THREADS = f"""
func.func @k(%F: !llvm.ptr<1>, %to: memref<2xf32>) {{
  %tile = memref.alloc() : memref<2xf32, WG>
  %c0 = arith.constant 0 : index
  %zero = llvm.mlir.constant(0 : i32) : i32
  %one = llvm.mlir.constant(1 : i32) : i32
  %x = arith.constant 7.0 : f32
  %t = gpu.thread_id x
  %first = arith.cmpi eq, %t, %c0 : index
  scf.if %first {{
    memref.store %x, %tile[%c0] : memref<2xf32, WG>
    llvm.store %one, %F atomic syncscope("block") release {{alignment = 4 : i64}} : i32, !llvm.ptr<1>
  }} else {{
    {spin('atomic syncscope("block") acquire')}
    %v = memref.load %tile[%c0] : memref<2xf32, WG>
    memref.store %v, %to[%t] : memref<2xf32>
  }}
  return
}}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_threads_of_one_block_tell_each_other_in_its_scope(schedule: str) -> None:
    given = np.zeros(1, np.int32), np.zeros(2, np.float32)
    result = run(BETWEEN_THREADS, *given, threads=2, warp=1, schedule=schedule)
    assert result.races == ()
    np.testing.assert_array_equal(result.arrays[1], [0, 7])


@pytest.mark.parametrize(
    ("again", "codes"), [("volatile", set()), ("", {"missing-barrier"})], ids=("volatile", "plain")
)
def test_a_plain_write_of_a_flag_races_with_those_that_read_it(again: str, codes: set[str]) -> None:
    program = """
    func.func @k(%F: !llvm.ptr<1>, %to: memref<2xi32>) {
      %one = llvm.mlir.constant(1 : i32) : i32
      %c0 = arith.constant 0 : index
      %t = gpu.thread_id x
      %first = arith.cmpi eq, %t, %c0 : index
      scf.if %first {
        %f = llvm.load volatile %F : !llvm.ptr<1> -> i32
        memref.store %f, %to[%t] : memref<2xi32>
      } else {
        llvm.store AGAIN %one, %F : i32, !llvm.ptr<1>
      }
      return
    }""".replace("AGAIN", again)
    given = np.zeros(1, np.int32), np.zeros(2, np.int32)
    assert run(program, *given, threads=2, warp=1, schedule="forward").race_codes == codes


TICKETS = """
func.func @k(%S: memref<1xi32>, %to: memref<?xi32>) {
  %c0 = arith.constant 0 : index
  %one = arith.constant 1 : i32
  %b = gpu.block_id x
  %ticket = memref.atomic_rmw addi %one, %S[%c0] : (i32, memref<1xi32>) -> i32
  memref.store %ticket, %to[%b] : memref<?xi32>
  return
}"""


def test_more_blocks_run_together_than_calls_may_be_nested() -> None:
    result = run(TICKETS, np.zeros(1, np.int32), np.zeros(210, np.int32), grid=210)
    assert result.races == ()
    assert sorted(result.arrays[1]) == list(range(210))


def test_clusters_that_wait_for_each_other_are_refused() -> None:
    program = LOOP_OF_BLOCKS.replace("gpu.block_id", "gpu.cluster_id").replace("VALUE", "%one")
    with pytest.raises(MachineError, match="some clusters wait for others"):
        run(program, np.zeros(1, np.int32), threads=32, grid=4, cluster=2)


MBARRIER = """
%bar = llvm.mlir.addressof @bar : !llvm.ptr<3>
nvvm.mbarrier.init %bar, %one : !llvm.ptr<3>, i32
"""


@pytest.mark.parametrize(
    ("more", "error", "why"),
    [
        (MBARRIER, UsageError, "whole warps of 32, not 2 threads"),
        ("nvvm.cluster.arrive", MachineError, "wait for each other's flags"),
    ],
    ids=("mbarriers", "a cluster's barrier"),
)
def test_what_blocks_with_flags_may_not_have(more: str, error: type, why: str) -> None:
    program = LOOP_OF_BLOCKS.replace("^set:\n", f"^set:\n{more}\n").replace("VALUE", "%one")
    threads = 2 if more == MBARRIER else 32
    text = f"llvm.mlir.global internal @bar() {{addr_space = 3 : i32}} : i64\n{program}"
    with pytest.raises(error, match=why):
        run(text, np.zeros(1, np.int32), threads=threads, grid=2)
