"""Kernels that copy by tensor maps into a ring of slots, with every part open to change.

Each execution of the loop sums up n tiles: by generic loads (`reader="loads"`: row t of the output
is tile t, mirrored) or by products of a warpgroup (`reader="products"`: C = A B). The names of the
parts are the keys of `changes`, whose text takes the place of the part's; "%name" stays a value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from helpers.machine_programs import parse
from mlir_async_pipe import machine

LOOP, TILE = "tile", 64


@dataclass(frozen=True)
class Ring:
    """V `slots`, `ahead` (d) and `in_flight` (p) as in docs/phases.md; `executions` of the loop,
    of `tiles` tiles each; `specialised`: a producer of its own.

    Of those that are not: the `leader` is thread 0 ("thread"), elected ("elect"), or goes into a
    branch ("branch"); slot and parity are `carried`, or "divided" out of the tile's number; a slot
    is refilled `order` "after" the tile is read or "before". Unless `counted` the number of tiles
    is an argument.
    """

    slots: int = 2
    ahead: int = 1
    in_flight: int = 0
    tiles: int = 5
    executions: int = 2
    specialised: bool = False
    reader: str = "loads"
    changes: dict[str, str] = field(default_factory=dict)
    leader: str = "thread"
    counted: bool = True
    parity: str = "carried"
    order: str = "after"

    @property
    def consumers(self) -> int:
        """Threads that read: a warpgroup for products, else two warps."""
        return 128 if self.reader == "products" else 64

    @property
    def threads(self) -> int:
        """Threads of the block."""
        return self.consumers + (32 if self.specialised else 0)

    def text(self) -> str:
        """The module."""
        return _text(self)

    def part(self, name: str, text: str) -> str:
        """A part, or what it was changed to."""
        return self.changes.get(name, text)

    def arguments(self, seed: int = 0) -> list[Any]:
        """Arrays for the kernel, filled with small integers."""
        random = np.random.default_rng(seed)
        total = self.tiles * self.executions * TILE
        rest = [] if self.counted else [self.tiles]
        if self.reader == "loads":
            source = random.integers(-9, 10, total + TILE).astype(np.float32)
            return [source, np.zeros((max(1, total // TILE), TILE), np.float32), *rest]
        a = random.integers(-3, 4, (TILE, total + TILE)).astype(np.float16)
        b = random.integers(-3, 4, (total + TILE, TILE)).astype(np.float16)
        return [a, b, np.zeros((self.executions * TILE, TILE), np.float32), *rest]

    def expected(self, arguments: list[Any]) -> Any:
        """The output, by NumPy."""
        total = self.tiles * self.executions * TILE
        if self.reader == "loads":
            rows = arguments[0][:total].reshape(-1, TILE)[:, ::-1]
            return rows if total else np.zeros((1, TILE), np.float32)
        a, b = (np.asarray(array, np.float32) for array in arguments[:2])
        step = self.tiles * TILE
        starts = range(0, total, step) if step else [0] * self.executions
        products = [a[:, at : at + step] @ b[at : at + step] for at in starts]
        return np.concatenate(products)

    def run(self, completion: str = "late", schedule: str = "lockstep") -> machine.RunResult:
        """Run it once."""
        return machine.run(
            parse(self.text()),
            None,
            self.arguments(),
            threads=self.threads,
            completion=completion,
            schedule=schedule,
        )

    def is_right(self, result: machine.RunResult) -> bool:
        """Whether the output is NumPy's."""
        expected = self.expected(self.arguments())
        (*_, output) = (array for array in result.arrays if np.ndim(array))
        return bool(np.array_equal(output, expected))


BARS = "!nvgpu.mbarrier.group<memorySpace = WG, num_barriers = {slots}>"


def _map(shape: str, swizzle: str) -> str:
    return (
        f"!nvgpu.tensormap.descriptor<tensor = memref<{shape}, 3>, swizzle = {swizzle}, "
        "l2promo = none, oob = zero, interleave = none>"
    )


