"""cp.async fills what products of warpgroups read: the threads that copied write through the generic proxy when
they have waited, so a fence and a barrier must come after that, in either order.

Covers: checker/phases/block_memory.py, checker/phases/mbarrier_state.py, machine/warp_clock.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.check_harness import check_text
from helpers.machine_programs import run

SUMS = "!llvm.struct<(f32, f32, f32, f32)>"
WAIT, BARRIER = "nvvm.cp.async.wait.group 1", "gpu.barrier"
FENCE = "nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}"
OF_ONE = f"scf.if %first {{ {FENCE} }}"


def copied(slot: str) -> str:
    """A tile of 64 x 64 numbers, 8 a copy, 4 copies a thread."""
    lines = []
    for part in range(4):
        lines += [
            f"%row{part}{slot} = arith.addi %own, %part{part} : index",
            f"%copy{part}{slot} = nvgpu.device_async_copy %x[%row{part}{slot}, %column], "
            f"%tiles[%{slot}, %row{part}{slot}, %column], 8 : memref<64x64xf16> to memref<SLOTSx64x64xf16, 3>",
        ]
    return "\n".join([*lines, "nvvm.cp.async.commit.group"])


def kernel(*between: str, slots: int = 3, ahead: str = "", left: int = 0) -> str:
    """One tile is copied ahead of the product of the other; `between` stands before the product, `ahead` before
    the copy, and `left` products stay in flight."""
    parts = "\n".join(f"%part{n} = arith.constant {16 * n} : index" for n in range(4))
    text = f"""
func.func @f(%x: memref<64x64xf16>) attributes {{gpu.known_block_size = array<i32: 128, 1, 1>}} {{
  %tiles = memref.alloc() {{alignment = 1024 : i64}} : memref<SLOTSx64x64xf16, 3>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %c8 = arith.constant 8 : index
  %slots = arith.constant SLOTS : index
  %size = arith.constant 8192 : index
  %t = gpu.thread_id x
  %first = arith.cmpi eq, %t, %c0 : index
  {parts}
  %own = arith.divui %t, %c8 : index
  %chunk = arith.remui %t, %c8 : index
  %column = arith.muli %chunk, %c8 : index
  %none = llvm.mlir.undef : {SUMS}
  {copied("c0")}
  %r:2 = scf.for %i = %c0 to %c5 step %c1 iter_args(%slot = %c0, %sum = %none) -> (index, {SUMS}) {{
    %s1 = arith.addi %slot, %c1 : index
    %wrap = arith.cmpi eq, %s1, %slots : index
    %next = arith.select %wrap, %c0, %s1 : index
    {ahead}
    {copied("next")}
    BETWEEN
    %base = memref.extract_aligned_pointer_as_index %tiles : memref<SLOTSx64x64xf16, 3> -> index
    %from = arith.muli %slot, %size : index
    %at = arith.addi %base, %from : index
    %at32 = arith.index_cast %at : index to i32
    %four = arith.constant 4 : i32
    %bits = arith.constant 16383 : i32
    %units = arith.shrui %at32, %four : i32
    %low = arith.andi %units, %bits : i32
    %low64 = arith.extui %low : i32 to i64
    %layout = arith.constant 4611686293305360384 : i64
    %d = arith.ori %low64, %layout : i64
    nvvm.wgmma.fence.aligned
    %y = nvvm.wgmma.mma_async %d, %d, %sum, <m = 64, n = 8, k = 16>, D[<f32>, <one>], A[<f16>, <one>, <row>], B[<f16>, <one>, <col>] : {SUMS} -> {SUMS}
    nvvm.wgmma.commit.group.sync.aligned
    nvvm.wgmma.wait.group.sync.aligned {left}
    scf.yield %next, %y : index, {SUMS}
  }}
  nvvm.wgmma.wait.group.sync.aligned 0
  nvvm.cp.async.wait.group 0
  return
}}"""
    return text.replace("BETWEEN", "\n".join(between)).replace("SLOTS", str(slots))


RIGHT = {
    "the writers make the fence, then all meet": kernel(WAIT, FENCE, BARRIER),
    "all meet, then who multiplies makes the fence": kernel(WAIT, BARRIER, FENCE),
    "one thread makes the fence for all after they met": kernel(WAIT, BARRIER, OF_ONE, BARRIER),
    "all are waited for": kernel(WAIT.replace("1", "0"), FENCE, BARRIER),
    "a barrier before a slot is filled again": kernel(WAIT, FENCE, BARRIER, slots=2, ahead=BARRIER),
    "the product of the iteration before is still running": kernel(
        WAIT, FENCE, BARRIER, slots=3, ahead=BARRIER, left=1
    ),
}
WRONG = {
    "a wait that is one too weak": (
        kernel(WAIT.replace("1", "2"), FENCE, BARRIER),
        "read-in-flight",
    ),
    "no wait": (kernel(FENCE, BARRIER), "read-in-flight"),
    "a fence before the copies have landed": (kernel(FENCE, WAIT, BARRIER), "missing-fence"),
    "no fence": (kernel(WAIT, BARRIER), "missing-fence"),
    "one thread makes the fence before all have met": (
        kernel(WAIT, OF_ONE, BARRIER),
        "missing-fence",
    ),
    "no barrier": (kernel(WAIT, FENCE), "missing-barrier"),
    "a slot is filled again while others may read it": (
        kernel(WAIT, FENCE, BARRIER, slots=2),
        "missing-barrier",
    ),
    "a slot is filled again while it is multiplied": (
        kernel(WAIT, FENCE, BARRIER, slots=2, ahead=BARRIER, left=1),
        "source-overwritten",
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_kernel_is_proven(name: str) -> None:
    found = check_text(RIGHT[name], "nvvm:sm_90a")
    assert not found.unsafe and not found.unknown


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_kernel_is_named(name: str) -> None:
    text, code = WRONG[name]
    found = check_text(text, "nvvm:sm_90a")
    assert code in {found for found, _ in found.unsafe} and not found.unknown


@pytest.mark.parametrize("name", RIGHT | WRONG)
def test_the_machine_says_the_same(name: str) -> None:
    text = RIGHT.get(name) or WRONG[name][0]
    tile = np.zeros((64, 64), np.float16)
    races = {
        code
        for completion in ("eager", "late", "random")
        for seed in range(4)
        for code in run(text, tile, threads=128, completion=completion, seed=seed).race_codes
    }
    assert bool(races) == (name in WRONG), races
