"""Threads that ask whether a phase is over, and wait for it later if it is not: proven where each waits for what it
asked for; the answer of another slot, tile or parity is no wait.

Covers: checker/phases/op_effects.py, checker/phases/phase_paths.py, checker/phases/byte_places.py,
checker/phases/phase_paths.py, checker/phases/path_state.py, checker/phases/mbarrier_state.py,
vocabulary/mbarrier_ops.py, machine/dialects/mbarriers.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.check_harness import check_module, codes, verdict
from helpers.machine_programs import parse
from helpers.tensor_kernels import BARS, _map
from mlir_async_pipe import machine

SLOTS, TILE, CONSUMERS, THREADS = 3, 64, 64, 96

# The parts of the kernel that may be others: what is done before the data is read, with the answer that was asked for
# an iteration before; what is asked for at the end of an iteration; which answer is handed on.
WAIT = """%told = arith.extui %answer : i1 to i32
      %no = arith.cmpi eq, %told, %n0 : i32
      scf.if %no {
        nvgpu.mbarrier.try_wait.parity %full[%slot], %phase, %ticks : BARS
      }"""
PARTS = {
    "first": "%c0, %false",
    "wait": WAIT,
    "free": "",
    "asks": "%slot_, %phase_",
    "handed": "%next, %answer",
}


def ask(name: str, of: str) -> str:
    """Ask for the phase of a slot, and its parity."""
    slot, parity = of.split(", ")
    return f"""%{name}_at = nvgpu.mbarrier.get %full[{slot}] : BARS -> i64
    %{name}_of = llvm.inttoptr %{name}_at : i64 to !llvm.ptr<3>
    %{name}_parity = arith.extui {parity} : i1 to i32
    %{name} = nvvm.mbarrier.test.wait %{name}_of, %{name}_parity : !llvm.ptr<3>, i32 -> i1"""


def kernel(tiles: str = "%given", **changes: str) -> str:
    """A producer and two warps of consumers, which ask for the next tile before they come to it."""
    part = PARTS | changes
    next_slot = """%up = arith.addi %slot, %c1 : index
      %wraps = arith.cmpi eq, %up, %slots : index
      %slot_ = arith.select %wraps, %c0, %up : index
      %phase_ = arith.xori %phase, %wraps : i1"""
    text = f"""
