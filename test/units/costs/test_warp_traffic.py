"""What a warp asks of banks and sectors: by hand, and beside the addresses of the machine.

Covers: facts/costs/warp_traffic.py, test/helpers/lane_addresses.py
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pytest

from helpers.gemm_kernels import gemm_text, operands
from helpers.lane_addresses import neighbours, sectors, watched, wavefronts
from mlir_async_pipe import pipeline
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import functions, walk
from mlir_async_pipe.chips.table import CHIPS
from mlir_async_pipe.facts.costs.warp_traffic import Traffic, Unknown, WarpTraffic
from mlir_async_pipe.session.diagnostics import Place
from mlir_async_pipe.vocabulary import accesses
from mlir_async_pipe.vocabulary.launch_ids import block_size

WG = "#gpu.address_space<workgroup>"
PRELUDE = "\n".join(f"%c{n} = arith.constant {n} : index" for n in (0, 1, 2, 3, 4, 5, 7, 8, 16, 32))


def kernel(
    body: str, arguments: str = "%n: index", tile: str = "64x32xf16", threads: int = 64
) -> str:
    return f"""gpu.module @m {{
gpu.func @k({arguments}) workgroup(%tile: memref<{tile}, {WG}> {{llvm.align = 16}})
    kernel attributes {{known_block_size = array<i32: {threads}, 1, 1>}} {{
{PRELUDE}
%t = gpu.thread_id x
{body}
gpu.return
}}
}}
"""


Found = tuple[str, Place, Traffic | Unknown]


def found(text: str, chip: str = "sm_80") -> list[Found]:
    """The op and its place of each access of memory that lanes share, in the order of the text."""
    module = ir.Module.parse(text)
    (function,) = functions(module)
    traffic = WarpTraffic(block_size(function), CHIPS[chip])
    pairs = [(op, traffic.of(a)) for op in walk(function) for a in accesses(op)]
    return [(str(op.name), Place.of(op), one) for op, one in pairs if one is not None]


@pytest.fixture(autouse=True)
def context():
    with new_context():
        yield


ROWS = "%l = arith.remui %t, %c32 : index"
SWIZZLED = f"""{ROWS}
%half = arith.divui %l, %c2 : index
%key = arith.remui %half, %c4 : index
%column = arith.muli %key, %c8 : index"""
LDMATRIX = (
    f"%x = nvgpu.ldmatrix %tile[%l, {{}}] {{{{numTiles = {{}} : i32, transpose = false}}}} "
    f": memref<64x32xf16, {WG}> -> vector<{{}}x2xf16>"
)
LOAD = f"%x = memref.load %tile[{{}}] : memref<{{}}, {WG}>"


@pytest.mark.parametrize(
    ("body", "tile", "asked", "ideal", "ways"),
    [
        # 32 rows of 64 bytes: every second row begins at bank 0.
        (f"{ROWS}\n{LDMATRIX.format('%c0', 4, 4)}", "64x32xf16", 16, 4, 4),
        (f"{ROWS}\n{LDMATRIX.format('%c8', 2, 2)}", "64x32xf16", 8, 2, 4),
        (f"{SWIZZLED}\n{LDMATRIX.format('%column', 4, 4)}", "64x32xf16", 4, 4, 1),
        # A row of 128 bytes a lane: all lanes meet in one bank; of 132 none does.
        (LOAD.format("%t, %c0", "64x32xf32"), "64x32xf32", 32, 1, 32),
        (LOAD.format("%t, %c0", "64x33xf32"), "64x33xf32", 1, 1, 1),
        (LOAD.format("%c3, %c5", "64x32xf32"), "64x32xf32", 1, 1, 1),  # one word for all
        (LOAD.format("%c3, %l", "64x32xf16"), "64x32xf16", 1, 1, 1),  # two lanes a word
        # The slot is the same in all lanes, and so is a counter.
        (LOAD.format("%n, %l", "64x32xf32"), "64x32xf32", 1, 1, 1),
        # 8 bytes a lane are served in two halves, 16 bytes in four quarters.
        (LOAD.format("%l", "64xf64"), "64xf64", 2, 2, 1),
        (LOAD.format("%l, %c0", "64x2xf64"), "64x2xf64", 4, 4 // 2, 2),
        (LOAD.format("%l", "64xvector<4xf32>"), "64xvector<4xf32>", 4, 4, 1),
    ],
)
def test_wavefronts_of_a_warp(body: str, tile: str, asked: int, ideal: int, ways: int) -> None:
    lanes = "" if ROWS in body else ROWS + "\n"
    ((*_, one),) = found(kernel(lanes + body, tile=tile))
    assert one == Traffic("workgroup", asked, ideal, ways)


@pytest.mark.parametrize(
    ("arguments", "subscripts", "asked", "ideal", "aligned"),
    [
        ("%n: index, %a: memref<4096xf32>", "%t", 4, 4, False),
        ("%n: index, %a: memref<4096xf32> {llvm.align = 32}", "%t", 4, 4, True),
        ("%n: index, %a: memref<4096xf32> {llvm.align = 32}", "%n", 1, 1, False),
        # 32 bytes apart: a sector for each lane.
        ("%n: index, %a: memref<512x8xf32>", "%t, %n", 32, 4, False),
        # One further: a sector more at the end.
        ("%n: index, %a: memref<4096xf32> {llvm.align = 32}", "%next", 5, 4, True),
        # Rows of unknown length, one for each lane.
        ("%n: index, %a: memref<?x?xf32>", "%t, %n", 32, 4, False),
        ("%n: index, %a: memref<?x?xf32>", "%n, %t", 4, 4, False),
        ("%n: index, %a: memref<4096xf64>", "%t", 8, 8, False),
    ],
)
def test_sectors_of_a_warp(arguments, subscripts, asked, ideal, aligned) -> None:
    kind = arguments.partition("%a: ")[2].partition(" {")[0]
    body = f"%next = arith.addi %t, %c1 : index\n%x = memref.load %a[{subscripts}] : {kind}"
    ((*_, one),) = found(kernel(body, arguments))
    assert one == Traffic("global", asked, ideal, aligned=aligned)


def test_threads_that_step_through_rows_begin_at_their_own_place() -> None:
    body = """%m = arith.constant 4096 : index
