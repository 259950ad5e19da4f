"""Memory that roles come to in turn: proven where they wait for each other, and only then; memory of one role
where its threads meet in between.

Covers: checker/kernel.py, checker/kernel_flow.py, checker/owners.py, checker/thread_grid.py,
checker/phases/op_effects.py, checker/phases/block_memory.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.check_harness import check_module, codes, verdict
from helpers.machine_programs import parse
from mlir_async_pipe import machine

TEXT = """
func.func @f(%out: memref<?x32xf32>, %row: index, %v: f32)
    attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c32 = arith.constant 32 : index
  %ticks = arith.constant 1000 : index
  %false = arith.constant false
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %lane = arith.remui %t, %c32 : index
  %half = arith.divui %lane, %c2 : index
  %done = nvgpu.mbarrier.create -> BARS
  nvgpu.mbarrier.init %done[%c0], %c32, predicate = %leader : BARS
  gpu.barrier
  %first = arith.cmpi ult, %t, %c32 : index
  scf.if %first {
    STORE
    ARRIVE
  } else {
    BEFORE
    WAIT
    ACCESS
  }
  return
}"""
PARTS = {
    "STORE": "memref.store %v, %out[%row, %lane] : memref<?x32xf32>",
    "ARRIVE": "%token = nvgpu.mbarrier.arrive %done[%c0] : BARS -> !nvgpu.mbarrier.token",
    "BEFORE": "",
    "WAIT": "nvgpu.mbarrier.try_wait.parity %done[%c0], %false, %ticks : BARS",
    "ACCESS": "memref.store %v, %out[%row, %lane] : memref<?x32xf32>",
}
LOAD = "%x = memref.load %out[%row, %half] : memref<?x32xf32>"
GROUP = "!nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>, num_barriers = 1>"


def checked(text: str = TEXT, **changes: str) -> tuple[str, set[str]]:
    for name, part in (PARTS | changes).items():
        text = text.replace(name, part)
    report = check_module(parse(text.replace("BARS", GROUP))).report
    return verdict(report), codes(report)


def test_stores_of_one_row_by_roles_that_wait_for_each_other_are_proven() -> None:
    assert checked() == ("safe", set())


def test_threads_of_the_second_role_may_read_what_others_of_the_first_wrote() -> None:
    assert checked(ACCESS=LOAD) == ("safe", set())


@pytest.mark.parametrize(
    "changes",
    [
        {"WAIT": ""},
        {"BEFORE": PARTS["ACCESS"]},
        {"STORE": PARTS["STORE"].replace("%lane", "%half")},
        {"ACCESS": PARTS["ACCESS"].replace("%lane", "%half")},
        {"ARRIVE": PARTS["ARRIVE"] + "\n    " + LOAD},
    ],
    ids=["no wait", "store before the wait", "first role", "second role", "read after arrival"],
)
def test_what_is_not_ordered_is_an_error(changes: dict[str, str]) -> None:
    assert checked(**changes) == ("unsafe", {"missing-barrier"})


ONE_STORE = """
  %group = arith.divui %t, %c32 : index
  %mine = arith.muli %group, %row : index
  %second = arith.cmpi uge, %t, %c32 : index
  scf.if %second { WAIT }
  STORE
  scf.if %first { ARRIVE }
  return
}"""


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "safe"),
        ({"WAIT": ""}, "unknown"),
        ({"ARRIVE": ""}, "unsafe"),
        ({"STORE": PARTS["STORE"].replace("%lane", "%half")}, "unknown"),
    ],
    ids=["in turn", "no wait", "no arrival", "threads of one role"],
)
def test_one_store_that_both_roles_run_in_turn_is_proven(
    changes: dict[str, str], expected: str
) -> None:
    """Thread t stores row t div 32 * %row, which for a %row of 0 is that of thread t + 32."""
    own_row = {"STORE": changes.get("STORE", PARTS["STORE"]).replace("[%row", "[%mine")}
    text = TEXT[: TEXT.index("  scf.if %first")] + ONE_STORE
    assert checked(text, **changes | own_row)[0] == expected


EPILOGUE = """
#wg = #gpu.address_space<workgroup>
func.func @f(%out: memref<?x64xf32> {llvm.noalias}, %n: index, %v: f32)
    attributes {gpu.known_block_size = array<i32: 96, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %c63 = arith.constant 63 : index
  %c64 = arith.constant 64 : index
  %ticks = arith.constant 1000 : index
  %false = arith.constant false
  %number = arith.constant 1 : i32
  %threads = arith.constant 64 : i32
  %warp = arith.constant 32 : i32
  %t = gpu.thread_id x
  %tile = memref.alloc() : memref<64xf32, #wg>
  %leader = arith.cmpi eq, %t, %c64 : index
  %own = arith.divui %t, %c32 : index
  %own_ = arith.index_cast %own : index to i32
  %mirror = arith.subi %c63, %t : index
  %speaks = arith.cmpi eq, %t, %c0 : index
  %begun = nvgpu.mbarrier.create -> BARS
  nvgpu.mbarrier.init %begun[%c0], %c1, predicate = %leader : BARS
  gpu.barrier
  %stores = arith.cmpi ult, %t, %c64 : index
  scf.if %stores {
    nvgpu.mbarrier.try_wait.parity %begun[%c0], %false, %ticks : BARS
    scf.for %i = %c0 to %n step %c1 {
      STORE
      MEET
      %x = memref.load %tile[LOADED] : memref<64xf32, #wg>
      memref.store %x, %out[%i, %t] : memref<?x64xf32>
      AGAIN
    }
  } else {
    scf.if %leader {
      %token = nvgpu.mbarrier.arrive %begun[%c0] : BARS -> !nvgpu.mbarrier.token
    }
  }
  return
}"""
MEET = "nvvm.barrier id = %number number_of_threads = %threads"
BY_ONE = {
    "store": "scf.if %speaks {\n memref.store %v, %tile[%c0] : memref<64xf32, #wg>\n }",
    "load": "%c0",
}
TOUCHED = """%map = builtin.unrealized_conversion_cast %x_ : !llvm.ptr to MAP
      nvgpu.mbarrier.arrive.expect_tx %begun[%c0], %bytes : BARS
      nvgpu.tma.async.load %map[%c0], %begun[%c0] to %tile : MAP, BARS -> memref<64xf32, #wg>"""
