"""Lanes of a warp that come to one op of the whole warp have all come there: what they did before is over for each of them.

Covers: checker/phases/warp_clocks.py, checker/phases/phase_paths.py, checker/phases/op_effects.py
"""

from __future__ import annotations

import pytest

from helpers.check_harness import check_module, codes, verdict
from helpers.machine_programs import parse

GROUP = "!nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>>"
ALIGNED = "nvvm.wgmma.fence.aligned"


def kernel(between: str, warps: int = 2) -> str:
    """All threads wait for the phase before the first one; then a lane of each warp arrives, which ends the next one."""
    return f"""
func.func @f() attributes {{gpu.known_block_size = array<i32: {32 * warps}, 1, 1>}} {{
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %warps = arith.constant {warps} : index
  %ticks = arith.constant 1000 : index
  %false = arith.constant false
  %true = arith.constant true
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %lane = arith.remui %t, %c32 : index
  %first = arith.cmpi eq, %lane, %c0 : index
  %bar = nvgpu.mbarrier.create -> {GROUP}
  nvgpu.mbarrier.init %bar[%c0], %warps, predicate = %leader : {GROUP}
  gpu.barrier
  nvgpu.mbarrier.try_wait.parity %bar[%c0], %true, %ticks : {GROUP}
  {between}
  scf.if %first {{
    %token = nvgpu.mbarrier.arrive %bar[%c0] : {GROUP} -> !nvgpu.mbarrier.token
  }}
  nvgpu.mbarrier.try_wait.parity %bar[%c0], %false, %ticks : {GROUP}
  return
}}"""


@pytest.mark.parametrize("warps", [1, 2, 4])
def test_who_arrives_after_an_op_of_its_warp_arrives_after_its_lanes(warps: int) -> None:
    assert verdict(check_module(parse(kernel(ALIGNED, warps))).report) == "safe"


@pytest.mark.parametrize("between", ["", "nvvm.fence.mbarrier.init"])
def test_else_other_lanes_may_still_wait(between: str) -> None:
    assert codes(check_module(parse(kernel(between))).report) == {"phase-overtaken"}


def test_lanes_do_not_come_together_with_other_warps() -> None:
    """The phase ends by an arrival of the first warp alone, while the second one may still wait."""
    one = kernel(ALIGNED).replace("%bar[%c0], %warps,", "%bar[%c0], %one,")
    one = one.replace("%warps = arith.constant 2 : index", "%one = arith.constant 1 : index")
    one = one.replace("scf.if %first", "scf.if %leader")
    assert codes(check_module(parse(one)).report) == {"phase-overtaken"}