scf.for %i = %t to %m step %c32 {
  %x = memref.load %a[%i] : memref<4096xf32>
}"""
    ((*_, one),) = found(kernel(body, "%a: memref<4096xf32> {llvm.align = 32}"))
    assert one == Traffic("global", 4, 4)


def test_a_counter_in_a_swizzle_is_enumerated() -> None:
    body = f"""scf.for %i = %c0 to %c4 step %c1 {{
  %key = arith.remui %t, %c4 : index
  %chunk = arith.xori %i, %key : index
  %column = arith.muli %chunk, %c8 : index
  %x = memref.load %tile[%t, %column] : memref<64x32xf32, {WG}>
}}"""
    ((*_, one),) = found(kernel(body, tile="64x32xf32"))
    assert one == Traffic("workgroup", 8, 1, 8)


def test_only_lanes_that_run_it_count() -> None:
    body = f"""%few = arith.cmpi ult, %t, %c4 : index
scf.if %few {{
  %x = memref.load %tile[%t, %c0] : memref<64x32xf32, {WG}>
}} else {{
  %y = memref.load %tile[%t, %c0] : memref<64x32xf32, {WG}>
}}"""
    few, others = found(kernel(body, tile="64x32xf32"))
    assert few[2] == Traffic("workgroup", 4, 1, 4)
    # The second warp has all of its lanes there.
    assert others[2] == Traffic("workgroup", 32, 1, 32)


def test_lanes_beyond_a_bound_take_part() -> None:
    body = """%in = arith.cmpi slt, %t, %n : index
scf.if %in {
  %x = memref.load %a[%t] : memref<4096xf32>
}"""
    ((*_, one),) = found(kernel(body, "%n: index, %a: memref<4096xf32>"))
    assert one == Traffic("global", 4, 4, aligned=False)


@pytest.mark.parametrize(
    ("of_row", "asked"),
    [
        ("%t", 32),  # a row a lane
        ("%group", 4),  # 16 lanes a row: 64 bytes of each of two
        ("%n", 4),  # all in one
    ],
)
def test_rows_of_flat_memory_are_apart_by_a_product(of_row: str, asked: int) -> None:
    body = f"""%group = arith.divui %t, %c16 : index
