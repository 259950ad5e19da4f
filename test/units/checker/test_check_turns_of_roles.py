"""Global memory that roles come to in turn: proven where they wait for each other, and only then.

Covers: checker/async_proxy.py, checker/places.py, checker/phases/op_effects.py, checker/phases/role_memory.py
"""

from __future__ import annotations

import pytest

from helpers.check_harness import check_module, codes, verdict
from helpers.machine_programs import parse

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
