"""Values that all lanes of a warp have, after a reduction by butterflies, and stores of them.

Covers: facts/values/warp_values.py, vocabulary/shuffles.py, checker/conflicts.py, checker/thread_grid.py, machine/access.py,
machine/detector.py
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from helpers.check_harness import check_module
from helpers.machine_programs import parse
from mlir_async_pipe import machine
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.facts.values.warp_values import WarpValues

STEPS = (16, 8, 4, 2, 1)


def kernel(
    steps: Sequence[int] = STEPS,
    *,
    op: str = "llvm.fadd",
    mask: int = -1,
    place: str = "%warp",
    kind: str = "bfly",
) -> str:
    """128 threads sum up what each warp was given, as Triton does, and all lanes store the sum."""
    lines = [f"%m{step} = llvm.mlir.constant({step} : i32) : i32" for step in dict.fromkeys(steps)]
    current = "%x"
    for n, step in enumerate(steps):
        lines += [
            f"%b{n} = llvm.bitcast {current} : f32 to i32",
            f"%h{n} = nvvm.shfl.sync {kind} %mask, %b{n}, %m{step}, %last : i32 -> i32",
            f"%o{n} = llvm.bitcast %h{n} : i32 to f32",
            f"%s{n} = {op} {current}, %o{n} : f32"
            if op.startswith("llvm.f")
            else f"%s{n} = {op}({current}, %o{n}) : (f32, f32) -> f32",
        ]
        current = f"%s{n}"
    body = "\n  ".join(lines)
    return f"""
llvm.mlir.global external @sums() {{addr_space = 3 : i32, alignment = 16 : i64}} : !llvm.array<128 x f32>
llvm.func @f(%from: !llvm.ptr<1> {{llvm.noalias}}) attributes {{nvvm.kernel, nvvm.reqntid = array<i32: 128>}} {{
  %mask = llvm.mlir.constant({mask} : i32) : i32
  %last = llvm.mlir.constant(31 : i32) : i32
  %c0 = llvm.mlir.constant(0 : i32) : i32
  %c32 = llvm.mlir.constant(32 : i32) : i32
  %tid = nvvm.read.ptx.sreg.tid.x range <i32, 0, 128> : i32
  %warp = llvm.udiv %tid, %c32 : i32
  %sums = llvm.mlir.addressof @sums : !llvm.ptr<3>
  %own = llvm.getelementptr %from[%tid] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
  %x = llvm.load %own : !llvm.ptr<1> -> f32
  {body}
  %to = llvm.getelementptr %sums[{place}] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
  llvm.store {current}, %to : f32, !llvm.ptr<3>
  llvm.return
}}"""


def stored_is_same(text: str) -> bool:
    module = parse(text)
    (store,) = [op for op in walk(module.operation) if op.name == "llvm.store"]
    return WarpValues().alike(store.operands[0]) & 31 == 31


def races(text: str) -> set[str]:
    """What the machine finds where each lane was given another number."""
    values = np.random.default_rng(1).standard_normal(128).astype(np.float32)
    found = machine.run(parse(text), "f", [values], threads=(128, 1, 1))
    return {race.code for race in found.races}


@pytest.mark.parametrize("op", ["llvm.fadd", "llvm.fmul", "llvm.intr.maxnum", "llvm.intr.minimum"])
@pytest.mark.parametrize("steps", [STEPS, STEPS[::-1], (4, 16, 1, 2, 8)])
def test_a_reduction_by_butterflies_is_the_same_in_all_lanes(op: str, steps: tuple) -> None:
    text = kernel(steps, op=op)
    assert stored_is_same(text)
    found = check_module(parse(text))
    assert not found.unsafe and not found.unknown
    assert {entry.code for entry in found.report.diagnostics} == {"same-value"}
    assert not races(text)


@pytest.mark.parametrize(
    "changes",
    [
        {"steps": (16, 8, 4, 2)},
        {"steps": (16, 8, 4, 2, 2)},
        {"op": "llvm.fsub"},
        {"mask": 0xFFFF},
        {"kind": "down"},
        {"steps": ()},
    ],
)
def test_other_values_differ_and_storing_them_is_a_race(changes: dict) -> None:
    text = kernel(**changes)
    assert not stored_is_same(text)
    assert {code for code, _ in check_module(parse(text)).unsafe} == {"missing-barrier"}
    if "mask" not in changes:
        assert races(text) == {"missing-barrier"}


@pytest.mark.parametrize(
    "steps, bits, right", [((16, 8), 3, True), ((2, 1), 2, True), ((2, 1), 3, False)]
)
def test_groups_of_lanes_store_what_they_summed_up(steps: tuple, bits: int, right: bool) -> None:
    """After steps 16 and 8 lanes with one number modulo 8 have one sum; after 2 and 1 those with one quotient by 4."""
    place = (
        "%low = llvm.urem %tid, %c8 : i32"
        if steps == (16, 8)
        else "%low = llvm.udiv %tid, %c4 : i32",
    )
    sizes = f"%c8 = llvm.mlir.constant(8 : i32) : i32\n  %c4 = llvm.mlir.constant({1 << bits} : i32) : i32"
    text = kernel(steps, place="%at").replace(
        "  %to = ",
        f"  {sizes}\n  {place[0]}\n  %own8 = llvm.mul %warp, %c32 : i32\n  %at = llvm.add %own8, %low : i32\n  %to = "
        if steps == (16, 8)
        else f"  {sizes}\n  {place[0]}\n  %at = llvm.add %low, %c0 : i32\n  %to = ",
    )
    found = check_module(parse(text))
    assert bool(found.unsafe) is not right and bool(races(text)) is not right


@pytest.mark.parametrize(("step", "same"), [(0, True), (4, True), (2, False), (1, False)])
def test_one_vector_at_two_places_is_two_values_where_they_meet(step: int, same: bool) -> None:
    """Element 2 that one lane stores is element 0 of the next one's."""
    text = f"""
    gpu.module @m {{
      gpu.func @k(%from: memref<64xf32>, %n: index) workgroup(%s: memref<256xf32, 3>)
          kernel attributes {{known_block_size = array<i32: 32, 1, 1>}} {{
        %step = arith.constant {step} : index
        %t = gpu.thread_id x
        %at = arith.muli %t, %step : index
        %v = vector.load %from[%n] : memref<64xf32>, vector<4xf32>
        vector.store %v, %s[%at] : memref<256xf32, 3>, vector<4xf32>
        gpu.return
      }}
    }}"""
    found = check_module(parse(text))
    assert bool(found.unknown) is not same
    assert not found.unsafe


