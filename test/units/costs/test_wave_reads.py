"""What a wave of blocks reads together: by the polynomials of its addresses, and byte by byte.

Covers: facts/costs/wave_reads.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

import pytest

from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import functions, walk
from mlir_async_pipe.chips.table import CHIPS
from mlir_async_pipe.facts.costs.warp_traffic import NotKnownError
from mlir_async_pipe.facts.costs.wave_reads import Wave, WaveReads
from mlir_async_pipe.facts.values.memory_roots import root_of
from mlir_async_pipe.vocabulary import accesses
from mlir_async_pipe.vocabulary.launch_ids import Size

THREADS = 32
# Numbers of the launch that make no two rows one, and the iteration that all blocks are in.
N, K, ITERATION = 100_003, 1_009, 8

Block = tuple[int, int, int]
# Of a block and a thread: the memory, the byte, and the bytes of each read.
Places = Callable[[Block, int], Iterator[tuple[str, int, int]]]

PRELUDE = """
    %t = gpu.thread_id x
    %bx = gpu.block_id x
    %by = gpu.block_id y
    %bz = gpu.block_id z
    %r = arith.divui %t, %c4 : index
    %l = arith.remui %t, %c4 : index
    %by8 = arith.muli %by, %c8 : index
    %bx8 = arith.muli %bx, %c8 : index
    %m = arith.addi %by8, %r : index
    %n = arith.addi %bx8, %r : index
    %bx30 = arith.muli %bx, %c30 : index
    %x = arith.addi %bx30, %t : index
    %bx32 = arith.muli %bx, %c32 : index
    %column = arith.addi %bx32, %t : index"""


def kernel(arguments: str, body: str, before: str = "", after: str = "") -> str:
    constants = "\n".join(
        f"    %c{n} = arith.constant {n} : index" for n in (0, 1, 2, 3, 4, 5, 8, 16, 30, 32)
    )
    return f"""gpu.module @m {{
  gpu.func @k({arguments}, %size: index) kernel attributes {{known_block_size = array<i32: {THREADS}, 1, 1>}} {{
{constants}{PRELUDE}
    {before}
    scf.for %k = %c0 to %size step %c4 {{
      %kl = arith.addi %k, %l : index
      {body}
    }} {{read}}
    {after}
    gpu.return
  }}
}}"""


MATRICES = "%A: memref<?x?xf32>, %B: memref<?x?xf32>"
TILES = """%a = memref.load %A[%m, %kl] : memref<?x?xf32>
      %b = memref.load %B[%n, %kl] : memref<?x?xf32>"""


def gemm(block: Block, t: int) -> Iterator[tuple[str, int, int]]:
    x, y, _ = block
    column = ITERATION + t % 4
    yield "A", 4 * ((8 * y + t // 4) * K + column), 4
    yield "B", 4 * ((8 * x + t // 4) * K + column), 4


def batched(block: Block, t: int) -> Iterator[tuple[str, int, int]]:
    for memory, byte, size in gemm(block, t):
        yield memory, byte + 4 * block[2] * N * K, size


def convolution(block: Block, t: int) -> Iterator[tuple[str, int, int]]:
    for tap in range(3):
        yield "A", 4 * ((ITERATION * N + block[1]) * K + 30 * block[0] + t + tap), 4
    yield "B", 4 * ITERATION * K, 4


def sums(block: Block, t: int) -> Iterator[tuple[str, int, int]]:
    yield "A", 4 * (ITERATION * K + 32 * block[0] + t), 4


def windows(block: Block, t: int) -> Iterator[tuple[str, int, int]]:
    yield "A", 4 * (ITERATION * K + 30 * block[0] + t), 16


def rows(block: Block, t: int) -> Iterator[tuple[str, int, int]]:
    for inner in range(3):
        yield "A", 4 * ((8 * block[1] + t // 4 + 8 * inner) * K + ITERATION + t % 4), 4


def in_turn(block: Block, t: int) -> Iterator[tuple[str, int, int]]:
    yield "A", 4 * (ITERATION * K + 8 * (block[0] + 32) + t // 4), 4


def guarded(block: Block, t: int) -> Iterator[tuple[str, int, int]]:
    if t < 16 and block[0] != 1:
        yield from sums(block, t)


KERNELS: dict[str, tuple[Size, str, Places]] = {
    "gemm": ((5, 4, 1), kernel(MATRICES, TILES), gemm),
    "gemm of flat arrays": (
        (5, 4, 1),
        kernel(
            "%A: memref<?xf32>, %B: memref<?xf32>",
            """%am = arith.muli %m, %size : index
      %ak = arith.addi %am, %kl : index
      %a = memref.load %A[%ak] : memref<?xf32>
      %bk = arith.addi %bn, %kl : index
      %b = memref.load %B[%bk] : memref<?xf32>""",
            "%bn = arith.muli %size, %n : index",
        ),
        gemm,
    ),
    "batched gemm": (
        (3, 2, 4),
        kernel(
            MATRICES.replace("?x?x", "?x?x?x"),
            TILES.replace("[", "[%bz, ").replace("?x?x", "?x?x?x"),
        ),
        batched,
    ),
    "convolution": (
        (4, 3, 1),
        kernel(
            "%A: memref<?x?x?xf32>, %B: memref<?x?xf32>",
            "\n".join(
                f"""%x{tap} = arith.addi %x, %c{tap} : index
      %a{tap} = memref.load %A[%k, %by, %x{tap}] : memref<?x?x?xf32>"""
                for tap in range(3)
            )
            + "\n%b = memref.load %B[%k, %c0] : memref<?x?xf32>",
        ),
        convolution,
    ),
    "column sums": (
        (9, 1, 1),
        kernel("%A: memref<?x?xf32>", "%a = memref.load %A[%k, %column] : memref<?x?xf32>"),
        sums,
    ),
    "windows": (
        (9, 1, 1),
        kernel(
            "%A: memref<?x?xf32>", "%a = vector.load %A[%k, %x] : memref<?x?xf32>, vector<4xf32>"
        ),
        windows,
    ),
    "rows of an inner loop": (
        (3, 5, 1),
        kernel(
            "%A: memref<?x?xf32>",
            """scf.for %j = %c0 to %c3 step %c1 {
        %j8 = arith.muli %j, %c8 : index
        %row = arith.addi %m, %j8 : index
        %a = memref.load %A[%row, %kl] : memref<?x?xf32>
      }""",
        ),
        rows,
    ),
    "tile after tile": (
        (9, 1, 1),
        kernel(
            "%A: memref<?x?xf32>",
            "%a = memref.load %A[%k, %own] : memref<?x?xf32>",
            """scf.for %tile = %bx to %size step %c16 {
    %tile8 = arith.muli %tile, %c8 : index
    %own = arith.addi %tile8, %r : index""",
            "}",
        ),
        in_turn,
    ),
    "some threads of some blocks": (
        (9, 1, 1),
        kernel(
            "%A: memref<?x?xf32>",
            """scf.if %both {
        %a = memref.load %A[%k, %column] : memref<?x?xf32>
      }""",
            """%few = arith.cmpi ult, %t, %c16 : index
    %far = arith.cmpi ne, %bx, %c1 : index
    %both = arith.andi %few, %far : i1""",
        ),
        guarded,
    ),
}


def counted(text: str, grid: Size, wave: Wave) -> dict[str, tuple[int, int]]:
    """Bytes that each memory is asked for, and those that are different."""
    with new_context():
        module = ir.Module.parse(text)
        (function,) = functions(module)
        loop = next(op for op in walk(function) if "read" in op.attributes)
        reads = [a for op in walk(loop) for a in accesses(op) if a.kind == "read"]
        reads = [a for a in reads if root_of(a.memory).space == "global"]
        counter = WaveReads((THREADS, 1, 1), CHIPS["sm_80"], grid, loop)
        found = counter.of_wave(reads, wave)
        names = dict(zip(("argument %arg0", "argument %arg1"), "AB", strict=True))
        return {names[one.memory]: (one.asked, one.different) for one in found}


def enumerated(places: Places, blocks: list[Block]) -> dict[str, tuple[int, int]]:
    asked: dict[str, int] = {}
    different: dict[str, set[int]] = {}
    for block in blocks:
        for t in range(THREADS):
            for memory, byte, size in places(block, t):
                asked[memory] = asked.get(memory, 0) + size
                different.setdefault(memory, set()).update(range(byte, byte + size))
    return {memory: (asked[memory], len(different[memory])) for memory in asked}


def in_order(grid: Size) -> list[Block]:
    x, y, z = grid
    return [(i, j, k) for k in range(z) for j in range(y) for i in range(x)]


def in_groups(grid: Size, group: int) -> list[Block]:
    """As Triton's tutorial numbers the tiles of a product (`GROUP_M`)."""
    x, y, z = grid
    found = []
    for number in range(prod(grid)):
        plane, k = number % (x * y), number // (x * y)
        first = plane // (group * x) * group
        height = min(y - first, group)
        inside = plane % (group * x)
        found.append((inside // height, first + inside % height, k))
    assert len(set(found)) == x * y * z
    return found


@pytest.mark.parametrize("blocks", [2, 7, 100])
@pytest.mark.parametrize("name", KERNELS)
def test_a_wave_reads_what_its_blocks_read_byte_by_byte(name: str, blocks: int) -> None:
    grid, text, places = KERNELS[name]
    expected = enumerated(places, in_order(grid)[:blocks])
    assert counted(text, grid, Wave.first(grid, blocks)) == expected


@pytest.mark.parametrize("group", [1, 2, 3, 8])
@pytest.mark.parametrize("name", ["gemm", "batched gemm"])
def test_groups_along_y_are_those_of_triton(name: str, group: int) -> None:
    grid, text, places = KERNELS[name]
    for blocks in (5, 11):
        expected = enumerated(places, in_groups(grid, group)[:blocks])
        assert counted(text, grid, Wave.grouped(grid, blocks, group)) == expected


UNKNOWN = {
    "no sum": (
        kernel(
            "%A: memref<?xf32>, %rows: memref<?xindex>",
            "%a = memref.load %A[%row] : memref<?xf32>",
            "%row = memref.load %rows[%bx] : memref<?xindex>",
        ),
        "a subscript is no sum of what ids decide and what is the same in the whole grid",
    ),
    "a quotient by a size": (
        kernel(
            "%A: memref<?xf32>",
            "%a = memref.load %A[%row] : memref<?xf32>",
            "%row = arith.divui %bx, %size : index",
        ),
        "a subscript is no sum of what ids decide and what is the same in the whole grid",
    ),
    "two memories": (
        kernel(
            "%A: memref<?xf32>, %B: memref<?xf32>",
            "%a = memref.load %M[%t] : memref<?xf32>",
            """%even = arith.cmpi eq, %bx, %c0 : index
    %M = arith.select %even, %A, %B : memref<?xf32>""",
        ),
        "which memory it is may differ from block to block",
    ),
    "what a path carries": (
        kernel(
            "%A: memref<?xf32>",
            """%at = scf.for %j = %c0 to %size step %c1 iter_args(%i = %t) -> (index) {
        %a = memref.load %A[%i] : memref<?xf32>
        %next = arith.addi %i, %bx : index
        scf.yield %next : index
      }""",
        ),
        "how often a loop in the loop runs is not known",
    ),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_known_is_said(name: str) -> None:
    text, why = UNKNOWN[name]
    with pytest.raises(NotKnownError, match=why):
        counted(text, (4, 1, 1), Wave.first((4, 1, 1), 4))