MAP = "!nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>"


def epilogue(
    *,
    copied: bool = False,
    named: bool = False,
    store: str = "",
    load: str = "%mirror",
    meet: str = MEET,
    again: str = MEET,
) -> str:
    """What the checker says of a role that hands numbers on to itself, and the machine with three tiles;
    `copied`: a tile stood there before; `named`: there is no mbarrier."""
    stored = store or "memref.store %v, %tile[%t] : memref<64xf32, #wg>"
    text = EPILOGUE.replace("STORE", stored).replace("LOADED", load)
    text = text.replace("MEET", meet).replace("AGAIN", again)
    if copied:
        arrival = text[text.index("%token") : text.index("!nvgpu.mbarrier.token\n") + 21]
        fenced = "nvvm.fence.mbarrier.init\n  gpu.barrier\n"
        text = text.replace(arrival, TOUCHED).replace("gpu.barrier\n", fenced)
        text = text.replace("(%out", "(%x_: !llvm.ptr, %out")
        text = text.replace("%ticks =", "%bytes = arith.constant 256 : index\n  %ticks =")
    if named:
        text = "\n".join(line for line in text.splitlines() if "begun" not in line)
    module = parse(text.replace("MAP", MAP).replace("BARS", GROUP))
    given = [np.zeros(64, np.float32)] * copied + [np.zeros((3, 64), np.float32), 3, 1.0]
    races = machine.run(module, None, given, schedule="backward").races
    said = verdict(check_module(module).report)
    assert (said == "safe") == (not races)
    return said


@pytest.mark.parametrize(
    "kind", [{}, {"copied": True}, {"named": True}], ids=["mbarriers", "copied", "named"]
)
@pytest.mark.parametrize("changes", [{}, BY_ONE], ids=["each", "one for all"])
def test_a_role_that_meets_at_a_barrier_of_its_own_hands_numbers_on_to_itself(
    changes, kind
) -> None:
    assert epilogue(**kind, **changes) == "safe"


@pytest.mark.parametrize(
    "kind", [{}, {"copied": True}, {"named": True}], ids=["mbarriers", "copied", "named"]
)
@pytest.mark.parametrize(
    "changes",
    [
        {"meet": ""},
        {"again": ""},
        BY_ONE | {"meet": ""},
        BY_ONE | {"again": ""},
        dict.fromkeys(("meet", "again"), "nvvm.barrier id = %own_ number_of_threads = %warp"),
        {"meet": "nvvm.barrier.arrive id = %number number_of_threads = %threads", "again": ""},
        {"store": "memref.store %v, %tile[%own] : memref<64xf32, #wg>", "load": "%own"},
    ],
    ids=["no barrier", "none before the next store", "one, no barrier", "one, none before the next store",
         "one a warp", "an arrival", "one place"],
)  # fmt: skip
def test_a_role_that_does_not_meet_in_between_is_not_proven(changes, kind) -> None:
    assert epilogue(**kind, **changes) != "safe"


def test_who_has_arrived_at_a_barrier_may_not_come_again_before_its_phase_is_over() -> None:
    """Two arrivals of two warps are as many as those of four, and are no phase (PTX ISA)."""
    four = "%four = arith.constant 128 : i32"
    arrive = "nvvm.barrier.arrive id = %number number_of_threads = %four"
    assert epilogue(named=True, meet=f"{four}\n{arrive}\n{arrive}", again="") == "unsafe"
