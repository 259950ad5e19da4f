"""Warps of their own for copies and products of tensor memory: each part of what is written is needed,
sums get as many versions as are told apart, and what cannot be parted stays as it was.

Covers: pipeliner/plan/product_role.py, pipeliner/expand/write/write_roles.py,
pipeliner/plan/role_block.py, facts/values/memory_roots.py
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from helpers.machine_programs import parse
from helpers.tensor_memory_kernels import BlackwellGemm, run_gemm
from mlir_async_pipe import check, pipeline
from mlir_async_pipe.session.diagnostics import AsyncPipeError

ONE = BlackwellGemm(tile_n=32, stages=2, roles="specialised")
MANY = replace(ONE, persistent=True)
MOODS = [("eager", "forward"), ("late", "backward"), ("random", "random")]


def pipelined(gemm: BlackwellGemm) -> str:
    module = parse(gemm.module())
    pipeline(module, check="none", target="nvvm:sm_100a")
    return str(module)


def wrong(text: str, gemm: BlackwellGemm, lines: int = 5) -> list[object]:
    """What the machine finds in some mood: a wrong product, or races."""
    tiles, grid = ((1, 4), 1) if gemm.persistent else ((1, 1), None)
    found: list[object] = []
    for completion, schedule in MOODS:
        right, result = run_gemm(
            parse(text),
            gemm,
            lines * gemm.line,
            tiles=tiles,
            grid=grid,
            completion=completion,
            schedule=schedule,
        )
        found += [*({race.code for race in result.races}), *([] if right else ["values"])]
    return found


@pytest.mark.parametrize("lines", [0, 1, 2, 5])
@pytest.mark.parametrize("gemm", [ONE, MANY, replace(MANY, tile_m=256, stages=3)], ids=repr)
def test_the_product_is_numpy_s_for_any_number_of_tiles(gemm, lines):
    text = pipelined(gemm)
    assert "known_block_size = array<i32: 192, 1, 1>" in text
    assert wrong(text, gemm, lines) == []


@pytest.mark.parametrize("gemm", [ONE, MANY], ids=repr)
def test_the_checker_proves_it(gemm):
    report = check(parse(pipelined(gemm)))
    (found,) = report.of("checks")
    assert (found.unsafe, found.unknown) == (0, 0)


# -- versions of the sums --------------------------------------------------------------------------


def versions(text: str) -> int:
    """Columns that are taken, in units of those of one accumulator."""
    (columns,) = re.findall(r"tcgen05\.alloc %\w+, %c(\d+)_i32", text)
    return int(columns)


@pytest.mark.parametrize(
    ("gemm", "columns"),
    [
        (ONE, 32),
        (MANY, 64),
        (replace(MANY, tile_n=256), 512),
        # Two of 512 columns have no room.
        (replace(MANY, tile_m=256, tile_n=256), 512),
    ],
    ids=repr,
)
def test_two_versions_where_a_loop_is_around_and_there_is_room(gemm, columns):
    assert versions(pipelined(gemm)) == columns


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Sums that go on from those of the tile before.
        ("arith.cmpi ne, %k32, ", "arith.cmpi sge, %k32, "),
        # Of tiles with no products those of another tile would be loaded.
        (
            "%total = scf.for %k32 = %i32 to %K",
            "%t32 = arith.index_cast %tile : index to i32\n%depth = arith.minsi %K, %t32 : i32\n"
            "%total = scf.for %k32 = %i32 to %depth",
        ),
        # Columns that are not counted from those that are taken.
        (
            "%sums = llvm.inttoptr %sums_at",
            "%apart = arith.xori %sums_at, %columns : i32\n%same = arith.xori %apart, %columns : i32\n"
            "%sums = llvm.inttoptr %same",
        ),
    ],
    ids=["goes on", "no products", "other columns"],
)
def test_one_version_where_they_may_not_be_distinguished(old, new):
    text = MANY.module()
    assert old in text
    module = parse(text.replace(old, new))
    pipeline(module, check="none", target="nvvm:sm_100a")
    assert versions(str(module)) == 32


# -- each part is needed ---------------------------------------------------------------------------


def without(pattern: str, which: int = 0) -> Callable[[str], str]:
    """The text without one of the places that match."""

    def change(text: str) -> str:
        found = list(re.finditer(rf"\n[^\n]*{pattern}[^\n]*", text))[which]
        return text[: found.start()] + text[found.end() :]

    return change


# In textual order: the wait of the loads, the copies' for empty, the products' for sums and tiles.
LOADED, COPIED, ADDED, MULTIPLIED = range(4)
MUTANTS: dict[str, Callable[[str], str]] = {
    "no wait for the sums": without(r"try_wait\.parity", LOADED),
    "no wait for a free slot": without(r"try_wait\.parity", COPIED),
    "no wait for free columns": without(r"try_wait\.parity", ADDED),
    "no wait for the tile": without(r"try_wait\.parity", MULTIPLIED),
    "no commit for the slot": without(r"tcgen05\.commit", 0),
    "no commit for the sums": without(r"tcgen05\.commit", 1),
    "no arrival after the loads": without(r"mbarrier\.arrive %"),
    "no wait for the loads": without(r"tcgen05\.wait"),
    "no announced bytes": without(r"arrive\.expect_tx"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_part_that_is_left_out_is_named_and_fails(name):
    text = MUTANTS[name](pipelined(MANY))
    assert wrong(text, MANY)
    # One block, three tiles of three k, so that a deadlock is told at once.
    known = re.sub(r"%block_id_x to %\w+ step %grid_dim_x", "%c0 to %c3_ step %c1", text)
    known = known.replace("to %arg3 step", "to %c192_i32_ step").replace(
        "%c0 = arith",
        "%c3_ = arith.constant 3 : index\n%c192_i32_ = arith.constant 192 : i32\n%c0 = arith",
        1,
    )
    (found,) = check(parse(known)).of("checks")
    assert found.unsafe


# -- refused ---------------------------------------------------------------------------------------

LOADED_EARLY = """%early = nvvm.tcgen05.ld %sums {shape = #nvvm.tcgen05_ldst_shape<shape_32x32b>} : vector<2xi32>
nvvm.tcgen05.wait <load>
"""
OTHER_B = "%b_pointer = memref.extract_aligned_pointer_as_index %line : memref<4xi32, WG>"
REFUSALS = {
    "one branch of thread 0": ("roles-unsupported", "scf.if %first {", "scf.if %warp_0 {"),
    "stands beside the products": (
        "roles-unsupported",
        "%done_at =",
        "memref.store %i32_6, %place[%c0] : memref<1xi32, WG>\n%done_at =",
    ),
    "neither a copy nor a product": (
        "roles-unsupported",
        "%flip =",
        "memref.store %i32_6, %place[%c0] : memref<1xi32, WG>\n%flip =",
    ),
    "uses a result of the loop": (
        "roles-values",
        "%own =",
        "%number = arith.extui %total : i1 to i32\n%own =",
    ),
    "does not come after the loop": ("roles-unsupported", "%total = ", f"{LOADED_EARLY}%total = "),
    "touches tensor memory, too": (
        "roles-unsupported",
        "%total = ",
        "nvvm.tcgen05.shift %sums : !llvm.ptr<6>\n%total = ",
    ),
    "threads that are added would run it too": (
        "roles-unsupported",
        "%warp_0 = arith.cmpi ult, %tid, %c32",
        "%warp_0 = arith.cmpi ult, %tid, %c20480",
    ),
    "writes what products may read": (
        "roles-unsupported",
        "%total = ",
        "%line = memref.alloc() : memref<4xi32, WG>\n"
        "memref.store %i32, %line[%c0] : memref<4xi32, WG>\n%total = ",
    ),
    "give slots back to one block, and one group": (
        "roles-unsupported",
        '"specialised"',
        '"ping-pong"',
    ),
    "a block of 1024 x 1 x 1 cannot get 64": ("roles-block", "i32: 128, 1, 1", "i32: 1024, 1, 1"),
}


@pytest.mark.parametrize("words", REFUSALS)
def test_what_is_refused_stays_as_it_was(words):
    code, old, new = REFUSALS[words]
    # Of more threads than rows some would store to the rows of others, which a round before had stored to, too.
    text = (ONE if words.startswith("a block") else MANY).module()
    assert old in text
    text = text.replace(old, new)
    if words.startswith("writes"):
        text = text.replace(re.findall(r"%b_pointer = .*?(?= -> index)", text)[0], OTHER_B)
    module = parse(text)
    kept = str(module)
    with pytest.raises(AsyncPipeError) as refused:
        pipeline(module, check="none", target="nvvm:sm_100a")
    assert refused.value.code == code
    assert words in refused.value.diagnostic.message
    assert refused.value.diagnostic.place.line
    assert str(module) == kept


def test_copies_for_other_blocks_of_a_cluster_are_refused_beside_products():
    text = MANY.module()
    changes = (
        ("128, 1, 1>}", "128, 1, 1>, known_cluster_size = array<i32: 2, 1, 1>}"),
        ("%warp_0 = ", "%mask = arith.constant 3 : i16\n%warp_0 = "),
        # Both blocks copy into both.
        ("_shared, predicate", "_shared multicast_mask = %mask, predicate"),
        ("20480", "40960"),
    )
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    module = parse(text)
    kept = str(module)
    with pytest.raises(AsyncPipeError, match="give slots back to one block") as refused:
        pipeline(module, check="none", target="nvvm:sm_100a")
    assert refused.value.code == "roles-unsupported"
    assert str(module) == kept


# -- growth ----------------------------------------------------------------------------------------

KERNEL = (Path(__file__).parents[3] / "lit-tests/expand/tensor-roles.mlir").read_text()


def grown(line: str, copies: Callable[[int, str], str], size: int) -> str:
    """The kernel with copies of a line."""
    (found,) = re.findall(rf"\n *{line}[^\n]*", KERNEL)
    return KERNEL.replace(found, found + "".join(copies(n, found) for n in range(size)))


def another_address(number: int, product: str) -> str:
    """A product into sums whose address is counted from that of the one before."""
    before = f"%at{number - 1}" if number else "%sums_at"
    return (
        f"\n%at{number} = arith.addi %columns, {before} : i32"
        f"\n%to{number} = llvm.inttoptr %at{number} : i32 to !llvm.ptr<6>"
        + product.replace("%sums", f"%to{number}")
    )


SHAPES: dict[str, Callable[[int], str]] = {
    "products": lambda n: grown(r"nvvm\.tcgen05\.mma", lambda _, line: line, n),
    "addresses": lambda n: grown(r"nvvm\.tcgen05\.mma", another_address, n),
    "loads": lambda n: grown(
        r"%one = nvvm", lambda number, line: line.replace("%one", f"%v{number}"), n
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_twice_the_statements_take_twice_the_calls(shape):
    """As in test/laws/test_growth.py: what does not depend on the size is taken off."""

    def calls(size: int) -> int:
        module = parse(SHAPES[shape](size))
        counted = 0

        def count(frame: object, event: str, argument: object) -> None:
            nonlocal counted
            counted += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            pipeline(module, check="none", target="nvvm:sm_100a")
        finally:
            sys.setprofile(None)
        return counted

    calls(1)
    one, two, four = (calls(20 * times) for times in (1, 2, 4))
    assert (four - two) / (two - one) <= 2.15, (one, two, four)