def test_two_warps_that_store_to_one_place_race() -> None:
    text = kernel(place="%c0")
    assert stored_is_same(text)
    assert {code for code, _ in check_module(parse(text)).unsafe} == {"missing-barrier"}
    assert races(text) == {"missing-barrier"}


def test_warps_that_store_one_value_are_not_certain() -> None:
    """All threads sum up the same 32 numbers: which warp is last does not matter, but nothing orders them."""
    text = kernel(place="%c0").replace("%from[%tid]", "%from[%lane]")
    text = text.replace("  %own =", "  %lane = llvm.and %tid, %last : i32\n  %own =")
    found = check_module(parse(text))
    assert not found.unsafe and {code for code, _ in found.unknown} == {"missing-barrier"}
    assert races(text) == {"missing-barrier"}


FULL = "%all = llvm.mlir.constant(-1 : i32) : i32\n  %half = llvm.mlir.constant(65535 : i32) : i32\n  %n = llvm.bitcast %x : f32 to i32"
OWN_MASK = "%upper = llvm.lshr %tid, %c4 : i32\n  %odd = llvm.and %upper, %c1 : i32\n  %by = llvm.mul %odd, %c16 : i32\n  %own_mask = llvm.shl %half, %by : i32"
VOTE = '%p = llvm.icmp "sgt" %n, %c0 : i32\n  %v = nvvm.vote.sync'
MATCH = "%v = nvvm.match.sync"