%base = arith.addi {of_row}, %n : index
%row = arith.muli %base, %k : index
%at = arith.addi %row, %{"t" if of_row != "%t" else "c0"} : index
%x = memref.load %a[%at] : memref<?xf32>"""
    ((*_, one),) = found(kernel(body, "%n: index, %k: index, %a: memref<?xf32>"))
    assert isinstance(one, Traffic)
    assert (one.asked, one.ideal, one.aligned) == (asked, 4, False)


@pytest.mark.parametrize(
    ("subscript", "asked"),
    [
        ("(t floordiv 4) * 8 + t mod 4 + n * 64", 8),  # 16 bytes in each of 8 sectors
        ("(t + n * 32) floordiv 2", 2),
        ("(t + n * 32) mod 16 + n", 2),
        ("t + n * k", 4),
    ],
)
def test_affine_maps_are_sums_of_their_parts(subscript: str, asked: int) -> None:
    body = f"""%at = affine.apply affine_map<(t, n)[k] -> ({subscript})>(%t, %n)[%k]
%x = memref.load %a[%at] : memref<?xf32>"""
    ((*_, one),) = found(kernel(body, "%n: index, %k: index, %a: memref<?xf32>"))
    assert isinstance(one, Traffic) and one.asked == asked


def test_sums_of_fewer_bits_that_do_not_wrap_are_sums() -> None:
    body = """%l = arith.index_cast %t : index to i32
%m = arith.index_cast %n : index to i32
%r = arith.addi %l, %m overflow<nsw> : i32
%q = arith.index_cast %r : i32 to index
%x = memref.load %a[%q] : memref<4096xf32>"""
    ((*_, one),) = found(kernel(body, "%n: index, %a: memref<4096xf32>"))
    assert isinstance(one, Traffic) and one.asked == 4


STRIDES_THAT_ARE_PRODUCTS = {
    "of two arguments": """%r = arith.muli %t, %n : index
%q = arith.muli %r, %o : index
%x = memref.load %a[%q] : memref<4096xf32>""",
    "of an argument and a stride": """%r = arith.muli %t, %n : index
%x = memref.load %d[%r, %c0] : memref<?x?xf32>""",
    "an argument's square": """%v = arith.muli %t, %n : index
%r = arith.muli %v, %v : index
%x = memref.load %a[%r] : memref<4096xf32>""",
}
ARGUMENTS = (
    "%n: index, %o: index, %a: memref<4096xf32>, %d: memref<?x?xf32>, %idx: memref<64xindex>"
)


@pytest.mark.parametrize("name", STRIDES_THAT_ARE_PRODUCTS)
def test_lanes_may_be_apart_by_a_product(name: str) -> None:
    ((*_, one),) = found(kernel(STRIDES_THAT_ARE_PRODUCTS[name], ARGUMENTS))
    assert isinstance(one, Traffic) and (one.asked, one.ideal, one.aligned) == (32, 4, False)


UNKNOWN_OF_LANES = {
    "a loaded subscript": (
        """%r = memref.load %idx[%t] : memref<64xindex>
%x = memref.load %a[%r] : memref<4096xf32>""",
        "is no sum of what thread ids decide",
    ),
    "two products": (
        """%r = arith.muli %t, %n : index
%q = arith.muli %t, %o : index
%s = arith.addi %r, %q : index
%x = memref.load %a[%s] : memref<4096xf32>""",
        "apart by two strides",
    ),
    "fewer bits, which may wrap": (
        """%l = arith.index_cast %t : index to i32
%m = arith.index_cast %n : index to i32
%r = arith.addi %l, %m : i32
%q = arith.index_cast %r : i32 to index
%x = memref.load %a[%q] : memref<4096xf32>""",
        "is no sum of what thread ids decide",
    ),
    "a quotient that does not part": (
        """%r = affine.apply affine_map<(t, n) -> ((t + n * 4) floordiv 8)>(%t, %n)
%x = memref.load %a[%r] : memref<4096xf32>""",
        "is no sum of what thread ids decide",
    ),
    "a swizzle by an argument": (
        f"""%r = arith.xori %t, %n : index
%x = memref.load %tile[%r, %c0] : memref<64x32xf16, {WG}>""",
        "is no sum of what thread ids decide",
    ),
    "one lane of a warp": (
        """%one = arith.cmpi eq, %t, %n : index
