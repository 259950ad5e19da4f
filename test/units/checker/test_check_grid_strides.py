"""Tiles that a loop of blocks, not of scf, counts in steps of the grid: its phases are followed to the end.

What is known of numbers that no condition of a loop compares is not counted on with its iterations.

Covers: checker/phases/loop_iterations.py, checker/phases/phase_paths.py
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from helpers.check_harness import check_module, codes, verdict
from helpers.machine_programs import parse
from helpers.tensor_kernels import BARS, _map
from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import Atom, Form
from mlir_async_pipe.checker.phases.loop_iterations import learn_later
from mlir_async_pipe.checker.phases.ranges_of_sums import Knowledge


def kernel(step: str = "%grid", wait: str = "%phase", meet: str = "gpu.barrier") -> str:
    """Each block copies every tile that is its own, in steps of the grid, into one slot."""
    text = f"""
func.func @f(%x_: !llvm.ptr, %total: index, %given: index) attributes {{gpu.known_block_size = array<i32: 64, 1, 1>}} {{
  %x = builtin.unrealized_conversion_cast %x_ : !llvm.ptr to MAP
  %tile = memref.alloc() : memref<64xf32, WG>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %bytes = arith.constant 256 : index
  %ticks = arith.constant 1000 : index
  %false = arith.constant false
  %true = arith.constant true
  %t = gpu.thread_id x
  %block = gpu.block_id x
  %grid = gpu.grid_dim x
  %leader = arith.cmpi eq, %t, %c0 : index
  %full = nvgpu.mbarrier.create -> BARS
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %leader : BARS
  nvvm.fence.mbarrier.init
  gpu.barrier
  %any = arith.cmpi slt, %block, %total : index
  cf.cond_br %any, ^body(%block, %false : index, i1), ^end
^body(%at: index, %phase: i1):
  %from = arith.muli %at, %c64 : index
  nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %leader : BARS
  nvgpu.tma.async.load %x[%from], %full[%c0] to %tile, predicate = %leader : MAP, BARS -> memref<64xf32, WG>
  nvgpu.mbarrier.try_wait.parity %full[%c0], {wait}, %ticks : BARS
  %v = memref.load %tile[%t] : memref<64xf32, WG>
  {meet}
  %next = arith.addi %at, {step} : index
  %flipped = arith.xori %phase, %true : i1
  %more = arith.cmpi slt, %next, %total : index
  cf.cond_br %more, ^body(%next, %flipped : index, i1), ^end
^end:
  return
}}"""
    text = text.replace("MAP", _map("64xf32", "none")).replace("BARS", BARS.format(slots=1))
    return text.replace("WG", "#gpu.address_space<workgroup>")


@pytest.mark.parametrize("step", ["%grid", "%given", "%c1"])
def test_any_step_that_all_threads_share_is_followed(step: str) -> None:
    assert verdict(check_module(parse(kernel(step))).report) == "safe"


@pytest.mark.parametrize("step", ["%grid", "%given"])
def test_what_is_wrong_in_it_is_named(step: str) -> None:
    found = codes(check_module(parse(kernel(step, meet=""))).report)
    assert found and found <= {"missing-barrier", "phase-overtaken"}
    assert codes(check_module(parse(kernel(step, wait="%false"))).report) == {"phase-not-flipped"}


def test_a_step_of_each_thread_is_not_taken_for_one() -> None:
    assert verdict(check_module(parse(kernel("%t"))).report) != "safe"


def test_only_the_end_that_iterations_come_nearer_to_is_counted_on() -> None:
    """n is 129 to 999, m is 0, and a loop that counts in steps of 64 and -64 compares with n: n - 64 k is 129 or more, n + 64 k
    999 or less at k = 0; else each iteration would have ends of its own, and no state would come again."""
    n, m, k = (Atom("unknown", name) for name in "nmk")
    state: Any = SimpleNamespace(known=Knowledge())
    for atom, ends in ((n, (129, 999)), (m, (0, 0))):
        state.known.learn(forms.of_atom(atom), *ends)
    before = len(state.known.ranges)
    learn_later(state, forms.of_atom(k), {64, -64}, 0, {n})
    assert len(state.known.ranges) == before + 2
    assert state.known.bounds(Form(0, frozenset({(n, 1), (k, -64)})))[0] == 129
    assert state.known.bounds(Form(0, frozenset({(n, 1), (k, 64)})))[1] == 999