def _text(ring: Ring) -> str:
    bars = BARS.format(slots=ring.slots)
    head = _PRODUCTS_HEAD if ring.reader == "products" else _LOADS_HEAD
    names = {
        "MAP1": _map("64xf32", "none"),
        "MAP2": _map("64x64xf16", "swizzle_128b"),
        "BARS": bars,
        "SLOTS": str(ring.slots),
        "COUNT": "" if ring.counted else ", %tiles: index",
        "SIZED": f"attributes {{gpu.known_block_size = array<i32: {ring.threads}, 1, 1>}}",
    }
    lines = [head, _START.format(ring=ring, bytes=256 if ring.reader == "loads" else 16384)]
    lines.append(_ELECTED if ring.leader == "elect" else _FIRST)
    if ring.counted:
        lines.append(f"%tiles = arith.constant {ring.tiles} : index")
    lines.append(ring.part("init", _INIT))
    if ring.specialised:
        lines.append(ring.part("init empty", _INIT_EMPTY.format(warps=ring.consumers // 32)))
    lines += [
        ring.part("fence", _FENCE),
        ring.part("barrier after init", "gpu.barrier"),
        _specialised(ring) if ring.specialised else _together(ring),
        "return\n}",
    ]
    text = "\n".join(lines)
    for name, meaning in names.items():
        text = text.replace(name, meaning)
    return text


_LOADS_HEAD = """
func.func @f(%x_: !llvm.ptr, %out: memref<?x64xf32> {llvm.noalias}COUNT) SIZED {
  %x = builtin.unrealized_conversion_cast %x_ : !llvm.ptr to MAP1
  %buffer = memref.alloc() : memref<SLOTSx64xf32, WG>
"""
_PRODUCTS_HEAD = """
func.func @f(%a_: !llvm.ptr, %b_: !llvm.ptr, %out: memref<?x64xf32> {llvm.noalias}COUNT) SIZED {
  %a = builtin.unrealized_conversion_cast %a_ : !llvm.ptr to MAP2
  %b = builtin.unrealized_conversion_cast %b_ : !llvm.ptr to MAP2
  %as = memref.alloc() : memref<SLOTSx64x64xf16, WG>
  %bs = memref.alloc() : memref<SLOTSx64x64xf16, WG>
"""
_START = """
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c63 = arith.constant 63 : index
  %c64 = arith.constant 64 : index
  %c32 = arith.constant 32 : index
  %false = arith.constant false
  %true = arith.constant true
  %slots = arith.constant {ring.slots} : index
  %ahead = arith.constant {ring.ahead} : index
  %executions = arith.constant {ring.executions} : index
  %left = arith.constant {ring.in_flight} : index
  %consumers = arith.constant {ring.consumers} : index
  %bytes = arith.constant {bytes} : index
  %t = gpu.thread_id x
  %full = nvgpu.mbarrier.create -> BARS
  %empty = nvgpu.mbarrier.create -> BARS
"""
_FIRST = "%leader = arith.cmpi eq, %t, %c0 : index"
_ELECTED = """%warp0 = arith.cmpi ult, %t, %c32 : index
%one = nvvm.elect.sync -> i1
%leader = arith.andi %one, %warp0 : i1"""
_INIT = """scf.for %s = %c0 to %slots step %c1 {
  nvgpu.mbarrier.init %full[%s], %c1, predicate = %leader : BARS
}"""
_INIT_EMPTY = """%warps = arith.constant {warps} : index
scf.for %s = %c0 to %slots step %c1 {{
  nvgpu.mbarrier.init %empty[%s], %warps, predicate = %leader : BARS
}}"""
_FENCE = """nvvm.fence.mbarrier.init
nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}"""
_EXPECT = "nvgpu.mbarrier.arrive.expect_tx %full[%at], %bytes, predicate = %go : BARS"


def _refill(ring: Ring) -> str:
    """Copies tile %tile, counted over all executions, into slot %at if %go."""
    text = _predicated(ring)
    if ring.leader != "branch" or ring.specialised:
        return text
    return "scf.if %go {\n" + text.replace(", predicate = %go", "") + "\n}"


def _predicated(ring: Ring) -> str:
    where = "%from = arith.muli %tile, %c64 : index\n"
    expect = ring.part("expect", _EXPECT) + "\n"
    if ring.reader == "loads":
        view = "memref<64xf32, strided<[1], offset: ?>, WG>"
        return (
            f"{where}{expect}%to = memref.subview %buffer[%at, 0][1, 64][1, 1] "
            f": memref<SLOTSx64xf32, WG> to {view}\n"
            + ring.part(
                "copy",
                "nvgpu.tma.async.load %x[%from], %full[%at] to %to, predicate = %go "
                f": MAP1, BARS -> {view}",
            )
        )
    view = "memref<64x64xf16, strided<[64, 1], offset: ?>, WG>"
    views = "".join(
        f"%{name} = memref.subview %{name}s[%at, 0, 0][1, 64, 64][1, 1, 1] "
        f": memref<SLOTSx64x64xf16, WG> to {view}\n".replace(f"%{name} =", f"%{name}t =")
        for name in "ab"
    )
    copy_a = (
        "nvgpu.tma.async.load %a[%from, %c0], %full[%at] to %at_, predicate = %go "
        f": MAP2, BARS -> {view}"
    ).replace("%at_", "%at0")
    return (
        where
        + expect
        + views.replace("%at =", "%at0 =")
        + ring.part("copy", copy_a)
        + "\n"
        + ring.part(
            "copy b",
            "nvgpu.tma.async.load %b[%c0, %from], %full[%at] to %bt, predicate = %go "
            f": MAP2, BARS -> {view}",
        )
    )


def _read(ring: Ring) -> str:
    """Reads slot %slot, which holds tile %tile; gives %sum' as %next for products."""
    if ring.reader == "loads":
        return """%mirrored = arith.subi %c63, %t : index
%v = memref.load %buffer[%slot, %mirrored] : memref<SLOTSx64xf32, WG>
memref.store %v, %out[%tile, %t] : memref<?x64xf32>
%next = arith.addi %c0, %c0 : index"""
    view = "memref<64x64xf16, strided<[64, 1], offset: ?>, WG>"
    desc = "!nvgpu.warpgroup.descriptor<tensor = memref<64x64xf16, 3>>"
    lines = []
    for name in "ab":
        lines.append(
            f"%{name}v = memref.subview %{name}s[%slot, 0, 0][1, 64, 64][1, 1, 1] "
            f": memref<SLOTSx64x64xf16, WG> to {view}"
        )
        lines.append(
            f"%{name}d = nvgpu.warpgroup.generate.descriptor %{name}v, %{name} "
            f": {view}, MAP2 -> {desc}"
        )
    left = ring.part("wait group", str(ring.in_flight))
    lines.append(
        f"%next = nvgpu.warpgroup.mma %ad, %bd, %sum {{transposeB, waitGroup = {left} : i64}} "
        f": {desc}, {desc}, {ACCUMULATOR} -> {ACCUMULATOR}"
    )
    return "\n".join(lines)


ACCUMULATOR = "!nvgpu.warpgroup.accumulator<fragmented = vector<64x64xf32>>"
# The slot after %slot, and the phase that goes with it.
_STEP = """%s1 = arith.addi %slot, %c1 : index
%wrap = arith.cmpi eq, %s1, %slots : index
%slot_ = arith.select %wrap, %c0, %s1 : index
"""
# The same of the tile's number.
_DIVIDED = """%slot = arith.remui %tile, %slots : index
%round = arith.divui %tile, %slots : index
%odd = arith.remui %round, %c2 : index
%phase = arith.cmpi eq, %odd, %c1 : index"""
_FLIP = "%phase_ = arith.xori %phase, %wrap : i1"
_WAIT = "nvgpu.mbarrier.try_wait.parity %full[%slot], %phase, %c64 : BARS"


def _loop(ring: Ring, body: str, after: str, phase: str, carried: str) -> str:
    """Executions of a loop over tiles that carries %slot, %phase and %sum; `%tile` counts on."""
    products = ring.reader == "products" and carried
    kind = ACCUMULATOR if products else "index"
    zero = (
        f"%zero = nvgpu.warpgroup.mma.init.accumulator -> {ACCUMULATOR}"
        if products
        else "%zero = arith.addi %c0, %c0 : index"
    )
    before = carried if carried != "sum" else ""
    step = _STEP + ring.part("flip", _FLIP)
    slot, phase_now, divided = "%slot", "%phase", ""
    if ring.parity == "divided" and carried and not ring.specialised:
        slot, phase_now, divided = "%carried", "%turned", _DIVIDED
    return f"""
%all:2 = scf.for %e = %c0 to %executions step %c1 iter_args(%slot0 = %c0, %phase0 = {phase}) -> (index, i1) {{
  {zero}
  %first = arith.muli %e, %tiles : index
  {before}
  %r:3 = scf.for %i = %c0 to %tiles step %c1 iter_args({slot} = %slot0, {phase_now} = %phase0, %sum = %zero) -> (index, i1, {kind}) {{
    %tile = arith.addi %first, %i : index
    {divided}
    {body}
    {step}
    scf.yield %slot_, %phase_, {"%next" if carried else "%sum"} : index, i1, {kind}
  }}
  {after}
  {ring.part("restart", "scf.yield %r#0, %r#1 : index, i1")}
}}"""


def _store(ring: Ring) -> str:
    """The end of an execution: products are over, and go to their rows of the output."""
    if ring.reader == "loads":
        return ""
    return ring.part("last wait", "nvvm.wgmma.wait.group.sync.aligned 0") + (
        "\n%rows = arith.muli %e, %c64 : index\n"
        "%block = memref.subview %out[%rows, 0][64, 64][1, 1] "
        ": memref<?x64xf32> to memref<64x64xf32, strided<[64, 1], offset: ?>>\n"
        f"nvgpu.warpgroup.mma.store %r#2, %block "
        f": {ACCUMULATOR} to memref<64x64xf32, strided<[64, 1], offset: ?>>"
    )


def _together(ring: Ring) -> str:
    """All warps read, thread 0 copies: wait, read, barrier, refill."""
    prologue = f"""scf.for %j = %c0 to %ahead step %c1 {{
    %in = arith.cmpi ult, %j, %tiles : index
    %go = arith.andi %in, %leader : i1
    %tile = arith.addi %first, %j : index
    %s = arith.addi %slot0, %j : index
    %at = arith.remui %s, %slots : index
    {_refill(ring)}
  }}"""
    read = [ring.part("barrier", "gpu.barrier")]
    read.insert(0 if ring.order == "after" else 1, _read(ring))
    refill = [
        "%j = arith.addi %i, %ahead : index",
        "%in = arith.cmpi ult, %j, %tiles : index",
        "%go = arith.andi %in, %leader : i1",
        "%s = arith.addi %slot, %ahead : index",
        ring.part("refilled slot", "%at = arith.remui %s, %slots : index"),
        "%later = arith.addi %tile, %ahead : index",
        _refill(ring).replace("%tile", "%later"),
    ]
    wait = ring.part("wait", _WAIT)
    body = [wait, *read, *refill] if ring.order == "after" else [wait, read[0], *refill, read[1]]
    return _loop(ring, "\n".join(body), _store(ring), ring.part("first phase", "%false"), prologue)


def _specialised(ring: Ring) -> str:
    """The first consumers read and give slots back; one thread of the last warp copies."""
    give = """%lane = arith.remui %t, %c32 : index
%lane0 = arith.cmpi eq, %lane, %c0 : index
"""
    back = f"""%some = arith.cmpi uge, %i, %left : index
%gives = arith.andi %some, %lane0 : i1
%s2 = arith.addi %slot, %slots : index
%s3 = arith.subi %s2, %left : index
%old = arith.remui %s3, %slots : index
scf.if %gives {{
  {ring.part("arrive", "%token = nvgpu.mbarrier.arrive %empty[%old] : BARS -> !nvgpu.mbarrier.token")}
}}"""
    drain = """%less = arith.minui %left, %tiles : index
scf.for %k = %c0 to %less step %c1 {
  %up = arith.addi %k, %c1 : index
  %s4 = arith.addi %r#0, %slots : index
  %s5 = arith.subi %s4, %up : index
  %old = arith.remui %s5, %slots : index
  scf.if %lane0 {
    %token = nvgpu.mbarrier.arrive %empty[%old] : BARS -> !nvgpu.mbarrier.token
  }
}"""
    body = "\n".join([ring.part("wait", _WAIT), _read(ring), back])
    after = _store(ring) + "\n" + ring.part("drain", drain)
    consumer = _loop(ring, body, after, ring.part("first phase", "%false"), "sum")
    producer_body = "\n".join(
        [
            ring.part(
                "wait empty", "nvgpu.mbarrier.try_wait.parity %empty[%slot], %phase, %c64 : BARS"
            ),
            "%go = arith.addi %false, %true : i1",
            "%at = arith.addi %slot, %c0 : index",
            _refill(ring),
        ]
    )
    producer = _loop(ring, producer_body, "", ring.part("first empty phase", "%true"), "")
    return f"""
%consumes = arith.cmpi ult, %t, %consumers : index
%issues = arith.cmpi eq, %t, %consumers : index
scf.if %consumes {{
  {give}
  {consumer}
}} else {{
  scf.if %issues {{
    {producer}
  }}
}}"""