func.func @f(%x_: !llvm.ptr, %out: memref<?x{TILE}xf32> {{llvm.noalias}}, %given: index) attributes {{
    gpu.known_block_size = array<i32: {THREADS}, 1, 1>}} {{
  %x = builtin.unrealized_conversion_cast %x_ : !llvm.ptr to MAP
  %buffer = memref.alloc() : memref<{SLOTS}x{TILE}xf32, WG>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c32 = arith.constant 32 : index
  %c63 = arith.constant 63 : index
  %c64 = arith.constant 64 : index
  %n0 = arith.constant 0 : i32
  %slots = arith.constant {SLOTS} : index
  %bytes = arith.constant {4 * TILE} : index
  %ticks = arith.constant 1000 : index
  %false = arith.constant false
  %true = arith.constant true
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %full = nvgpu.mbarrier.create -> BARS
  %empty = nvgpu.mbarrier.create -> BARS
  scf.for %s = %c0 to %slots step %c1 {{
    nvgpu.mbarrier.init %full[%s], %c1, predicate = %leader : BARS
    nvgpu.mbarrier.init %empty[%s], %c2, predicate = %leader : BARS
  }}
  nvvm.fence.mbarrier.init
  gpu.barrier
  %consumes = arith.cmpi ult, %t, %c64 : index
  %issues = arith.cmpi eq, %t, %c64 : index
  scf.if %consumes {{
    %lane = arith.remui %t, %c32 : index
    %lane0 = arith.cmpi eq, %lane, %c0 : index
    {ask("first", part["first"])}
    %all:4 = scf.for %i = %c0 to {tiles} step %c1
        iter_args(%slot = %c0, %phase = %false, %answer = %first, %before = %first) -> (index, i1, i1, i1) {{
      {part["wait"]}
      {part["free"]}
      %mirrored = arith.subi %c63, %t : index
      %v = memref.load %buffer[%slot, %mirrored] : memref<{SLOTS}x{TILE}xf32, WG>
      memref.store %v, %out[%i, %t] : memref<?x{TILE}xf32>
      scf.if %lane0 {{
        %token = nvgpu.mbarrier.arrive %empty[%slot] : BARS -> !nvgpu.mbarrier.token
      }}
      {next_slot}
      %after = arith.addi %i, %c1 : index
      %more = arith.cmpi ult, %after, {tiles} : index
      %next = scf.if %more -> i1 {{
        {ask("asked", part["asks"])}
        scf.yield %asked : i1
      }} else {{
        scf.yield %true : i1
      }}
      scf.yield %slot_, %phase_, {part["handed"]} : index, i1, i1, i1
    }}
  }} else {{
    scf.if %issues {{
      %all:2 = scf.for %i = %c0 to {tiles} step %c1 iter_args(%slot = %c0, %phase = %true) -> (index, i1) {{
        nvgpu.mbarrier.try_wait.parity %empty[%slot], %phase, %ticks : BARS
        nvgpu.mbarrier.arrive.expect_tx %full[%slot], %bytes : BARS
        %from = arith.muli %i, %c64 : index
        %to = memref.subview %buffer[%slot, 0][1, {TILE}][1, 1]
          : memref<{SLOTS}x{TILE}xf32, WG> to memref<{TILE}xf32, strided<[1], offset: ?>, WG>
        nvgpu.tma.async.load %x[%from], %full[%slot] to %to
          : MAP, BARS -> memref<{TILE}xf32, strided<[1], offset: ?>, WG>
        {next_slot}
        scf.yield %slot_, %phase_ : index, i1
      }}
    }}
  }}
  return
}}"""
    bars = BARS.format(slots=SLOTS)
    text = text.replace("MAP", _map(f"{TILE}xf32", "none")).replace("BARS", bars)
    return text.replace("WG", "#gpu.address_space<workgroup>")


# What is wrong, and what the checker may call it.
RACES = {"read-in-flight", "too-many-arrivals", "source-overwritten", "deadlock"}
WRONG = {
    "no wait": ({"wait": ""}, RACES),
    "a wait for the other parity": (
        {
            "wait": WAIT.replace("%phase,", "%other,").replace(
                "%told", "%other = arith.xori %phase, %true : i1\n%told", 1
            )
        },
        {"wrong-parity", *RACES},
    ),
    "a wait for another slot": ({"wait": WAIT.replace("%full[%slot]", "%full[%c0]")}, None),
    "the wait where the answer was yes": ({"wait": WAIT.replace("eq, %told", "ne, %told")}, RACES),
    "the answer of slot 0": ({"asks": "%c0, %phase_"}, None),
    "the answer of the tile before": ({"asks": "%slot, %phase"}, RACES),
    "the answer of an iteration before": (
        {"wait": WAIT.replace("extui %answer", "extui %before")},
        RACES,
    ),
    "the other parity asked for": ({"asks": "%slot_, %wraps"}, None),
    "given back before the wait": (
        {
            "wait": """scf.if %lane0 {
        %early = nvgpu.mbarrier.arrive %empty[%slot] : BARS -> !nvgpu.mbarrier.token
      }"""
            + WAIT
        },
        None,
    ),
}


def test_who_asks_and_waits_if_it_is_not_over_is_proven() -> None:
    assert verdict(check_module(parse(kernel())).report) == "safe"


@pytest.mark.parametrize(
    "changes",
    [
        # Also a wait that was needed only for no, and is made for any answer.
        {"wait": "nvgpu.mbarrier.try_wait.parity %full[%slot], %phase, %ticks : BARS"},
        {"wait": WAIT.replace("%told", "%same = arith.xori %answer, %true : i1\n%told", 1)
         .replace("extui %answer", "extui %same").replace("eq, %told", "ne, %told")},
        {"wait": WAIT.replace("scf.if %no {", "scf.if %answer {\n} else {")},
    ],
    ids=["always", "inverted twice", "on the other side"],
)  # fmt: skip
def test_any_form_of_the_question_is_read(changes: dict[str, str]) -> None:
    assert verdict(check_module(parse(kernel(**changes))).report) == "safe"


def test_who_has_waited_is_told_yes() -> None:
    """What would be done for no is done by nobody, so it is no fault."""
    wait = "nvgpu.mbarrier.try_wait.parity %full[%slot], %phase, %ticks : BARS"
    again = f"""{ask("sure", "%slot, %phase")}
      %not = arith.xori %sure, %true : i1
      scf.if %not {{
        %other = arith.xori %phase, %true : i1
        nvgpu.mbarrier.try_wait.parity %full[%c0], %other, %ticks : BARS
      }}"""
    report = check_module(parse(kernel(wait=wait, free=again))).report
    assert not codes(report)


def test_a_relaxed_question_shows_nothing() -> None:
    relaxed = kernel().replace(
        "test.wait %asked_of, %asked_parity :",
        "test.wait %asked_of, %asked_parity {relaxed = true} :",
    )
    assert relaxed != kernel()
    assert verdict(check_module(parse(relaxed)).report) == "unknown"


@pytest.mark.parametrize("name", WRONG)
def test_an_answer_that_is_no_wait_is_never_proven(name: str) -> None:
    changes, expected = WRONG[name]
    report = check_module(parse(kernel(**changes))).report
    assert verdict(report) != "safe"
    if expected is not None:
        assert codes(report) and codes(report) <= expected


def run(text: str, completion: str, schedule: str) -> machine.RunResult:
    source = np.arange(7 * TILE, dtype=np.float32)
    return machine.run(
        parse(text), None, [source, np.zeros((7, TILE), np.float32), 7],
        threads=THREADS, completion=completion, schedule=schedule,
    )  # fmt: skip


ORDERS = [("eager", "lockstep"), ("late", "lockstep"), ("random:3", "random")]


@pytest.mark.parametrize(("completion", "schedule"), ORDERS)
def test_the_machine_agrees(completion: str, schedule: str) -> None:
    result = run(kernel(), completion, schedule)
    assert not result.races
    source = np.arange(7 * TILE, dtype=np.float32).reshape(7, TILE)
    assert np.array_equal(result.arrays[1], source[:, ::-1])


@pytest.mark.parametrize(
    "name", ["no wait", "the answer of the tile before", "the answer of an iteration before"]
)
def test_the_machine_fails_where_the_checker_says_so(name: str) -> None:
    text = kernel(**WRONG[name][0])
    found = {race.code for each in ORDERS for race in run(text, *each).races}
    assert found & RACES