@pytest.mark.parametrize(
    ("made", "same"),
    [
        ("%v = nvvm.redux.sync add %n, %all : i32 -> i32", True),
        ("%v = nvvm.redux.sync umax %n, %all : i32 -> i32", True),
        (f"{VOTE} ballot %all, %p -> i32", True),
        (f"{VOTE} any %all, %p -> i1", True),
        (f"{VOTE} uni %all, %p -> i1", True),
        (f"{MATCH} all %all, %n : i32 -> !llvm.struct<(i32, i1)>", True),
        ("%v = gpu.subgroup_reduce add %n : (i32) -> i32", True),
        ("%v = gpu.subgroup_reduce add %n cluster(size = 32) : (i32) -> i32", True),
        ('%q = llvm.icmp "sgt" %n, %c0 : i32\n  %v = gpu.ballot %q : i32', True),
        # One lane's number, named by a number that is the same in the lanes of a warp.
        ("%v = nvvm.shfl.sync idx %all, %n, %warp, %last : i32 -> i32", True),
        # A mask of some lanes, and one that is another one in each half.
        ("%v = nvvm.redux.sync add %n, %half : i32 -> i32", False),
        (f"{OWN_MASK}\n  %v = nvvm.redux.sync add %n, %own_mask : i32 -> i32", False),
        (f"{OWN_MASK}\n  {VOTE} ballot %own_mask, %p -> i32", False),
        (f"{OWN_MASK}\n  {MATCH} all %own_mask, %n : i32 -> !llvm.struct<(i32, i1)>", False),
        # Lanes that match, clusters of lanes, the lane that each lane names.
        (f"{MATCH} any %all, %n : i32 -> i32", False),
        ("%v = gpu.subgroup_reduce add %n cluster(size = 8) : (i32) -> i32", False),
        ("%v = gpu.subgroup_reduce add %n cluster(size = 8, stride = 4) : (i32) -> i32", False),
        ("%v = nvvm.shfl.sync idx %all, %n, %tid, %last : i32 -> i32", False),
        ("%v = nvvm.shfl.sync up %all, %n, %c1, %c0 : i32 -> i32", False),
        ("%e = nvvm.elect.sync -> i1\n  %v = llvm.select %e, %n, %c0 : i1, i32", False),
    ],
)
def test_what_the_lanes_of_a_warp_make_together_is_one_value(made: str, same: bool) -> None:
    constants = "".join(f"%c{n} = llvm.mlir.constant({n} : i32) : i32\n  " for n in (1, 4, 16))
    kind = made.rsplit(" ", 1)[-1] if "struct" not in made else "!llvm.struct<(i32, i1)>"
    stored = "%v" if "struct" not in made else "%v1"
    taken = "" if "struct" not in made else f"\n  %v1 = llvm.extractvalue %v[0] : {kind}"
    kind = kind if "struct" not in made else "i32"
    text = kernel(()).replace("  %to =", f"  {constants}{FULL}\n  {made}{taken}\n  %to =")
    text = text.replace("llvm.store %x, %to : f32", f"llvm.store {stored}, %to : {kind}")
    assert stored_is_same(text) is same
    found = check_module(parse(text))
    assert bool(found.unsafe or found.unknown) is not same
    # Of several warps none is proven.
    several = check_module(parse(text.replace("%sums[%warp]", "%sums[%c0]")))
    assert several.unsafe or several.unknown


@pytest.mark.parametrize(
    ("size", "stride", "shift", "low", "right"),
    [(8, 1, 3, False, True), (8, 4, 2, True, True), (8, 4, 3, False, False), (4, 8, 3, True, True)],
)
def test_clusters_of_lanes_store_what_they_make_together(
    size: int, stride: int, shift: int, low: bool, right: bool
) -> None:
    """Lanes 0 to 7 have one quotient by 8, lanes that are 4 apart one remainder by 4."""
    place = f"%k = llvm.mlir.constant({1 << shift} : i32) : i32\n  "
    if low:
        place += "%w32 = llvm.mul %warp, %c32 : i32\n  %r = llvm.urem %tid, %k : i32\n  %at = llvm.add %w32, %r : i32"
    else:
        place += "%at = llvm.udiv %tid, %k : i32"
    made = (
        f"%v = gpu.subgroup_reduce add %n cluster(size = {size}, stride = {stride}) : (i32) -> i32"
    )
    text = kernel((), place="%at").replace("  %to =", f"  {FULL}\n  {made}\n  {place}\n  %to =")
    text = text.replace("llvm.store %x, %to : f32", "llvm.store %v, %to : i32")
    found = check_module(parse(text))
    assert bool(found.unsafe or found.unknown) is not right
    assert bool(races(text)) is not right


def test_what_threads_keep_in_memory_of_their_own_differs() -> None:
    """All of them read at one address, each its own number."""
    text = kernel((), place="%c0").replace(
        "  %to =",
        """  %c1 = llvm.mlir.constant(1 : i32) : i32
  %kept = llvm.alloca %c1 x f32 : (i32) -> !llvm.ptr
  llvm.store %x, %kept : f32, !llvm.ptr
  %read = llvm.load %kept : !llvm.ptr -> f32
  %to =""",
    )
    text = text.replace("llvm.store %x, %to", "llvm.store %read, %to")
    found = check_module(parse(text))
    assert {code for code, _ in found.unsafe} == {"missing-barrier"} == races(text)


