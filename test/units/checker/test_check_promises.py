"""What the user of the checker promises of numbers and of blocks: options `assume-no-overflow` and `assume-independent`.

Covers: checker/as_read.py, checker/check_pass.py, checker/footprints.py, checker/thread_grid.py
"""

from __future__ import annotations

import pytest

from helpers.machine_programs import parse
from mlir_async_pipe import check


def kernel(place: str, *lines: str) -> str:
    """Blocks of 128 threads, each of which stores to `place` of %out."""
    body = "\n  ".join(lines)
    return f"""
llvm.func @f(%out: !llvm.ptr<1> {{llvm.noalias}}, %row: i32) attributes {{nvvm.kernel, nvvm.reqntid = array<i32: 128>}} {{
  %c4 = llvm.mlir.constant(4 : i32) : i32
  %c512 = llvm.mlir.constant(512 : i32) : i32
  %x = llvm.mlir.constant(1.0 : f32) : f32
  %tid = nvvm.read.ptx.sreg.tid.x range <i32, 0, 128> : i32
  %block = nvvm.read.ptx.sreg.ctaid.x : i32
  {body}
  %to = llvm.getelementptr %out[{place}] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
  llvm.store %x, %to : f32, !llvm.ptr<1>
  llvm.return
}}"""


# As Triton numbers elements: bits of the thread's number, moved and joined.
DENSE = kernel(
    "%at",
    "%first = llvm.mul %block, %c512 : i32",
    "%four = llvm.mul %tid, %c4 : i32",
    "%bits = llvm.or %four, %c4 : i32",
    "%at = llvm.add %first, %four : i32",
)
STRIDED = kernel("%at", "%first = llvm.mul %block, %row : i32", "%at = llvm.add %first, %tid : i32")
ALIKE = kernel("%at", "%first = llvm.mul %block, %c4 : i32", "%at = llvm.add %first, %tid : i32")


def verdict(text: str, **promises: bool) -> str:
    (found,) = check(parse(text), **promises).of("checks")
    return "unsafe" if found.unsafe else "unknown" if found.unknown else "proven"


@pytest.mark.parametrize(
    "text, promises, expected",
    [
        (DENSE, {}, "unknown"),
        (DENSE, {"assume_no_overflow": True}, "proven"),
        (DENSE, {"assume_independent": True}, "proven"),
        (STRIDED, {}, "unknown"),
        (STRIDED, {"assume_no_overflow": True}, "unknown"),
        (STRIDED, {"assume_no_overflow": True, "assume_independent": True}, "proven"),
        # A promise hides no certain race.
        (ALIKE, {"assume_no_overflow": True, "assume_independent": True}, "unsafe"),
    ],
)
def test_promises(text: str, promises: dict[str, bool], expected: str) -> None:
    assert verdict(text, **promises) == expected


def test_workgroup_memory_is_not_promised() -> None:
    """Threads that store to places of a stride that is an argument may meet: nobody said that they do not."""
    text = STRIDED.replace("%block, %row", "%tid, %row").replace(
        "%to = llvm.getelementptr %out", "%to = llvm.getelementptr %tile"
    )
    text = text.replace(
        "llvm.func",
        "llvm.mlir.global external @tile() {addr_space = 3 : i32} : !llvm.array<4096 x f32>\nllvm.func",
        1,
    )
    text = text.replace("  %c4 =", "  %tile = llvm.mlir.addressof @tile : !llvm.ptr<3>\n  %c4 =")
    text = text.replace(
        "%to = llvm.getelementptr %tile[%at] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>",
        "%to = llvm.getelementptr %tile[%at] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>",
    )
    text = text.replace("f32, !llvm.ptr<1>", "f32, !llvm.ptr<3>")
    assert verdict(text, assume_no_overflow=True, assume_independent=True) == "unknown"


def test_the_module_stays_as_it_is() -> None:
    module = parse(STRIDED)
    before = str(module)
    check(module, assume_no_overflow=True, assume_independent=True)
    assert str(module) == before


@pytest.mark.parametrize("factor", [1, 2, 3, 4, 5, 6, 8, 16])
def test_ends_of_bits_are_exact(factor: int) -> None:
    """4 tid or 1 is at most 509, so rows of 512 do not meet; of twice as much they do, of five times as much in no whole number
    of threads."""
    rows = [{512 * block + factor * (4 * tid | 1) for tid in range(128)} for block in range(20)]
    apart = len(set().union(*rows)) == 128 * len(rows)
    assert apart == (factor in (1, 3, 5))
    text = kernel(
        "%at",
        "%c1 = llvm.mlir.constant(1 : i32) : i32",
        f"%more = llvm.mlir.constant({factor} : i32) : i32",
        "%first = llvm.mul %block, %c512 : i32",
        "%four = llvm.mul %tid, %c4 : i32",
        "%bits = llvm.or %four, %c1 : i32",
        "%moved = llvm.mul %bits, %more : i32",
        "%at = llvm.add %first, %moved : i32",
    )
    assert (verdict(text, assume_no_overflow=True) == "proven") == apart


