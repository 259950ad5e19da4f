"""A loop in which the blocks of a cluster copy tiles for each other, as a front end writes it.

Tile t is `width` floats, of which each block copies its share into those blocks that its mask names; every
thread adds up what it reads of the tiles. `shape` are the blocks of the cluster along x and y.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from helpers.machine_programs import parse
from mlir_async_pipe import machine

MEET = "nvvm.cluster.arrive\nnvvm.cluster.wait"


@dataclass(frozen=True)
class ClusterLoop:
    """`mask` and `shares` are lines that make %mask and %part, the number of the share of `parts` that
    a block copies; `more` is what thread 0 must fulfil beside; with `rounds` a loop around runs that many times, each
    time with one tile less."""

    shape: tuple[int, int] = (2, 1)
    stages: int = 3
    tiles: int = 7
    parts: int = 2
    mask: str = "%mask = arith.constant 3 : i16"
    part: str = "%part = gpu.cluster_block_id x"
    more: str = ""
    announced: int = 256
    meets: str = MEET
    meets_first: str = MEET
    meets_last: str = ""
    rounds: int = 0
    annotations: str = 'async_pipe.roles = "specialised"'
    attributes: str = ""
    changes: tuple[tuple[str, str], ...] = field(default=())

    @property
    def blocks(self) -> int:
        """The blocks of the cluster."""
        return self.shape[0] * self.shape[1]

    @property
    def width(self) -> int:
        """Floats of a tile: one a thread."""
        return 64

    def text(self) -> str:
        """The module."""
        share = self.width // self.parts
        x, y = self.shape
        wg = "#gpu.address_space<workgroup>"
        kind = f"memref<{share}xf32, strided<[1], offset: ?>, {wg}>"
        map_type = (
            f"!nvgpu.tensormap.descriptor<tensor = memref<{share}xf32, 3>, swizzle = none, "
            "l2promo = none, oob = zero, interleave = none>"
        )
        more = f"{self.more}\n%issues = arith.andi %leader, %also : i1" if self.more else ""
        issues = "%issues" if self.more else "%leader"
        made = f"""
func.func @f(%x_: !llvm.ptr, %out: memref<{self.blocks}x64xf32> {{llvm.noalias}}, %tiles: index) attributes {{
    gpu.known_block_size = array<i32: 64, 1, 1>, gpu.known_cluster_size = array<i32: {x}, {y}, 1>{self.attributes}}} {{
  %x = builtin.unrealized_conversion_cast %x_ : !llvm.ptr to {map_type}
  %tile = memref.alloc() : memref<{self.width}xf32, {wg}>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %width = arith.constant {self.width} : index
  %share = arith.constant {share} : index
  %bytes = arith.constant {self.announced} : index
  %ticks = arith.constant 1000000 : index
  %false = arith.constant false
  %true = arith.constant true
  %zero = arith.constant 0.0 : f32
  %t = gpu.thread_id x
  %mirrored = arith.subi %width, %t : index
  %at = arith.subi %mirrored, %c1 : index
  %leader = arith.cmpi eq, %t, %c0 : index
  %rank = nvvm.read.ptx.sreg.cluster.ctarank : i32
  %row = arith.index_cast %rank : i32 to index
  {self.part}
  {self.mask}
  {more}
  %full = nvgpu.mbarrier.create -> BARS
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %leader : BARS
  nvvm.fence.mbarrier.init
  {self.meets_first}
  %sum, %last = scf.for %k = %c0 to %tiles step %c1 iter_args(%s = %zero, %phase = %false) -> (f32, i1) {{
    %offset = arith.muli %part, %share : index
    %start = arith.muli %k, %width : index
    %from = arith.addi %start, %offset : index
    nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %leader : BARS
    %to = memref.subview %tile[%offset][{share}][1] : memref<{self.width}xf32, {wg}> to {kind}
    nvgpu.tma.async.load %x[%from], %full[%c0] to %to multicast_mask = %mask, predicate = {issues} : {map_type}, BARS -> {kind}
    nvgpu.mbarrier.try_wait.parity %full[%c0], %phase, %ticks : BARS
    %v = memref.load %tile[%at] : memref<{self.width}xf32, {wg}>
    %double = arith.addf %s, %s : f32
    %more = arith.addf %double, %v : f32
    gpu.barrier
    {self.meets}
    %flip = arith.xori %phase, %true : i1
    scf.yield %more, %flip : f32, i1
  }} {{async_pipe.num_stages = {self.stages} : i64, {self.annotations}}}
  memref.store %sum, %out[%row, %t] : memref<{self.blocks}x64xf32>
  {self.meets_last}
  return
}}
"""
        bars = f"!nvgpu.mbarrier.group<memorySpace = {wg}, num_barriers = 1>"
        for old, new in (*self._around(), *self.changes):
            assert old in made, old
            made = made.replace(old, new)
        return made.replace("BARS", bars)

    def _around(self) -> tuple[tuple[str, str], ...]:
        if not self.rounds:
            return ()
        return (
            (
                "  %sum, %last = scf.for %k = %c0 to %tiles",
                f"""  %rounds = arith.constant {self.rounds} : index
  %sum, %over = scf.for %round = %c0 to %rounds step %c1 iter_args(%before = %zero, %first = %false) -> (f32, i1) {{
  %these = arith.subi %tiles, %round : index
  %sum_, %last = scf.for %k = %c0 to %these""",
            ),
            ("(%s = %zero, %phase = %false)", "(%s = %before, %phase = %first)"),
            (
                "  memref.store %sum,",
                "  scf.yield %sum_, %last : f32, i1\n  }\n  memref.store %sum,",
            ),
        )

    def kernel(self) -> str:
        """The same as a kernel of a GPU module."""
        tile = re.search(r"%tile = memref.alloc\(\) : (.*)\n", self.text())
        assert tile is not None
        text = self.text().replace(tile[0], "").replace("gpu.known", "known")
        text = text.replace("func.func @f", "gpu.module @m {\ngpu.func @f").replace(
            " {llvm.noalias}", ""
        )
        text = text.replace(
            " attributes {", f" workgroup(%tile: {tile[1]}) kernel attributes {{", 1
        )
        return text.replace("  return\n}", "  gpu.return\n}\n}")

    def parsed(self) -> Any:
        """The module."""
        return parse(self.text())

    def source(self) -> np.ndarray:
        """The tensor."""
        rng = np.random.default_rng(3)
        return rng.integers(-3, 4, (self.tiles, self.width)).astype(np.float32)

    def expected(self) -> np.ndarray:
        """What every block adds up."""
        total = np.zeros(self.width, np.float32)
        for fewer in range(max(1, self.rounds)):
            for tile in self.source()[: max(0, self.tiles - fewer)]:
                total = total + total + tile[::-1]
        return np.tile(total, (self.blocks, 1))

    def run(self, module: Any, completion: str, **options: Any) -> machine.RunResult:
        """Run it in one cluster, as its kernel says."""
        given = [self.source().reshape(-1), np.zeros((self.blocks, 64), np.float32), self.tiles]
        return machine.run(module, None, given, grid=self.shape, completion=completion, **options)

    def wrong(self, module: Any, completion: str, **options: Any) -> list[str]:
        """What the machine finds, and whether a number is wrong; [] if all is right."""
        result = self.run(module, completion, **options)
        found = [f"{race.code} {race.detail}" for race in result.races]
        if not np.array_equal(result.arrays[1], self.expected()):
            found.append("wrong numbers")
        return found