@pytest.mark.parametrize(
    "value",
    [
        "%read = llvm.load volatile %flag : !llvm.ptr<1> -> f32",
        "%read = llvm.call @anything(%c0) : (i32) -> f32",
    ],
)
def test_what_lanes_ask_for_at_other_times_differs(value: str) -> None:
    text = kernel((), place="%c0").replace(
        "  %to =",
        f"  %flag = llvm.getelementptr %from[0] : (!llvm.ptr<1>) -> !llvm.ptr<1>, f32\n  {value}\n  %to =",
    )
    text = text.replace("llvm.store %x, %to", "llvm.store %read, %to")
    text = text.replace("llvm.func @f", "llvm.func @anything(i32) -> f32\nllvm.func @f")
    module = parse(text)
    (store,) = [op for op in walk(module.operation) if op.name == "llvm.store"]
    assert WarpValues().alike(store.operands[0]) == 0


def test_lanes_that_store_to_places_of_their_own_need_no_remark() -> None:
    assert not check_module(parse(kernel(place="%tid"))).report.diagnostics


WAVES = """
module attributes {{"ttg.num-warps" = 2 : i32, "ttg.threads-per-warp" = {lanes} : i32}} {{
llvm.mlir.global external @sums() {{addr_space = 3 : i32, alignment = 16 : i64}} : !llvm.array<128 x i32>
llvm.func @f(%from: !llvm.ptr<1> {{llvm.noalias}}, %n: i32) attributes {{rocdl.kernel}} {{
  %c0 = llvm.mlir.constant(0 : i32) : i32
  %c2 = llvm.mlir.constant(2 : i32) : i32
  %c32 = llvm.mlir.constant(32 : i32) : i32
  %c63 = llvm.mlir.constant(63 : i32) : i32
  %c64 = llvm.mlir.constant(64 : i32) : i32
  %swap1 = llvm.mlir.constant(1055 : i32) : i32
  %tid = rocdl.workitem.id.x : i32
  %lane = llvm.and %tid, %c63 : i32
  %warp = llvm.udiv %tid, %c64 : i32
  %own = llvm.getelementptr %from[%tid] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
  %x = llvm.load %own : !llvm.ptr<1> -> i32
  {body}
  %sums = llvm.mlir.addressof @sums : !llvm.ptr<3>
  %to = llvm.getelementptr %sums[{place}] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
  llvm.store %y, %to : i32, !llvm.ptr<3>
  llvm.return
}}}}"""
DPP = "%h = rocdl.update.dpp %x, %x with {}, {}, 15, true : i32\n  %y = llvm.add %x, %h : i32"
LOWER = (
    "%wave = llvm.mul %warp, %c64 : i32\n  %r32 = llvm.urem %tid, %c32 : i32\n  %l32 = llvm.add %wave, %r32 : i32\n"
    "  %not16 = llvm.mlir.constant(-17 : i32) : i32\n  %l16 = llvm.and %tid, %not16 : i32"
)
HALVES = (
    '%s = "rocdl.permlane{}.swap"({}) <{{boundControl = false, fi = false}}> : (i32, i32) -> !llvm.struct<(i32, i32)>\n'
    "  %a = llvm.extractvalue %s[0] : !llvm.struct<(i32, i32)>\n  %b = llvm.extractvalue %s[1] : !llvm.struct<(i32, i32)>\n"
    f"  %y = llvm.sub %a, %b : i32\n  {LOWER}"
)
BALLOT = '%p = llvm.icmp "sgt" %x, %c0 : i32\n  %wide = rocdl.ballot %p : i64\n  %y = llvm.trunc %wide : i64 to i32'
PAIR = "%low = llvm.udiv %tid, %c2 : i32"
QUAD = "%h2 = rocdl.update.dpp %y1, %y1 with 78, 15, 15, true : i32\n  %y = llvm.add %y1, %h2 : i32"
MIRRORED = "\n  ".join(
    f"%h{n} = rocdl.update.dpp %y{n - 1 or ''}, %y{n - 1 or ''} with {control}, 15, 15, true : i32\n"
    f"  %y{n if n < 4 else ''} = llvm.add %y{n - 1 or ''}, %h{n} : i32"
    for n, control in enumerate((177, 78, 321, 320), 1)
).replace("%y,", "%x,").replace("%y with", "%x with") + (
    "\n  %c16 = llvm.mlir.constant(16 : i32) : i32\n  %low16 = llvm.udiv %tid, %c16 : i32"
)
SUMS_OF_A_LOOP = """llvm.br ^head(%c0, %c0 : i32, i32)
^head(%k: i32, %sum: i32):
  %h = rocdl.readlane %x, %c63 : (i32, i32) -> i32
  %y = llvm.add %sum, %h : i32
  %next = llvm.add %k, %c2 : i32
  %again = llvm.icmp "slt" %next, {bound} : i32
  llvm.cond_br %again, ^head(%next, %y : i32, i32), ^done
^done:"""


