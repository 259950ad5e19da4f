"""A loop that copies boxes of one to five dimensions, one after the other along the slowest, turns each
around in another tile, and stores that by TMA where the box came from in a tensor of the same shape."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from helpers.stored_loops import FENCE, WAIT

BOXES = {1: (64,), 2: (4, 16), 3: (2, 4, 8), 4: (2, 2, 2, 8), 5: (2, 2, 2, 2, 4)}
THREADS = 64
TRIPS = 6


def map_type(box: tuple[int, ...]) -> str:
    """The type of a tensor map."""
    shape = "x".join(map(str, box))
    return (
        f"!nvgpu.tensormap.descriptor<tensor = memref<{shape}xf32, 3>, swizzle = none, "
        "l2promo = none, oob = zero, interleave = none>"
    )


def boxes_text(box: tuple[int, ...], roles: str = "") -> str:
    """The annotated loop."""
    shape = "x".join(map(str, box))
    tile, kind = f"memref<{shape}xf32, WG>", map_type(box)
    bars = "!nvgpu.mbarrier.group<memorySpace = WG>"
    lines, rest = [], "%t"
    for number, length in reversed(list(enumerate(box))):
        lines += [
            f"%length{number} = arith.constant {length} : index",
            f"%last{number} = arith.constant {length - 1} : index",
            f"%at{number} = arith.remui {rest}, %length{number} : index",
            f"%turned{number} = arith.subi %last{number}, %at{number} : index",
            f"%rest{number} = arith.divui {rest}, %length{number} : index",
        ]
        rest = f"%rest{number}"
    at, turned = (
        ", ".join(f"%{name}{number}" for number in range(len(box))) for name in ("at", "turned")
    )
    # Coordinates are fastest first.
    coordinates = ", ".join(["%c0"] * (len(box) - 1) + ["%start"])
    note = f', async_pipe.roles = "{roles}"' if roles else ""
    newline = "\n  "
    return f"""
func.func @f(%map_: !llvm.ptr, %out_: !llvm.ptr, %n: index)
    attributes {{gpu.known_block_size = array<i32: {THREADS}, 1, 1>}} {{
  %map = builtin.unrealized_conversion_cast %map_ : !llvm.ptr to {kind}
  %out = builtin.unrealized_conversion_cast %out_ : !llvm.ptr to {kind}
  %tile = memref.alloc() : {tile}
  %o = memref.alloc() : {tile}
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %step = arith.constant {box[0]} : index
  %bytes = arith.constant {4 * prod(box)} : index
  %ticks = arith.constant 1000 : index
  %false = arith.constant false
  %true = arith.constant true
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %full = nvgpu.mbarrier.create -> {bars}
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %leader : {bars}
  nvvm.fence.mbarrier.init
  gpu.barrier
  {newline.join(lines)}
  %last = scf.for %i = %c0 to %n step %c1 iter_args(%phase = %false) -> (i1) {{
    nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %leader : {bars}
    %start = arith.muli %i, %step : index
    nvgpu.tma.async.load %map[{coordinates}], %full[%c0] to %tile, predicate = %leader : {kind}, {bars} -> {tile}
    nvgpu.mbarrier.try_wait.parity %full[%c0], %phase, %ticks : {bars}
    %v = memref.load %tile[{turned}] : {tile}
    memref.store %v, %o[{at}] : {tile}
    {FENCE}
    gpu.barrier
    nvgpu.tma.async.store %o to %out[{coordinates}], predicate = %leader : {tile} -> {kind}
    nvvm.cp.async.bulk.commit.group
    {WAIT}
    gpu.barrier
    %flip = arith.xori %phase, %true : i1
    scf.yield %flip : i1
  }} {{async_pipe.num_stages = 3 : i64, async_pipe.independent{note}}}
  return
}}"""


def tensor_of(box: tuple[int, ...]) -> Any:
    """The tensor, of which the last box has a part outside where it can."""
    shape = (box[0] * TRIPS - 1, *box[1:])
    return np.random.default_rng(len(box)).integers(-9, 10, shape).astype(np.float32)


def expected_of(box: tuple[int, ...]) -> Any:
    """The output: each box turned around, zeros from outside."""
    tensor = tensor_of(box)
    whole = np.zeros((box[0] * TRIPS, *box[1:]), np.float32)
    whole[: len(tensor)] = tensor
    boxes = whole.reshape(TRIPS, *box)
    turned = boxes[(slice(None), *[slice(None, None, -1)] * len(box))]
    return turned.reshape(whole.shape)[: len(tensor)]
