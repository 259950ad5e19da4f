"""Loops in a row, each with mbarriers of its own: states add up, and what a loop left in flight stays.

Covers: checker/phases/phase_paths.py, checker/phases/ranges_of_sums.py,
checker/phases/block_memory.py
"""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from helpers.check_harness import check_module, codes, verdict
from helpers.machine_programs import parse
from mlir_async_pipe import machine, pipeline
from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import Atom
from mlir_async_pipe.checker.phases.phase_paths import PhasePaths
from mlir_async_pipe.checker.phases.ranges_of_sums import Knowledge
from mlir_async_pipe.checker.step_graph import Block

MAP = (
    "!nvgpu.tensormap.descriptor<tensor = memref<8x32xf32, 3>, swizzle = none, l2promo = none, "
    "oob = zero, interleave = none>"
)
BARRIERS = "!nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>>"
TILE = "memref<8x32xf32, #gpu.address_space<workgroup>>"


def loops_in_a_row(loops: int, *, one_bound: bool = True) -> str:
    """The pipelines of so many loops of tensor copies."""
    bounds = ["%n" if one_bound else f"%n{number}" for number in range(loops)]
    lines = []
    for number in range(loops):
        lines.append(f"""
  %b{number} = memref.alloc() : {TILE}
  %full{number} = nvgpu.mbarrier.create -> {BARRIERS}
  nvgpu.mbarrier.init %full{number}[%c0], %c1, predicate = %leader : {BARRIERS}""")
    lines.append("nvvm.fence.mbarrier.init\ngpu.barrier")
    for number, bound in enumerate(bounds):
        lines.append(f"""
  %r{number} = scf.for %i = %c0 to {bound} step %c1 iter_args(%phase = %false) -> (i1) {{
    nvgpu.mbarrier.arrive.expect_tx %full{number}[%c0], %bytes, predicate = %leader : {BARRIERS}
    nvgpu.tma.async.load %map[%i, %c0], %full{number}[%c0] to %b{number}, predicate = %leader
        : {MAP}, {BARRIERS} -> {TILE}
    nvgpu.mbarrier.try_wait.parity %full{number}[%c0], %phase, %bytes : {BARRIERS}
    %v = memref.load %b{number}[%c0, %t] : {TILE}
    memref.store %v, %C[%i, %t] : memref<?x32xf32>
    gpu.barrier
    %flip = arith.xori %phase, %true : i1
    scf.yield %flip : i1
  }} {{async_pipe.num_stages = 3 : i64, async_pipe.independent}}""")
    arguments = "".join(f", {bound}: index" for bound in dict.fromkeys(bounds))
    text = f"""
func.func @f(%pointer: !llvm.ptr, %C: memref<?x32xf32> {{llvm.noalias}}{arguments})
    attributes {{gpu.kernel, gpu.known_block_size = array<i32: 32, 1, 1>}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %bytes = arith.constant 1024 : index
  %false = arith.constant false
  %true = arith.constant true
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %map = builtin.unrealized_conversion_cast %pointer : !llvm.ptr to {MAP}
  {"".join(lines)}
  return
}}"""
    module = parse(text)
    pipeline(module, check="none")
    return str(module)


def states(monkeypatch: pytest.MonkeyPatch, text: str) -> int:
    """How many different states are followed to prove a kernel."""
    found: list[bool] = []
    arrive = PhasePaths._arrive

    def counted(self: PhasePaths, block: Block, state: object) -> bool:
        found.append(arrive(self, block, state))  # type: ignore[arg-type]
        return found[-1]

    monkeypatch.setattr(PhasePaths, "_arrive", counted)
    assert verdict(check_module(parse(text)).report) == "safe"
    monkeypatch.undo()
    return sum(found)


@pytest.mark.parametrize("one_bound", [True, False])
def test_each_loop_more_has_as_many_states(monkeypatch, one_bound: bool) -> None:
    """Seven times as many with each loop before, more than are followed from the fourth on."""
    found = [states(monkeypatch, loops_in_a_row(loops, one_bound=one_bound)) for loops in (2, 4, 8)]
    assert found[2] - found[1] <= 2.2 * (found[1] - found[0])


WRONG = {
    "no wait": (r"nvgpu\.mbarrier\.try_wait[^\n]*", "", "read-in-flight"),
    "no barrier": (r"\n *gpu\.barrier(?=\n *%\d+ = arith\.addi)", "", "phase-overtaken"),
    "a tile too many": (r"arith\.cmpi slt(?=, %arg\d+, %\d+ )", "arith.cmpi sle", "unwaited-copy"),
}


@pytest.mark.parametrize("loop", [0, 3])
@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_in_one_of_them_is_named(loop: int, name: str) -> None:
    """Also a copy that the first loop leaves in flight, on mbarriers that nobody names after it."""
    pattern, change, code = WRONG[name]
    text = loops_in_a_row(4)
    places = list(re.finditer(pattern, text))
    assert len(places) == 4
    wrong = text[: places[loop].start()] + change + text[places[loop].end() :]
    assert codes(check_module(parse(wrong)).report) == {code}
    arrays = np.ones((8, 32 * 8), np.float32), np.zeros((8, 32), np.float32)
    results = [
        machine.run(
            parse(wrong), None, [*arrays, 7], threads=32, completion=completion, schedule=schedule
        )
        for completion, schedule in itertools.product(("late", "eager"), ("forward", "random"))
    ]
    assert any(result.races for result in results)


def test_what_is_known_of_unknowns_that_are_asked_for_no_more_is_past() -> None:
    """Of a quotient's parts nothing is forgotten; the number of a loop is not of the past."""
    n, m, k = Atom("size", 1), Atom("size", 2), Atom("loop", 0)
    ratio = Atom("ratio", (forms.of_atom(n), forms.of_atom(m)))
    one, other, both = (frozenset({(atom, 1)}) for atom in (n, k, ratio))
    known = Knowledge({one: (1, 9), other: (2, None), both: (3, None)}, {k: (1, 2), n: (0, 2)})
    known.keep({n, m})
    assert known.ranges == {one: (1, 9), both: (3, None)} and known.residues == {n: (0, 2)}
    known.keep({m})
    assert not known.ranges and known.past == {one: (1, 9)}
