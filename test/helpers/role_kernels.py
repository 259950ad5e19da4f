"""Kernels of a producer and two groups of consumers, two warps each, with every part open to change.

`cooperative`: both read each tile, and give it back by an arrival of each warp ("warps") or of one
thread of each group, after a barrier of its own ("groups"). `ping-pong`: the groups take turns, one
execution of the loop each, and named barriers keep them in order. The names of the parts are the
keys of `changes`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from helpers.machine_programs import parse
from helpers.tensor_kernels import BARS, TILE, _map
from mlir_async_pipe import machine

THREADS = 160


@dataclass(frozen=True)
class TwoGroups:
    """V `slots`, `executions` of a loop of `tiles` tiles. `counted`: the numbers are constants, else
    arguments. `arrivals`: who gives a slot back, if cooperative. `barriers`: mbarriers a slot that
    copies complete on, each for its half of the tile."""

    slots: int = 2
    tiles: int = 3
    executions: int = 2
    style: str = "cooperative"
    arrivals: str = "warps"
    counted: bool = True
    barriers: int = 1
    changes: dict[str, str] = field(default_factory=dict)

    @property
    def threads(self) -> int:
        """Threads of the block."""
        return THREADS

    @property
    def specialised(self) -> bool:
        """It has roles."""
        return True

    def part(self, name: str, text: str) -> str:
        """A part, or what it was changed to."""
        return self.changes.get(name, text)

    def text(self) -> str:
        """The module."""
        text = _text(self)
        box = TILE // self.barriers
        for name, meaning in {
            "MAP": _map(f"{box}xf32", "none"),
            "BARS": BARS.format(slots=self.slots),
            "VIEW": f"memref<{box}xf32, strided<[1], offset: ?>, WG>",
            "SLOTS": str(self.slots),
            "BOX": str(box),
        }.items():
            text = text.replace(name, meaning)
        return text

    def arguments(self) -> list[Any]:
        """Arrays for the kernel."""
        total = max(1, self.tiles * self.executions)
        source = np.random.default_rng(0).integers(-9, 10, total * TILE).astype(np.float32)
        rest = [] if self.counted else [self.tiles, self.executions]
        return [source, np.zeros((THREADS, total), np.float32), *rest]

    def run(self, completion: str, schedule: str) -> machine.RunResult:
        """Run it once."""
        return machine.run(
            parse(self.text()),
            None,
            self.arguments(),
            threads=THREADS,
            completion=completion,
            schedule=schedule,
        )

    def is_right(self, result: machine.RunResult) -> bool:
        """Whether each consumer has its number of each tile that it reads, counted from the end."""
        source, expected, *_ = self.arguments()
        for group in (0, 1):
            for tile in range(self.tiles * self.executions):
                if self.style == "cooperative" or tile // self.tiles % 2 == group:
                    values = source[tile * TILE : (tile + 1) * TILE]
                    expected[group * TILE : (group + 1) * TILE, tile] = values[::-1]
        return bool(np.array_equal(result.arrays[1], expected))


# What can be wrong with such kernels alone.
WRONG = {
    "a group that does not wait": {"wait 0": ""},
    "given back by nobody": {"arrive": ""},
    "no wait for empty": {"wait empty": ""},
    "empty counts three": {
        "init empty": "nvgpu.mbarrier.init %empty[%s], %c3, predicate = %leader : BARS"
    },
    "empty counts one": {
        "init empty": "nvgpu.mbarrier.init %empty[%s], %c1, predicate = %leader : BARS"
    },
    "all threads give back": {
        "arrive": "%token = nvgpu.mbarrier.arrive %empty[%slot] : BARS -> !nvgpu.mbarrier.token"
    },
    "one group gives back": {
        "arrive": """%other = arith.cmpi eq, %t, %c0 : index
scf.if %other {
  %token = nvgpu.mbarrier.arrive %empty[%slot] : BARS -> !nvgpu.mbarrier.token
}"""
    },
    "half of the bytes": {
        "expect 0": """%half = arith.divui %bytes, %c2 : index