scf.if %one {
  %x = memref.load %a[%t] : memref<4096xf32>
}""",
        "which lanes run it is not decided",
    ),
    "a loaded condition": (
        """%flag = memref.load %idx[%t] : memref<64xindex>
%in = arith.cmpi eq, %flag, %c0 : index
scf.if %in {
  %x = memref.load %a[%t] : memref<4096xf32>
}""",
        "which lanes run it is not decided",
    ),
    "a loaded bound": (
        """%flag = memref.load %idx[%t] : memref<64xindex>
%in = arith.cmpi slt, %flag, %n : index
scf.if %in {
  %x = memref.load %a[%t] : memref<4096xf32>
}""",
        "which lanes run it is not decided",
    ),
    "nobody": (
        """%m = arith.constant 64 : index
%in = arith.cmpi uge, %t, %m : index
scf.if %in {
  %x = memref.load %a[%t] : memref<4096xf32>
}""",
        "no lane runs it",
    ),
}


@pytest.mark.parametrize("name", UNKNOWN_OF_LANES)
def test_what_is_not_decided_is_unknown(name: str) -> None:
    body, why = UNKNOWN_OF_LANES[name]
    one = found(kernel(body, ARGUMENTS))[-1][2]
    assert isinstance(one, Unknown)
    assert why in one.why


def test_without_a_block_size_or_the_chips_banks_nothing_is_known() -> None:
    text = kernel(LOAD.format("%t, %c0", "64x32xf32"), tile="64x32xf32")
    ((*_, one),) = found(text.replace("attributes {known_block_size = array<i32: 64, 1, 1>}", ""))
    assert one == Unknown("workgroup", "the size of the block is not known")
    ((*_, one),) = found(text, "gfx1100")
    assert one == Unknown("workgroup", "the banks of gfx1100 are not known here")


def test_rows_of_workgroup_memory_with_a_dynamic_stride_are_unknown() -> None:
    body = f"""%v = memref.reinterpret_cast %tile to offset: [0], sizes: [8, 8], strides: [%n, 1]
    : memref<64x32xf32, {WG}> to memref<8x8xf32, strided<[?, 1]>, {WG}>