ROWS = """
llvm.func @f(%out: !llvm.ptr<1>, %n: i64) attributes {{nvvm.kernel, nvvm.reqntid = array<i32: 128>}} {{
  %c0 = llvm.mlir.constant(0 : i64) : i64
  %c1 = llvm.mlir.constant(1 : i64) : i64
  %tid = nvvm.read.ptx.sreg.tid.x range <i32, 0, 128> : i32
  %t = llvm.zext %tid : i32 to i64
  %half = llvm.lshr %t, %c1 : i64
  %is = llvm.icmp "eq" %n, %c0 : i64
  llvm.cond_br {where}, ^there, ^done
^there:
  %row = llvm.mul {row} : i64
  %to = llvm.getelementptr %out[%row] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i32
  llvm.store %tid, %to : i32, !llvm.ptr<1>
  llvm.br ^done
^done:
  llvm.return
}}"""


@pytest.mark.parametrize(
    ("row", "where", "wanted"),
    [
        ("%t, %n", "%not", "proven"),
        # The stride is 0 there; two threads have one row, whatever the stride.
        ("%t, %n", "%is", "unsafe"),
        ("%half, %c1", "%not", "unsafe"),
        ("%half, %n", "%not", "unsafe"),
    ],
)
def test_what_is_certain_of_threads_is_found_whatever_is_promised(
    row: str, where: str, wanted: str
) -> None:
    text = ROWS.format(row=row, where=where).replace(
        "  llvm.cond_br", '  %not = llvm.icmp "ne" %n, %c0 : i64\n  llvm.cond_br'
    )
    assert verdict(text, assume_no_overflow=True, assume_independent=True) == wanted


@pytest.mark.parametrize("number", ["gpu.thread_id x", "gpu.block_id x"])
@pytest.mark.parametrize(
    ("place", "wanted"),
    [
        # Two threads, or blocks, are in each row.
        ("%row", ("unsafe", "unsafe")),
        ("%row + %odd", ("unknown", "proven")),
        ("%row + %pair", ("unsafe", "unsafe")),
        # What each has loaded decides, too.
        ("%row + %seen", ("unknown", "proven")),
    ],
)
def test_what_is_in_one_row_meets_whatever_the_stride(
    place: str, wanted: tuple[str, str], number: str
) -> None:
    row, _, more = place.partition(" + ")
    threads, blocks = (32, 1) if "thread" in number else (1, 32)
    text = f"""
    gpu.module @m {{
      gpu.func @k(%out: memref<?xi32>, %n: index, %from: memref<32xindex>) kernel attributes {{
          known_block_size = array<i32: {threads}, 1, 1>, known_grid_size = array<i32: {blocks}, 1, 1>}} {{
        %c2 = arith.constant 2 : index
        %tid = {number}
        %pair = arith.divui %tid, %c2 : index
        %odd = arith.remui %tid, %c2 : index
        %seen = memref.load %from[%tid] : memref<32xindex>
        %row = arith.muli %pair, %n : index
        %at = arith.addi {row}, {more or "%n"} : index
        %v = arith.index_cast %tid : index to i32
        memref.store %v, %out[%at] : memref<?xi32>
        gpu.return
      }}
    }}"""
    assert (verdict(text), verdict(text, assume_independent=True)) == wanted


KERNEL_OF_ROWS = """
gpu.module @m {{
  gpu.func @k(%out: memref<?xi32>, %n: index) kernel attributes {{
      known_block_size = array<i32: {threads}, 1, 1>, known_grid_size = array<i32: {blocks}, 1, 1>}} {{
    %c2 = arith.constant 2 : index
    %tid = {number}
    %pair = arith.divui %tid, %c2 : index
    %odd = arith.remui %tid, %c2 : index
    %column = arith.muli %odd, %c2 : index
    %next = arith.addi %column, %c2 : index
    %far = arith.addi %next, %c2 : index
    %v = arith.index_cast %tid : index to i32
    {stores}
    gpu.return
  }}
}}"""


def rows_text(number: str, *places: tuple[int, str]) -> str:
    """Stores at (pair + 16 i) * n + column, for each i and column."""
    stores = "".join(
        f"""
    %c{k} = arith.constant {16 * i} : index
    %line{k} = arith.addi %pair, %c{k} : index
    %row{k} = arith.muli %line{k}, %n : index
    %at{k} = arith.addi %row{k}, {column} : index
    memref.store %v, %out[%at{k}] : memref<?xi32>"""
        for k, (i, column) in enumerate(places, 10)
    )
    threads, blocks = (32, 1) if "thread" in number else (1, 32)
    return KERNEL_OF_ROWS.format(threads=threads, blocks=blocks, number=number, stores=stores)


@pytest.mark.parametrize("number", ["gpu.thread_id x", "gpu.block_id x"])
@pytest.mark.parametrize(
    ("last", "wanted"),
    [((3, "%next"), "unsafe"), ((3, "%far"), "unknown"), ((4, "%next"), "unknown")],
)
def test_a_race_in_one_row_is_found_beside_rows_that_nobody_can_compare(
    last: tuple[int, str], wanted: str, number: str
) -> None:
    """Rows of a stride that is an argument: of two of them it is not known whether they meet."""
    text = rows_text(number, *((i, "%column") for i in range(4)), last)
    assert verdict(text) == wanted


def test_a_place_of_a_row_need_not_be_one_of_no_row() -> None:
    """(pair + 16) * n + column is another place than 2 - column wherever n is not 0."""
    text = rows_text("gpu.thread_id x", (1, "%column"))
    load = """%other = arith.subi %c2, %column : index
    %u = memref.load %out[%other] : memref<?xi32>
    gpu.return"""
    assert verdict(text.replace("gpu.return", load)) == "unknown"