@pytest.mark.parametrize(
    ("body", "place", "lanes", "found"),
    [
        # One lane's number, in all lanes of its wave; a wave of 32 has two such numbers at a place of 64 threads.
        ("%y = rocdl.readlane %x, %c63 : (i32, i32) -> i32", "%warp", 64, "safe"),
        ("%y = rocdl.readfirstlane %x : i32", "%warp", 64, "safe"),
        ("%y = rocdl.readfirstlane %x : i32", "%warp", 32, "unsafe"),
        ("%y = rocdl.readlane %x, %tid : (i32, i32) -> i32", "%warp", 64, "unsafe"),
        # Swaps in pairs and quads; a row that is left out keeps what it had.
        (f"{DPP.format(177, 15)}\n  {PAIR}", "%low", 64, "safe"),
        (f"{DPP.format(78, 15)}\n  {PAIR}", "%low", 64, "unknown"),
        (f"{DPP.format(177, 7)}\n  {PAIR}", "%low", 64, "unknown"),
        (f"{DPP.format(273, 15)}\n  {PAIR}", "%low", 64, "unknown"),
        (f"%h = rocdl.ds_swizzle %x, %swap1 : (i32, i32) -> i32\n  %y = llvm.add %h, %x : i32\n  {PAIR}", "%low", 64, "safe"),
        # Lanes that are 32 apart, by the number of the lane to take from.
        (
            "%other = llvm.xor %lane, %c32 : i32\n  %at = llvm.shl %other, %c2 : i32\n"
            "  %h = rocdl.ds_bpermute %at, %x : (i32, i32) -> i32\n  %y = llvm.mul %x, %h : i32\n"
            "  %wave = llvm.mul %warp, %c64 : i32\n  %l32 = llvm.urem %tid, %c32 : i32\n  %low = llvm.add %wave, %l32 : i32",
            "%low",
            64,
            "safe",
        ),
        # All patterns of swaps in a row: neighbours, pairs, and the mirrors of half a row and of a row; with one left
        # out a mirror swaps more than one bit.
        (MIRRORED, "%low16", 64, "safe"),
        (MIRRORED.replace("with 78,", "with 177,"), "%low16", 64, "unknown"),
        # Two registers of which the halves of a wave, or its rows, have changed places.
        (HALVES.format(32, "%x, %x"), "%l32", 64, "safe"),
        (HALVES.format(16, "%x, %x"), "%l16", 64, "safe"),
        (HALVES.format(32, "%x, %tid"), "%l32", 64, "unknown"),
        (HALVES.format(16, "%x, %x"), "%l32", 64, "unknown"),
        ("%h = amdgpu.permlane_swap %x 32 : i32\n  %y = llvm.add %x, %h : i32\n  " + LOWER, "%l32", 64, "safe"),
        ("%h, %v = gpu.shuffle xor %x, %c32, %c64 : i32\n  %y = llvm.add %x, %h : i32\n  " + LOWER, "%l32", 64, "safe"),
        ("%h, %v = gpu.shuffle xor %x, %c2, %c64 : i32\n  %y = llvm.add %x, %h : i32\n  " + LOWER, "%l32", 64, "unsafe"),
        ("%h = amdgpu.permlane_swap %x 16 : i32\n  %y = llvm.add %x, %h : i32\n  " + LOWER, "%l32", 64, "unknown"),
        ("%h = amdgpu.swizzle_bitmode %x 31 0 16 : i32\n  %y = llvm.add %x, %h : i32\n  " + LOWER, "%l16", 64, "safe"),
        ("%h = amdgpu.swizzle_bitmode %x 15 0 16 : i32\n  %y = llvm.add %x, %h : i32\n  " + LOWER, "%l16", 64, "unknown"),
        (BALLOT, "%warp", 64, "safe"),
        (BALLOT, "%c0", 64, "unknown"),
        ("%y = gpu.subgroup_reduce add %x : (i32) -> i32", "%warp", 64, "safe"),
        ("%y = gpu.subgroup_reduce add %x : (i32) -> i32", "%warp", 32, "unknown"),
        # What a loop carries is the same if it runs as often in all lanes.
        (SUMS_OF_A_LOOP.format(bound="%n"), "%warp", 64, "safe"),
        (SUMS_OF_A_LOOP.format(bound="%tid"), "%warp", 64, "unsafe"),
        # Nobody follows which lanes have one element of a product.
        (
            "%a = llvm.mlir.undef : vector<4xf16>\n  %s = llvm.mlir.undef : vector<4xf32>\n"
            "  %d = rocdl.mfma.f32.16x16x16f16 %a, %a, %s, 0, 0, 0 : (vector<4xf16>, vector<4xf16>, vector<4xf32>) "
            "-> vector<4xf32>\n  %e = llvm.extractelement %d[%c0 : i32] : vector<4xf32>\n  %y = llvm.bitcast %e : f32 to i32",
            "%warp",
            64,
            "unknown",
        ),
    ],
)  # fmt: skip
def test_what_lanes_of_a_wave_of_amd_have(body: str, place: str, lanes: int, found: str) -> None:
    text = WAVES.format(body=body, place=place, lanes=lanes)
    result = check_module(parse(text))
    assert found == ("unsafe" if result.unsafe else "unknown" if result.unknown else "safe")
    if found == "unknown":
        assert "same-value" in str(result.report)
    if lanes == 64:
        # Nobody says how long waves are: of 32 lanes there may be two at a place.
        text = text.replace(', "ttg.threads-per-warp" = 64 : i32', "")
        text = text.replace(
            "{rocdl.kernel}", "{rocdl.kernel, gpu.known_block_size = array<i32: 128, 1, 1>}"
        )
        again = check_module(parse(text))
        within = place in ("%low", "%low16", "%l16")
        assert found != "safe" or within or again.unsafe or again.unknown