%l = arith.remui %t, %c8 : index
%x = memref.load %v[%l, %c0] : memref<8x8xf32, strided<[?, 1]>, {WG}>
%y = memref.load %v[%n, %l] : memref<8x8xf32, strided<[?, 1]>, {WG}>"""
    (*_, apart), (*_, in_a_row) = found(kernel(body, tile="64x32xf32"))
    assert apart == Unknown("workgroup", "the stride between its rows is not static")
    assert in_a_row == Traffic("workgroup", 1, 1)


def test_a_vector_that_is_aligned_less_is_split() -> None:
    """8 bytes a lane, 8 bytes apart: as two pieces of 4 bytes each takes two wavefronts."""
    text = f"vector.load %tile[%c0, %at] {{}}: memref<64x128xf32, {WG}>, vector<2xf32>"
    body = "%l = arith.muli %t, %c2 : index\n%at = arith.addi %l, {} : index\n%x = " + text
    ((*_, whole),) = found(kernel(body.format("%c2", ""), tile="64x128xf32"))
    ((*_, split),) = found(kernel(body.format("%c1", ""), tile="64x128xf32"))
    ((*_, asserted),) = found(kernel(body.format("%n", "{alignment = 8 : i64}"), tile="64x128xf32"))
    assert (whole.asked, split.asked, asserted.asked) == (2, 4, 2)


# Random programs ---------------------------------------------------------------------------

# One access a line, and the bytes that it asks for in a lane.
FORMS: dict[str, tuple[str, int]] = {
    "load2": (f"memref.load %tile[{{r}}, {{c}}] : memref<64x64xf16, {WG}>", 2),
    "load8": (
        f"vector.load %tile[{{r}}, {{c}}] {{{{alignment = 8 : i64}}}} : memref<64x64xf16, {WG}>, vector<4xf16>",
        8,
    ),
    "load16": (
        f"vector.load %tile[{{r}}, {{c}}] {{{{alignment = 16 : i64}}}} : memref<64x64xf16, {WG}>, vector<8xf16>",
        16,
    ),
    "ldmatrix": (
        f"nvgpu.ldmatrix %tile[{{r}}, {{c}}] {{{{numTiles = 4 : i32, transpose = false}}}} : memref<64x64xf16, {WG}>"
        " -> vector<4x2xf16>",
        16,
    ),
    "copy": (
        f"nvgpu.device_async_copy %a[{{r}}, {{c}}], %tile[{{r}}, {{c}}], 8 : memref<?x?xf16> to memref<64x64xf16, {WG}>",
        16,
    ),
    "global": ("memref.load %a[{r}, {c}] : memref<?x?xf16>", 2),
    "flat": ("memref.load %f[{at}] : memref<?xf16>", 2),
}
ON_NVIDIA = ("ldmatrix", "copy")


@dataclass(frozen=True)
class Memory:
    """How a chip serves lanes: banks of 4 bytes, and which lanes together, by their bytes."""

    lanes: int
    banks: int
    sector: int
    phases: dict[int, list[list[int]]]


def runs(*starts: tuple[int, ...]) -> list[list[int]]:
    """Runs of four lanes, in both halves of a wave."""
    return [[half + s + n for s in phase for n in range(4)] for half in (0, 32) for phase in starts]


MEMORIES = {
    "sm_80": Memory(32, 32, 32, {2: neighbours(32), 8: neighbours(16), 16: neighbours(8)}),
    "gfx90a": Memory(
        64, 32, 64, {2: neighbours(32, 64), 8: neighbours(16, 64), 16: neighbours(8, 64)}
    ),
    "gfx942": Memory(
        64,
        32,
        64,
        {
            2: neighbours(32, 64),
            8: neighbours(16, 64),
            16: runs((0, 20), (4, 16), (8, 28), (12, 24)),
        },
    ),
    "gfx950": Memory(
        64,
        64,
        64,
        {2: neighbours(64, 64), 8: neighbours(32, 64), 16: runs((0, 12, 20, 24), (4, 8, 16, 28))},
    ),
}


class Writer:
    """Random subscripts, below a bound, made of ids, of an argument and of a counter."""

    def __init__(self, seed: int) -> None:
        self.random, self.lines, self.count = Random(seed), [], 0

    def op(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"%v{self.count} = {text}")
        return f"%v{self.count}"

    def of_lane(self, below: int, multiple: int) -> str:
        """What ids decide: multiples of `multiple` below `below`."""
        value = "%t"
        for _ in range(self.random.randint(1, 4)):
            name = self.random.choice(["divui", "remui", "muli", "addi", "xori", "shrui"])
            number = self.random.choice([1, 2, 3, 4, 5, 7, 8, 16])
            value = self.op(f"arith.{name} {value}, {self.constant(number)} : index")
            if self.random.random() < 0.3:
                value = self.op(f"arith.xori {value}, {self.lane_part()} : index")
        value = self.op(f"arith.remui {value}, {self.constant(below // multiple)} : index")
        return self.op(f"arith.muli {value}, {self.constant(multiple)} : index")

    def lane_part(self) -> str:
        part = self.op(f"arith.divui %t, {self.constant(self.random.choice([2, 4, 8]))} : index")
        return self.op(f"arith.remui {part}, {self.constant(8)} : index")

    def constant(self, number: int) -> str:
        return self.op(f"arith.constant {number} : index")

    def subscript(self, below: int, multiple: int, shared_multiple: int) -> str:
        """Half of the room is for what ids decide; the rest for what all lanes share."""
        value = self.of_lane(below // 2, multiple)
        shared = self.random.choice([None, "%n", "%i"])
        if shared is not None:
            step = self.op(f"arith.muli {shared}, {self.constant(shared_multiple)} : index")
            value = self.op(f"arith.addi {value}, {step} : index")
        return value


def random_kernel(seed: int, chip: str) -> tuple[str, list[str]]:
    """A kernel, and the form of each of its accesses in turn."""
    writer = Writer(seed)
    known = [name for name in FORMS if chip == "sm_80" or name not in ON_NVIDIA]
    forms = [writer.random.choice(known) for _ in range(4)]
    for name in forms:
        text, bytes_ = FORMS[name]
        # What is not known of a column is whole sectors.
        outside = name in ("copy", "global", "flat")
        shared = MEMORIES[chip].sector // 2 if outside else bytes_ // 2
        row, column = writer.subscript(64, 1, 1), writer.subscript(64, bytes_ // 2, shared)
        first = writer.op(f"arith.muli {row}, %k : index")
        at = writer.op(f"arith.addi {first}, {column} : index")
        guarded = name not in ON_NVIDIA and writer.random.random() < 0.3
        if guarded:
            bound = writer.constant(writer.random.choice([3, 20, 45]))
            met = writer.op(f"arith.cmpi ult, %t, {bound} : index")
            writer.lines.append(f"scf.if {met} {{")
        writer.op(text.format(r=row, c=column, at=at))
        writer.lines += ["}"] * guarded
    lines = "\n".join(writer.lines)
    body = f"scf.for %i = %c0 to %c2 step %c1 {{\n{lines}\n}}\n"
    waiting = "%g = nvgpu.device_async_create_group\nnvgpu.device_async_wait %g\n"
    arguments = "%n: index, %k: index, %a: memref<?x?xf16>, %f: memref<?xf16>"
    threads = 2 * MEMORIES[chip].lanes
    return kernel(body + waiting, arguments, "64x64xf16", threads), forms


CASES = [
    (chip, seed)
    for chip, count in zip(MEMORIES, (40, 6, 8, 8), strict=True)
    for seed in range(count)
]


@pytest.mark.parametrize(("chip", "seed"), CASES)
def test_banks_and_sectors_are_those_of_the_addresses_that_the_machine_sees(
    chip: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the worst warp of all executions, with rows of global memory that are whole sectors."""
    memory = MEMORIES[chip]
    text, forms = random_kernel(seed, chip)
    module = ir.Module.parse(text)
    array = np.ones((64, 64), np.float16)
    arguments = [seed % 2, 64, array, array.reshape(-1)]
    seen = watched(monkeypatch, module, arguments, memory.lanes)
    pending = list(forms)
    answers = found(text, chip)
    known = 0
    for _, place, one in answers:
        warps = seen[place, one.space]
        name = pending[0]
        _, bytes_ = FORMS[name]
        if one.space == "global":
            expected: Any = max(sectors(w, memory.sector) for w in warps)
        else:
            phases = memory.phases[bytes_]
            expected = max(wavefronts(w, bytes_, phases, memory.banks) for w in warps)
        if name != "copy" or one.space == "workgroup":
            pending.pop(0)
        known += 1
        if name == "load2" and isinstance(one, Unknown):
            assert one.why == "where in a word of 4 bytes it begins is not known"
            continue
        assert isinstance(one, Traffic)
        assert (one.asked if one.space == "global" else (one.asked, one.ways)) == expected
    assert not pending
    assert known == len(forms) + forms.count("copy")