nvgpu.mbarrier.arrive.expect_tx %full0[%slot], %half : BARS"""
    },
    "a half that is not copied": {"copy 0": ""},
}
APART = {"no barrier of the group": {"meet": ""}}
AS_PING_PONG = {
    "no order": {"order": "", "hand on": "", "begin": ""},
    "not handed on": {"hand on": ""},
    "nobody begins": {"begin": ""},
    "handed to itself": {"hand on": "nvvm.barrier.arrive id = %mine number_of_threads = %n128"},
}


def random_groups(seed: int) -> TwoGroups:
    """A right kernel."""
    draw = random.Random(f"groups {seed}")
    style = draw.choice(("cooperative", "cooperative", "ping-pong"))
    slots = draw.choice((1, 2, 3, 4))
    return TwoGroups(
        slots=slots,
        tiles=2 * slots + draw.choice((0, 1)),
        executions=draw.choice((2, 3)),
        style=style,
        arrivals=draw.choice(("warps", "groups")),
        counted=style == "ping-pong" or draw.random() < 0.5,
        barriers=draw.choice((1, 2)),
    )


def wrong_groups(kernel: TwoGroups, draw: random.Random) -> tuple[str, TwoGroups]:
    """The name of something wrong, and the kernel with it."""
    table = dict(WRONG)
    if kernel.style == "ping-pong":
        table |= AS_PING_PONG
    elif kernel.arrivals == "groups":
        table |= APART
    name = draw.choice(sorted(table))
    return name, replace(kernel, changes=table[name])


def _text(kernel: TwoGroups) -> str:
    sizes = "" if kernel.counted else ", %tiles: index, %executions: index"
    given = (
        f"%tiles = arith.constant {kernel.tiles} : index\n"
        f"%executions = arith.constant {kernel.executions} : index"
        if kernel.counted
        else ""
    )
    numbers = "\n".join(
        f"%c{n} = arith.constant {n} : index" for n in (0, 1, 2, 3, 4, 32, 63, 64, 128)
    )
    small = "\n".join(f"%n{n} = arith.constant {n} : i32" for n in (1, 2, 64, 128))
    halves = range(kernel.barriers)
    made = "\n".join(f"%full{h} = nvgpu.mbarrier.create -> BARS" for h in halves)
    inits = "\n".join(
        f"nvgpu.mbarrier.init %full{h}[%s], %c1, predicate = %leader : BARS" for h in halves
    )
    count = {"cooperative": {"warps": "%c4", "groups": "%c2"}[kernel.arrivals]}.get(
        kernel.style, "%c2"
    )
    empty = kernel.part(
        "init empty", f"nvgpu.mbarrier.init %empty[%s], {count}, predicate = %leader : BARS"
    )
    return f"""