STRUCTURED = """
gpu.module @m {{ gpu.func @f(%A: memref<?xf32> {{llvm.noalias}}, %L: memref<?xf32> {{llvm.noalias}}, %n: index)
    kernel attributes {{known_block_size = array<i32: 32, 1, 1>}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %one = arith.constant 1 : i32
  %all = arith.constant 32 : i32
  %low = arith.constant 0xFF800000 : f32
  %t = gpu.thread_id x
  %x = memref.load %A[%t] : memref<?xf32>
  {body}
  %row = arith.divui %t, %c2 : index
  memref.store %m, %L[%row] : memref<?xf32>
  gpu.return
}} }}"""
LARGEST = """%m = scf.for %i = %c0 to {bound} step %c1 iter_args(%old = %low) -> (f32) {{
    %mine = arith.maxnumf %x, %old : f32
    %other, %valid = gpu.shuffle xor %mine, %one, %all : f32
    %both = arith.maxnumf %mine, %other : f32
    scf.yield {handed} : f32
  }}"""
WHILE = """%i, %m = scf.while (%k = %c0, %old = %low) : (index, f32) -> (index, f32) {{
    %again = arith.cmpi ult, %k, {bound} : index
    scf.condition(%again) %k, %old : index, f32
  }} do {{
  ^bb0(%k: index, %old: f32):
    %mine = arith.maxnumf %x, %old : f32
    %other, %valid = gpu.shuffle xor %mine, %one, %all : f32
    %both = arith.maxnumf %mine, %other : f32
    %next = arith.addi %k, %c1 : index
    scf.yield %next, %both : index, f32
  }}"""
CHOSEN = """%other, %valid = gpu.shuffle xor %x, %one, %all : f32
  %both = arith.maxnumf %x, %other : f32
  %chosen = arith.cmpi eq, {number}, %c2 : index
  %m = scf.if %chosen -> (f32) {{ scf.yield %both : f32 }} else {{ scf.yield %low : f32 }}"""


@pytest.mark.parametrize(
    ("body", "safe"),
    [
        (LARGEST.format(bound="%n", handed="%both"), True),
        # Each lane has its own; or stops after as many iterations as its number says.
        (LARGEST.format(bound="%n", handed="%mine"), False),
        (LARGEST.format(bound="%t", handed="%both"), False),
        (WHILE.format(bound="%n"), True),
        (WHILE.format(bound="%t"), False),
        (CHOSEN.format(number="%n"), True),
        (CHOSEN.format(number="%t"), False),
    ],
)
def test_what_loops_and_branches_hand_on_is_one_value_if_what_decides_is(
    body: str, safe: bool
) -> None:
    text = STRUCTURED.format(body=body)
    result = check_module(parse(text))
    assert (bool(result.unsafe), bool(result.unknown)) == (not safe, False)
    arrays = [np.arange(32, dtype=np.float32), np.zeros(16, np.float32), 2]
    assert (machine.run(parse(text), "f", arrays, threads=32).races == ()) == safe