@pytest.mark.parametrize("swizzled", [True, False])
def test_a_pipelined_gemm_asks_for_what_the_machine_sees(
    swizzled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = gemm_text("--tile-m=64", "--tile-n=64", "--tile-k=32", "--stages=3")
    module = ir.Module.parse(text)
    pipeline(module, target="nvvm:sm_80")
    if not swizzled:
        plain = re.sub(r"arith.xori (%\w+), %\w+", r"arith.ori \1, \1", str(module))
        module = ir.Module.parse(plain)
    # Its own places, not those of the loop that it was.
    text = str(module)
    module = ir.Module.parse(text)
    arguments, _ = operands((64, 64, 96), "f16")
    seen = watched(monkeypatch, module, arguments, threads=128, target="nvvm:sm_80")
    compared = 0
    for op, place, one in found(text):
        warps = seen.get((place, one.space))
        if warps is None:
            continue  # the loop for short trips
        assert isinstance(one, Traffic)
        if one.space == "global":
            assert one.asked == max(map(sectors, warps))
        else:
            # Of what is stored after the loop lanes write 8 bytes.
            size = len(next(iter(warps[0].values())))
            expected = max(wavefronts(w, size, neighbours(128 // size)) for w in warps)
            assert (one.asked, one.ways) == expected
            assert one.ways == (4 if op == "nvgpu.ldmatrix" and not swizzled else 1)
        compared += 1
    assert compared > 30
