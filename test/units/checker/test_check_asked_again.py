"""A condition that is computed twice is decided twice alike: no path copies where it holds, and waits where it does not.

Covers: checker/explore.py, checker/precision.py, checker/step_graph.py, checker/sites.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helpers.check_harness import check_text
from helpers.machine_programs import parse
from mlir_async_pipe import machine

TARGET = "nvvm:sm_80"
SHARED = "memref<64xf32, 3>"


def kernel(*body: str) -> str:
    lines = "\n".join(body)
    return f"""
func.func @k(%A: memref<4096xf32> {{llvm.noalias}}, %F: memref<4096xf32> {{llvm.noalias}}, %M: memref<64xindex> {{llvm.noalias}},
    %n: index, %m: index) attributes {{gpu.kernel, known_block_size = array<i32: 64, 1, 1>}} {{
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant 0.0 : f32
  %t = gpu.thread_id x
  %s = memref.alloc() : {SHARED}
  scf.for %i = %c0 to %n step %c64 {{
    %at = arith.addi %i, %t : index
    {lines}
  }}
  nvvm.cp.async.wait.group 0
  return
}}"""


def guarded(first: str, again: str, *, wait: int = 0) -> str:
    copy = (
        f"%a = nvgpu.device_async_copy %A[%at], %s[%t], 1 : memref<4096xf32> to {SHARED}\n"
        "nvvm.cp.async.commit.group"
    )
    use = f"%w = memref.load %s[%t] : {SHARED}\nmemref.store %w, %F[%at] : memref<4096xf32>"
    return kernel(
        f"{first}\nscf.if %p {{\n{copy}\n}}",
        f"{again}\nscf.if %q {{\nnvvm.cp.async.wait.group {wait}\n}}",
        f"{again.replace('%q', '%r').replace('%x', '%y')}\nscf.if %r {{\n{use}\n}}",
    )


FLAG = "%{0} = memref.load %M[{1}] : memref<64xindex>\n%{2} = arith.cmpi ne, %{0}, %c0 : index"
BITS = "%{2} = memref.load %B[{1}] : memref<64xi1>"


def flagged(flag: str, place: str = "%row", *, written: bool = False) -> str:
    """A copy, its wait and its use under a flag of the row, which is loaded for each; `written`: in the loop, too."""
    first = f"{ROW}{flag.format('x0', '%row', 'p')}"
    text = guarded(first, f"%next = arith.addi %row, %c1 : index\n{flag.format('x', place, 'q')}")
    text = text.replace("%next = arith.addi %row, %c1 : index\n%y", "%y")
    text = text.replace("%next = arith.addi %row, %c1 : index\n%r", "%r")
    text = text.replace("%m: index)", "%m: index, %B: memref<64xi1> {llvm.noalias})")
    text = text.replace("%c64 = arith", "%c1 = arith.constant 1 : index\n  %c64 = arith", 1)
    text = text.replace("%y = memref.load %M[%next]", "%y = memref.load %M[%row]")
    store = "memref.store %i, %M[%row] : memref<64xindex>\n    %next"
    return text.replace("%next", store, 1) if written else text


def kept_out(condition: str) -> str:
    """Threads that copy, and threads that store zeros, are the same in each iteration."""
    copy = f"%a = nvgpu.device_async_copy %A[%at], %s[%t], 1 : memref<4096xf32> to {SHARED}"
    return kernel(
        condition,
        f"scf.if %p {{\nnvvm.cp.async.wait.group 0\n{copy}\nnvvm.cp.async.commit.group",
        f"}} else {{\nmemref.store %zero, %s[%t] : {SHARED}\n}}",
    )


ROW = "%row = arith.divui %i, %c64 : index\n"
FIRST = {
    "element": "%p = arith.cmpi slt, %at, %m : index",
    "trip": "%p = arith.cmpi slt, %at, %n : index",
    "thread": "%p = arith.cmpi slt, %t, %m : index",
    "iteration": "%p = arith.cmpi slt, %i, %m : index",
    "arguments": "%p = arith.cmpi ult, %n, %m : index",
}
CHANGES = {
    "alike": lambda text: text.replace("%p", "%q"),
    "plus-zero": lambda text: (
        f"%x = arith.addi {text.split()[4]} %c0 : index\n"
        f"%q = arith.cmpi {text.split()[3]} %x, {' '.join(text.split()[5:])}"
    ),
}


def races(text: str) -> bool:
    rows = np.arange(64)
    bits = (rows % 3 == 0,) if "%B" in text else ()
    for n, m in ((0, 0), (64, 30), (130, 100), (256, 1), (256, 100), (256, 1000)):
        arrays = [np.zeros(4096, np.float32), np.zeros(4096, np.float32)]
        for completion in ("eager", "late"):
            ran = machine.run(
                parse(text),
                "k",
                [*arrays, np.maximum(m - rows, 0) % 7, n, m, *bits],
                threads=(64, 1, 1),
                completion=completion,
            )
            if ran.races:
                return True
    return False


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("first", FIRST)
def test_a_wait_under_the_condition_of_its_copy(first: str, change: str) -> None:
    text = guarded(FIRST[first], CHANGES[change](FIRST[first]))
    assert not races(text)
    found = check_text(text, TARGET)
    assert not found.unsafe and not found.unknown


@pytest.mark.parametrize("first", FIRST)
def test_a_wait_that_is_too_weak_under_the_condition_of_its_copy(first: str) -> None:
    text = guarded(FIRST[first], CHANGES["alike"](FIRST[first]), wait=1)
    assert races(text)
    assert check_text(text, TARGET).unsafe


@pytest.mark.parametrize("first", ["thread", "arguments"])
def test_a_wait_under_a_weaker_condition(first: str) -> None:
    text = FIRST[first]
    weaker = text.replace("slt", "sle").replace("ult", "ule").replace("%p", "%q")
    text = guarded(text, weaker).replace("%r = arith.cmpi sle", "%r = arith.cmpi slt")
    text = text.replace("%r = arith.cmpi ule", "%r = arith.cmpi ult")
    assert not races(text)
    found = check_text(text, TARGET)
    assert not found.unsafe and not found.unknown


@pytest.mark.parametrize("again", ["sle, %m, %t", "slt, %x, %m"])
def test_a_wait_under_another_condition(again: str) -> None:
    text = guarded(
        FIRST["thread"], f"%x = arith.addi %t, %c64 : index\n%q = arith.cmpi {again} : index"
    )
    assert races(text)
    found = check_text(text, TARGET)
    assert found.unsafe or found.unknown


@pytest.mark.parametrize("flag", [FLAG, BITS])
def test_a_flag_that_is_loaded_again_where_nobody_writes_is_the_same(flag: str) -> None:
    assert not races(flagged(flag))
    found = check_text(flagged(flag), TARGET)
    assert not found.unsafe and not found.unknown


@pytest.mark.parametrize("change", [{"place": "%next"}, {"written": True}])
def test_a_flag_of_another_row_or_that_is_written_is_another_one(change: dict[str, Any]) -> None:
    text = flagged(FLAG, **change)
    assert races(text)
    found = check_text(text, TARGET)
    assert found.unsafe or found.unknown


LOADED = "%x = memref.load %M[{0}] : memref<64xindex>\n%p = arith.cmpi slt, %t, %x : index"
BY_ROW = ROW + "%p = arith.cmpi eq, %row, %m : index"


@pytest.mark.parametrize("condition", [FIRST["thread"], FIRST["arguments"], LOADED.format("%c0")])
def test_a_condition_of_the_loop_s_surroundings_is_decided_once(condition: str) -> None:
    text = kept_out(condition)
    assert not races(text)
    found = check_text(text, TARGET)
    assert not found.unsafe and not found.unknown


@pytest.mark.parametrize("condition", [BY_ROW, ROW + LOADED.format("%row"), FIRST["iteration"]])
def test_a_condition_of_the_iteration_is_decided_in_each(condition: str) -> None:
    found = check_text(kept_out(condition), TARGET)
    assert found.unsafe or found.unknown
    assert races(kept_out(condition))


REAL = "%{0} = arith.cmpf olt, %{1}, %zero : f32"


@pytest.mark.parametrize(("again", "right"), [("%v", True), ("%u", False)])
def test_a_comparison_of_floats_is_one_where_it_is_computed_again(
    again: str, *, right: bool
) -> None:
    loads = "".join(
        f"%{name} = memref.load %A[%{at}] : memref<4096xf32>\n"
        for name, at in (("v", "i"), ("u", "c0"))
    )
    text = guarded(loads + REAL.format("p", "v"), REAL.format("q", again[1:]))
    text = text.replace(REAL.format("r", again[1:]), REAL.format("r", "v"))
    found = check_text(text, TARGET)
    assert right == (not found.unsafe and not found.unknown)


def test_a_volatile_load_is_another_number_each_time() -> None:
    text = kept_out(
        "%x = llvm.load volatile %P : !llvm.ptr -> i64\n%y = arith.index_cast %x : i64 to index\n"
        "%p = arith.cmpi slt, %t, %y : index"
    ).replace("%n: index,", "%P: !llvm.ptr {llvm.noalias}, %n: index,")
    found = check_text(text, TARGET)
    assert found.unsafe or found.unknown