def of_warps(number: str, size: str = "32, 4, 2") -> bool:
    """Whether all lanes of a warp have one number of a thread, div 32."""
    root = parse(
        f"""
gpu.module @m {{ gpu.func @f(%n: i32) kernel attributes {{known_block_size = array<i32: {size}>}} {{
  %five = arith.constant 5 : i32
  %nx = gpu.thread_id x
  %x = arith.index_cast %nx : index to i32
  %ny = gpu.thread_id y
  %y = arith.index_cast %ny : index to i32
  %nz = gpu.thread_id z
  %z = arith.index_cast %nz : index to i32
  %sx = gpu.block_dim x
  %bx = arith.index_cast %sx : index to i32
  %sy = gpu.block_dim y
  %by = arith.index_cast %sy : index to i32
  %bxy = arith.muli %bx, %by : i32
  %row = arith.muli %y, %bx : i32
  %plane = arith.muli %z, %bxy : i32
  {number}
  %warp = arith.shrui %tid, %five : i32
  gpu.return
}} }}"""
    ).operation
    (shift,) = [op for op in walk(root) if op.name == "arith.shrui"]
    return WarpValues().is_of_warp(shift.results[0], 32)


IN_ROW, IN_BLOCK = (
    "%tid = arith.addi %x, %row : i32",
    "%a = arith.addi %x, %row : i32\n  %tid = arith.addi %a, %plane : i32",
)


@pytest.mark.parametrize(
    ("number", "size", "same"),
    [
        (IN_BLOCK, "32, 4, 2", True),
        (IN_BLOCK, "24, 4, 2", True),
        (IN_ROW, "24, 4, 1", True),
        ("%tid = arith.addi %x, %plane : i32", "24, 1, 4", True),
        # A plane is left out; rows are counted by the wrong size; something is added.
        (IN_ROW, "24, 4, 2", False),
        ("%other = arith.muli %y, %by : i32\n  %tid = arith.addi %x, %other : i32", "24, 4, 1", False),
        ("%tid = arith.addi %x, %n : i32", "64, 1, 1", False),
        ("%tid = arith.addi %x, %x : i32", "64, 1, 1", False),
    ],
)  # fmt: skip
def test_the_number_of_a_thread_in_its_block(number: str, size: str, same: bool) -> None:
    assert of_warps(number, size) == same


@pytest.mark.parametrize(
    ("quotient", "same"),
    [
        ("arith.floordivsi %t, %c64", True),
        ("arith.divui %t, %c64", True),
        # A number below 0 is rounded up: of lanes -64 to -1 the last 63 have another quotient than the first.
        ("arith.divsi %t, %c64", False),
        ("arith.ceildivsi %t, %c64", False),
        ("arith.floordivsi %t, %c48", False),
    ],
)
def test_a_quotient_that_is_rounded_down_is_a_shift(quotient: str, same: bool) -> None:
    root = parse(f"""
func.func @f(%s: memref<16xi32>) attributes {{gpu.kernel, gpu.known_block_size = array<i32: 256, 1, 1>}} {{
  %c48 = arith.constant 48 : i32
  %c64 = arith.constant 64 : i32
  %x = gpu.thread_id x
  %t = arith.index_cast %x : index to i32
  %wave = {quotient} : i32
  memref.store %wave, %s[%x] : memref<16xi32>
  return
}}""").operation
    (store,) = [op for op in walk(root) if op.name == "memref.store"]
    assert WarpValues(64).is_of_warp(store.operands[0], 64) == same


LOADS = """
func.func @f(%s: memref<64x64xf16, 3>, %to: memref<64xf16>) attributes {{gpu.kernel}} {{
  %c0 = arith.constant 0 : index
  %x = gpu.thread_id x
  {}
  memref.store %v, %to[%x] : memref<64xf16>
  return
}}"""


@pytest.mark.parametrize(
    ("load", "same"),
    [
        ("%v = memref.load %s[%c0, %c0] : memref<64x64xf16, 3>", True),
        # Each lane gets another element of what is read at one place.
        (
            "%m = nvgpu.ldmatrix %s[%c0, %c0] {numTiles = 1 : i32, transpose = false} : memref<64x64xf16, 3> -> vector<1x2xf16>\n"
            "  %v = vector.extract %m[0, 0] : f16 from vector<1x2xf16>",
            False,
        ),
    ],
)
def test_what_lanes_load_from_one_place_is_one_value(load: str, same: bool) -> None:
    root = parse(LOADS.format(load)).operation
    (store,) = [op for op in walk(root) if op.name == "memref.store"]
    assert WarpValues().is_of_warp(store.operands[0], 32) == same


