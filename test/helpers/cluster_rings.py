"""A ring of slots that the blocks of a cluster fill for each other, with every part open to change.

Block r of two copies half r of each tile into the slot of both blocks (multicast); warp 0 is the
producer, warp 1 reads tile t mirrored into row t of the block's plane of the output, and arrives at
the empty mbarriers of both blocks. The names of the parts are the keys of `changes`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from helpers.machine_programs import parse
from mlir_async_pipe import machine

SLOTS, TILES, TILE = 2, 5, 64
_MAP = (
    "!nvgpu.tensormap.descriptor<tensor = memref<32xf32, 3>, swizzle = none, l2promo = none, "
    "oob = zero, interleave = none>"
)
_HALF = "memref<32xf32, strided<[1], offset: ?>, WG>"


def ring_sizes(cluster: int | None = 2, threads: int = 64) -> str:
    """What the kernel says of its cluster and its blocks."""
    known = f"gpu.known_block_size = array<i32: {threads}, 1, 1>"
    size = f", gpu.known_cluster_size = array<i32: {cluster}, 1, 1>"
    return known if cluster is None else known + size


PARTS = {
    "sizes": ring_sizes(),
    "other": "%other = arith.subi %one, %rank : i32",
    "tiles": f"%tiles = arith.constant {TILES} : index",
    "more": "",
    "fence": "nvvm.fence.mbarrier.init",
    "arrivals": "%c2",
    "meet first": "nvvm.cluster.arrive {aligned}\nnvvm.cluster.wait {aligned}",
    "wait empty": "nvgpu.mbarrier.try_wait.parity %empty[%s], %free, %c64 : BARS",
    "bytes": "256",
    "mask": "3",
    "copy": f"nvgpu.tma.async.load %x[%from], %full[%s] to %to multicast_mask = %mask : MAP, BARS -> {_HALF}",
    "wait full": "nvgpu.mbarrier.try_wait.parity %full[%s], %odd, %c64 : BARS",
    "arrive remote": "nvvm.mbarrier.arrive %there : !llvm.ptr<7>",
    "arrive here": "nvvm.mbarrier.arrive %mine : !llvm.ptr<3>",
    "meet last": "nvvm.cluster.arrive {aligned}\nnvvm.cluster.wait {aligned}",
}
REMOTE_AT_ONCE = "nvvm.mbarrier.arrive %there {relaxed = true} : !llvm.ptr<7>"
HERE_AT_ONCE = "nvvm.mbarrier.arrive %mine {relaxed = true} : !llvm.ptr<3>"
# What it releases is for its own block alone.
TO_THE_BLOCK = """llvm.inline_asm has_side_effects
            "mbarrier.arrive.release.cta.shared::cluster.b64 _, [$0];", "r" %there : (!llvm.ptr<7>) -> ()"""
RELAXED = "nvvm.cluster.arrive.relaxed {aligned}\nnvvm.cluster.wait {aligned}"
# Changes that leave a ring right.
ANY_TRIPS = {"tiles": "", "more": ", %tiles: index"}
BY_PLACE = """%place = arith.index_cast %block : index to i32
  %other = arith.xori %place, %one : i32"""
_FIRST_COPIES = f"""%whole = memref.subview %buffer[%s, 0][1, 32][1, 1] : memref<{SLOTS}x{TILE}xf32, WG> to {_HALF}
        %half = memref.subview %buffer[%s, 32][1, 32][1, 1] : memref<{SLOTS}x{TILE}xf32, WG> to {_HALF}
        %second = arith.addi %first, %c32 : index
        scf.if %is_first {{
          nvgpu.tma.async.load %x[%first], %full[%s] to %whole multicast_mask = %mask : MAP, BARS -> {_HALF}
          nvgpu.tma.async.load %x[%second], %full[%s] to %half multicast_mask = %mask : MAP, BARS -> {_HALF}
        }}"""
# Block 0 copies all: it waits for the readers of both blocks, block 1 for its own alone.
ISSUED_BY_ONE = {
    "copy": _FIRST_COPIES,
    "other": """%other = arith.constant 0 : i32
  %is_first = arith.cmpi eq, %block, %c0 : index
  %count = arith.select %is_first, %c2, %c1 : index
  %is_second = arith.cmpi ne, %block, %c0 : index""",
    "arrivals": "%count",
    "arrive_remote": "scf.if %is_second {\nnvvm.mbarrier.arrive %there : !llvm.ptr<7>\n}",
}
_TEXT = f"""
func.func @f(%x_: !llvm.ptr, %out: memref<2x{TILES}x{TILE}xf32> {{llvm.noalias}}[more]) attributes {{[sizes]}} {{
  %x = builtin.unrealized_conversion_cast %x_ : !llvm.ptr to MAP
  %buffer = memref.alloc() : memref<{SLOTS}x{TILE}xf32, WG>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c32 = arith.constant 32 : index
  %c63 = arith.constant 63 : index
  %c64 = arith.constant 64 : index
  [tiles]
  %slots = arith.constant {SLOTS} : index
  %bytes = arith.constant [bytes] : index
  %mask = arith.constant [mask] : i16
  %one = arith.constant 1 : i32
  %all = arith.constant -1 : i32
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %rank = nvvm.read.ptx.sreg.cluster.ctarank : i32
  %block = gpu.cluster_block_id x
  [other]
  %full = nvgpu.mbarrier.create -> BARS
  %empty = nvgpu.mbarrier.create -> BARS
  scf.for %s = %c0 to %slots step %c1 {{
    nvgpu.mbarrier.init %full[%s], %c1, predicate = %leader : BARS
    nvgpu.mbarrier.init %empty[%s], [arrivals], predicate = %leader : BARS
  }}
  [fence]
  [meet first]
  %produces = arith.cmpi ult, %t, %c32 : index
  scf.if %produces {{
    scf.for %tile = %c0 to %tiles step %c1 {{
      %s = arith.remui %tile, %slots : index
      %round = arith.divui %tile, %slots : index
      %two = arith.remui %round, %c2 : index
      %free = arith.cmpi eq, %two, %c0 : index
      [wait empty]
      scf.if %leader {{
        nvgpu.mbarrier.arrive.expect_tx %full[%s], %bytes : BARS
        %column = arith.muli %block, %c32 : index
        %first = arith.muli %tile, %c64 : index
        %from = arith.addi %first, %column : index
        %to = memref.subview %buffer[%s, %column][1, 32][1, 1] : memref<{SLOTS}x{TILE}xf32, WG> to {_HALF}
        [copy]
      }}
    }}
  }} else {{
    %lane = arith.subi %t, %c32 : index
    %speaks = arith.cmpi eq, %lane, %c0 : index
    scf.for %tile = %c0 to %tiles step %c1 {{
      %s = arith.remui %tile, %slots : index
      %round = arith.divui %tile, %slots : index
      %two = arith.remui %round, %c2 : index
      %odd = arith.cmpi eq, %two, %c1 : index
      [wait full]
      scf.for %at = %lane to %c64 step %c32 {{
        %mirrored = arith.subi %c63, %at : index
        %v = memref.load %buffer[%s, %mirrored] : memref<{SLOTS}x{TILE}xf32, WG>
        memref.store %v, %out[%block, %tile, %at] : memref<2x{TILES}x{TILE}xf32>
      }}
      nvvm.bar.warp.sync %all : i32
      scf.if %speaks {{
        %address = nvgpu.mbarrier.get %empty[%s] : BARS -> i64
        %mine = llvm.inttoptr %address : i64 to !llvm.ptr<3>
        %there = nvvm.mapa %mine, %other : !llvm.ptr<3> -> !llvm.ptr<7>
        [arrive remote]
        [arrive here]
      }}
    }}
  }}
  [meet last]
  return
}}
"""


def text(**changes: str) -> str:
    """The module, with parts changed: `meet_last=""` for the part "meet last"."""
    made = _TEXT
    parts = PARTS | {name.replace("_", " "): part for name, part in changes.items()}
    for name, part in parts.items():
        made = made.replace(f"[{name}]", part)
    bars = f"!nvgpu.mbarrier.group<memorySpace = WG, num_barriers = {SLOTS}>"
    return made.replace("MAP", _MAP).replace("BARS", bars)


def source() -> np.ndarray:
    """The tensor."""
    return np.arange(TILES * TILE, dtype=np.float32)


def run(completion: str = "late", schedule: str = "lockstep", **changes: str) -> machine.RunResult:
    """Run the ring of one cluster once."""
    given: list[Any] = [source(), np.zeros((2, TILES, TILE), np.float32)]
    return machine.run(
        parse(text(**changes)), None, given, grid=2, completion=completion, schedule=schedule
    )


def is_right(result: machine.RunResult) -> bool:
    """Whether both blocks have read all tiles."""
    rows = source().reshape(TILES, TILE)[:, ::-1]
    return bool(np.array_equal(result.arrays[1], np.stack((rows, rows))))