func.func @f(%x_: !llvm.ptr, %out: memref<160x?xf32> {{llvm.noalias}}{sizes}) attributes {{gpu.known_block_size = array<i32: {THREADS}, 1, 1>}} {{
  %x = builtin.unrealized_conversion_cast %x_ : !llvm.ptr to MAP
  %buffer = memref.alloc() : memref<SLOTSx64xf32, WG>
  {numbers}
  {small}
  %slots = arith.constant {kernel.slots} : index
  %bytes = arith.constant {4 * TILE // kernel.barriers} : index
  %false = arith.constant false
  %true = arith.constant true
  {given}
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  {made}
  %empty = nvgpu.mbarrier.create -> BARS
  scf.for %s = %c0 to %slots step %c1 {{
    {inits}
    {empty}
  }}
  nvvm.fence.mbarrier.init
  gpu.barrier
  %consumes = arith.cmpi ult, %t, %c128 : index
  %issues = arith.cmpi eq, %t, %c128 : index
  scf.if %consumes {{
    %group = arith.divui %t, %c64 : index
    %own = arith.remui %t, %c64 : index
    %lane = arith.remui %t, %c32 : index
    %lane0 = arith.cmpi eq, %lane, %c0 : index
    %first0 = arith.cmpi eq, %own, %c0 : index
    %g32 = arith.index_cast %group : index to i32
    %mine = arith.addi %g32, %n1 : i32
    %theirs = arith.subi %n2, %g32 : i32
    {_consumer(kernel)}
  }} else {{
    scf.if %issues {{
      {_producer(kernel)}
    }}
  }}
  return
}}"""


_STEP = """%s1 = arith.addi %slot, %c1 : index
%wrap = arith.cmpi eq, %s1, %slots : index
%slot_ = arith.select %wrap, %c0, %s1 : index
%phase_ = arith.xori %phase, %wrap : i1"""


def _producer(kernel: TwoGroups) -> str:
    copies = []
    for h in range(kernel.barriers):
        expect = f"nvgpu.mbarrier.arrive.expect_tx %full{h}[%slot], %bytes : BARS"
        copies += [
            kernel.part(f"expect {h}", expect),
            f"%at{h} = arith.constant {h * TILE // kernel.barriers} : index",
            f"%from{h} = arith.addi %start, %at{h} : index",
            f"%to{h} = memref.subview %buffer[%slot, %at{h}][1, BOX][1, 1] : memref<SLOTSx64xf32, WG> to VIEW",
            kernel.part(
                f"copy {h}",
                f"nvgpu.tma.async.load %x[%from{h}], %full{h}[%slot] to %to{h} : MAP, BARS -> VIEW",
            ),
        ]
    wait = "nvgpu.mbarrier.try_wait.parity %empty[%slot], %phase, %c64 : BARS"
    body = "\n".join(copies)
    return f"""%all:2 = scf.for %e = %c0 to %executions step %c1 iter_args(%sl = %c0, %ph = %true) -> (index, i1) {{
  %first = arith.muli %e, %tiles : index
  %r:2 = scf.for %i = %c0 to %tiles step %c1 iter_args(%slot = %sl, %phase = %ph) -> (index, i1) {{
    %tile = arith.addi %first, %i : index
    %start = arith.muli %tile, %c64 : index
    {kernel.part("wait empty", wait)}
    {body}
    {_STEP}
    scf.yield %slot_, %phase_ : index, i1
  }}
  scf.yield %r#0, %r#1 : index, i1
}}"""


def _read(kernel: TwoGroups) -> str:
    waits = "\n".join(
        kernel.part(
            f"wait {h}", f"nvgpu.mbarrier.try_wait.parity %full{h}[%slot], %phase, %c64 : BARS"
        )
        for h in range(kernel.barriers)
    )
    return f"""{waits}
%mirrored = arith.subi %c63, %own : index
%v = memref.load %buffer[%slot, %mirrored] : memref<SLOTSx64xf32, WG>
memref.store %v, %out[%t, %tile] : memref<160x?xf32>"""


_ARRIVE = """scf.if %lane0 {
  %token = nvgpu.mbarrier.arrive %empty[%slot] : BARS -> !nvgpu.mbarrier.token
}"""


def _consumer(kernel: TwoGroups) -> str:
    if kernel.style == "ping-pong":
        return _ping_pong(kernel)
    back = kernel.part("arrive", _ARRIVE)
    if kernel.arrivals == "groups":
        meet = kernel.part("meet", "nvvm.barrier id = %mine number_of_threads = %n64")
        back = f"{meet}\n{back.replace('%lane0', '%first0')}"
    return f"""%all:2 = scf.for %e = %c0 to %executions step %c1 iter_args(%sl = %c0, %ph = %false) -> (index, i1) {{
  %first = arith.muli %e, %tiles : index
  %r:2 = scf.for %i = %c0 to %tiles step %c1 iter_args(%slot = %sl, %phase = %ph) -> (index, i1) {{
    %tile = arith.addi %first, %i : index
    {_read(kernel)}
    {back}
    {_STEP}
    scf.yield %slot_, %phase_ : index, i1
  }}
  scf.yield %r#0, %r#1 : index, i1
}}"""


def _ping_pong(kernel: TwoGroups) -> str:
    """Group g runs the executions g, g + 2, …; it begins where the other one has come to."""
    sync = kernel.part("order", "nvvm.barrier id = %mine number_of_threads = %n128")
    yield_values = kernel.part(
        "hand on", "nvvm.barrier.arrive id = %theirs number_of_threads = %n128"
    )
    return f"""%second = arith.cmpi eq, %group, %c1 : index
scf.if %second {{
  {kernel.part("begin", "nvvm.barrier.arrive id = %n1 number_of_threads = %n128")}
}}
scf.for %e = %group to %executions step %c2 {{
  %first = arith.muli %e, %tiles : index
  {sync}
  scf.for %i = %c0 to %tiles step %c1 {{
    %tile = arith.addi %first, %i : index
    %slot = arith.remui %tile, %slots : index
    %round = arith.divui %tile, %slots : index
    %odd = arith.remui %round, %c2 : index
    %phase = arith.cmpi eq, %odd, %c1 : index
    {_read(kernel)}
    {kernel.part("arrive", _ARRIVE)}
  }}
  %after = arith.addi %e, %c1 : index
  %more = arith.cmpi ult, %after, %executions : index
  scf.if %more {{
    {yield_values}
  }}
}}"""