ALL_REDUCE = """
func.func private @anything()
func.func @f(%from: memref<?xi32>, %to: memref<?xi32>) attributes {{gpu.kernel, gpu.known_block_size = array<i32: {threads}, 1, 1>}} {{
  %c0 = arith.constant 0 : index
  %t = gpu.thread_id x
  %x = memref.load %from[%t] : memref<?xi32>
  %s = gpu.all_reduce {how} : (i32) -> i32
  %y = arith.addi %s, {more} : i32
  memref.store %y, %to[%c0] : memref<?xi32>
  return
}}"""
REGION = "%x uniform {{\n  ^bb0(%a: i32, %b: i32):\n    {}\n    gpu.yield %m : i32\n  }}"
SUM_IN_REGION = "%m = arith.addi %a, %b : i32"


@pytest.mark.parametrize(
    ("threads", "how", "more", "verdict"),
    [
        (32, "add %x uniform {}", "%s", "safe"),
        (32, REGION.format(SUM_IN_REGION), "%s", "safe"),
        # Something of the thread's own; several warps; a region that does more than combine two numbers.
        (32, "add %x uniform {}", "%x", "unsafe"),
        (64, "add %x uniform {}", "%s", "unknown"),
        (32, REGION.format(f"{SUM_IN_REGION}\n    func.call @anything() : () -> ()"), "%s", "unknown"),
    ],
)  # fmt: skip
def test_what_all_threads_of_a_block_make_together_is_one_value(
    threads: int, how: str, more: str, verdict: str
) -> None:
    text = ALL_REDUCE.format(threads=threads, how=how, more=more)
    found = check_module(parse(text), assume_noalias_arguments=True)
    if verdict == "safe":
        assert not found.unsafe and not found.unknown
        assert {entry.code for entry in found.report.diagnostics} == {"same-value"}
    else:
        # An error after a meeting of some threads is not certain.
        assert found.unknown or found.unsafe


def test_threads_meet_where_they_make_a_value_together_but_see_no_memory_of_others() -> None:
    text = ALL_REDUCE.format(threads=64, how="add %x uniform {}", more="%s")
    text = text.replace("  %y =", "  %r = memref.load %to[%c0] : memref<?xi32>\n  %y =")
    text = text.replace("%x = memref", "memref.store %c, %to[%t] : memref<?xi32>\n  %x = memref")
    text = text.replace("%t = gpu", "%c = arith.constant 1 : i32\n  %t = gpu")
    found = check_module(parse(text), assume_noalias_arguments=True)
    assert found.unknown


def test_where_threads_may_not_meet_at_all_the_reason_is_what_their_places_depend_on() -> None:
    """Rows of `%n` elements are apart but for `%n` = 0: that is to be promised, and not that values are the same."""
    product = (
        "%a = llvm.mlir.undef : vector<4xf16>\n  %s = llvm.mlir.undef : vector<4xf32>\n"
        "  %d = rocdl.mfma.f32.16x16x16f16 %a, %a, %s, 0, 0, 0 : (vector<4xf16>, vector<4xf16>, vector<4xf32>) "
        "-> vector<4xf32>\n  %e = llvm.extractelement %d[%c0 : i32] : vector<4xf32>\n  %y = llvm.bitcast %e : f32 to i32\n"
        "  %row = llvm.mul %tid, %n : i32"
    )
    report = check_module(parse(WAVES.format(body=product, place="%row", lanes=64))).report
    (summary,) = report.of("checks")
    assert summary.unknown
    assert "same-value" not in summary.reasons


@pytest.mark.parametrize(
    ("op", "of_warp"),
    [
        ("affine.apply affine_map<(d0) -> (d0 floordiv 32)>(%t)", [True]),
        ("affine.apply affine_map<(d0) -> (d0 floordiv 16)>(%t)", [False]),
        # It is divided by the number in the map, not by the second operand.
        ("affine.apply affine_map<(d0, d1) -> (d0 floordiv 8 + d1)>(%t, %c32)", [False]),
        ("affine.apply affine_map<(d0) -> (d0 mod 32)>(%t)", [False]),
        ("affine.delinearize_index %t into (32, 32) : index, index", [True, False]),
        ("affine.delinearize_index %t into (64, 16) : index, index", [False, False]),
        ("affine.linearize_index [%t, %c32] by (4, 64) : index", [False]),
    ],
)
def test_affine_operators_are_read_bit_by_bit(op: str, of_warp: list[bool]) -> None:
    names = ", ".join(f"%r{n}" for n in range(len(of_warp)))
    text = f"""func.func @f() attributes {{gpu.known_block_size = array<i32: 1024, 1, 1>}} {{
  %t = gpu.thread_id x
  %c32 = arith.constant 32 : index
  {names} = {op}
  return
}}"""
    values, module = WarpValues(), parse(text)
    (made,) = [one for one in walk(module.operation) if one.name == op.split()[0]]
    assert [values.is_of_warp(value, 32) for value in made.results] == of_warp
