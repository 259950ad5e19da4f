"""Copies of tiles, small and large, by memref.copy and linalg.copy, in loops with `num_stages`.

Each thread copies rows of its own and reads those of another one; pipelined with three stages it gives
what it gives as written, whenever copies arrive.

Covers: pipeliner/normalise/affine_loops.py
"""

from __future__ import annotations

import numpy as np
import pytest

from mlir_async_pipe import lower, machine, pipeline
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.pipeliner.normalise.affine_loops import write_tile_copies
from mlir_async_pipe.session.diagnostics import HazardError

WG = "#gpu.address_space<workgroup>"
COPIES = {
    "memref": "memref.copy %source, %target : {source} to {target}",
    "linalg": "linalg.copy ins(%source : {source}) outs(%target : {target})",
}
WIDTH = 512


def kernel(
    op: str, rows: int, columns: int, guard: str = "", first: str = "%mine", to: str = ""
) -> str:
    """Eight threads; the tile of a thread starts at row `first`, and is copied `to` that row, or another one, under `guard`."""
    to = to or first
    array, tile = f"memref<{8 * rows}x{WIDTH}xf16>", f"memref<{8 * rows}x{columns}xf16, {WG}>"
    source = f"memref<{rows}x{columns}xf16, strided<[{WIDTH}, 1], offset: ?>>"
    target = f"memref<{rows}x{columns}xf16, strided<[{columns}, 1], offset: ?>, {WG}>"
    copy = COPIES[op].format(source=source, target=target)
    noalias = "{llvm.noalias, llvm.align = 16 : i64}"
    return f"""
gpu.module @kernels {{
  gpu.func @f(%A: {array} {noalias}, %C: {array} {noalias}) kernel
      attributes {{known_block_size = array<i32: 8, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c7 = arith.constant 7 : index
    %rows = arith.constant {rows} : index
    %columns = arith.constant {columns} : index
    %width = arith.constant {WIDTH} : index
    %s = memref.alloc() : {tile}
    %t = gpu.thread_id x
    %u = arith.subi %c7, %t : index
    %mine = arith.muli %t, %rows : index
    %other = arith.muli %u, %rows : index
    %one = arith.cmpi eq, %t, %c0 : index
    scf.for %k = %c0 to %width step %columns {{
      %source = memref.subview %A[{first}, %k] [{rows}, {columns}] [1, 1] : {array} to {source}
      %target = memref.subview %s[{to}, 0] [{rows}, {columns}] [1, 1] : {tile} to {target}
      {f"scf.if {guard} {{ {copy} }}" if guard else copy}
      gpu.barrier
      %v = vector.load %s[{"%c0" if to == "%c0" else "%other"}, %c0] : {tile}, vector<8xf16>
      vector.store %v, %C[%mine, %k] : {array}, vector<8xf16>
      gpu.barrier
    }} {{async_pipe.num_stages = 3 : i64}}
    gpu.return
  }}
}}"""


def same_results(text: str, module: ir.Module, rows: int) -> None:
    """The module computes what the text does, in every completion, without a race."""
    given = (np.arange(8 * rows * WIDTH) % 1999).reshape(-1, WIDTH).astype(np.float16)
    before = machine.run(ir.Module.parse(text), "f", [given, given * 0], threads=8)
    assert np.count_nonzero(before.arrays[1])
    for completion in ("eager", "late", "random"):
        found = machine.run(module, "f", [given, given * 0], threads=8, completion=completion)
        assert found.races == ()
        np.testing.assert_array_equal(found.arrays[1], before.arrays[1])


SIZES = [(1, 8), (4, 8), (2, 64), (3, 32), (17, 8), (8, 32), (64, 8), (4, 128)]


@pytest.mark.parametrize("target", ["nvvm:sm_80", "rocdl:gfx950"])
@pytest.mark.parametrize(("rows", "columns"), SIZES)
def test_tiles_are_copied_two_iterations_ahead(rows: int, columns: int, target: str) -> None:
    made = []
    with new_context():
        for op in COPIES:
            text = kernel(op, rows, columns)
            module = ir.Module.parse(text)
            report = pipeline(module, target)
            # Each thread copies by a view of its own, which the waves of gfx9 cannot.
            through_registers = target == "rocdl:gfx950"
            assert [wait.count for wait in report.of("waits")] == [1, 1, 0] * (
                not through_registers
            )
            assert [check.unknown for check in report.of("checks")] == [0]
            codes = [entry.code for entry in report.diagnostics]
            assert codes == ["through-registers"] * through_registers
            made.append(str(module))
        assert made[0] == made[1]
        same_results(kernel("memref", rows, columns), module, rows)


def test_a_large_tile_is_one_copy_in_a_loop_down_to_llvm() -> None:
    with new_context():
        module = ir.Module.parse(kernel("memref", 64, 8))
        pipeline(module, "nvvm:sm_80")
        text = lower(module, target="nvvm:sm_80", emit="llvm").text
    # Twice in the prologue, once in the kernel.
    assert text.count("nvvm.cp.async.shared.global") == 3


def test_all_threads_may_copy_one_tile() -> None:
    """What they write to one place is equal."""
    with new_context():
        text = kernel("memref", 64, 8, first="%c0")
        module = ir.Module.parse(text)
        report = pipeline(module, "nvvm:sm_80")
        assert [(check.unsafe, check.unknown) for check in report.of("checks")] == [(0, 0)]
        same_results(text, module, 64)


def test_all_threads_that_copy_to_one_tile_race_and_the_advice_helps() -> None:
    """One thread writes for all: that it writes all that others read is found by enumerating threads."""
    with new_context():
        with pytest.raises(
            HazardError, match="of two threads writes to one place at once"
        ) as error:
            pipeline(ir.Module.parse(kernel("linalg", 64, 8, to="%c0")), "nvvm:sm_80")
        advice = [note.message for note in error.value.diagnostic.notes]
        assert "let one thread write, or give each thread a place of its own" in advice
        one = kernel("memref", 64, 8, first="%c0", guard="%one")
        module = ir.Module.parse(one)
        report = pipeline(module, "nvvm:sm_80")
        assert [wait.count for wait in report.of("waits")] == [1, 1, 0]
        assert [(check.unsafe, check.unknown) for check in report.of("checks")] == [(0, 0)]
        same_results(one, module, 64)


# Source, target, how many copies are written, in how many loops.
TILES = {
    "rows of neighbours": ("memref<4x8xf16>", f"memref<4x8xf16, {WG}>", 4, 0),
    "rows apart": (
        "memref<2x8xf16, strided<[64, 1], offset: ?>>",
        f"memref<2x8xf16, strided<[40, 1], offset: ?>, {WG}>",
        2,
        0,
    ),
    "planes": ("memref<2x3x4xf32>", f"memref<2x3x4xf32, {WG}>", 6, 0),
    "many rows": ("memref<33x8xf16>", f"memref<33x8xf16, {WG}>", 1, 1),
    "many planes": ("memref<4x9x4xf32>", f"memref<4x9x4xf32, {WG}>", 1, 2),
    "long rows": ("memref<128xf16>", f"memref<128xf16, {WG}>", 4, 0),
    "many long rows": ("memref<9x128xf16>", f"memref<9x128xf16, {WG}>", 1, 2),
    "a row of 16 bytes five times": ("memref<40xf16>", f"memref<40xf16, {WG}>", 5, 0),
    "a row of a prime size": ("memref<67xf16>", f"memref<67xf16, {WG}>", 1, 1),
    "elements apart": ("memref<4xf32, strided<[2]>>", f"memref<4xf32, {WG}>", 0, 0),
    "a size that is not known": ("memref<?xf32>", f"memref<?xf32, {WG}>", 0, 0),
    "within workgroup memory": (f"memref<4xf32, {WG}>", f"memref<4xf32, {WG}>", 0, 0),
    "back to global memory": (f"memref<4xf32, {WG}>", "memref<4xf32>", 0, 0),
}


@pytest.mark.parametrize("op", COPIES)
@pytest.mark.parametrize("name", TILES)
def test_tiles_become_rows(name: str, op: str) -> None:
    """What does not become rows is a memref.copy in the end, whose accesses are known."""
    source, target, rows, loops = TILES[name]
    with new_context():
        module = written(source, target, COPIES[op])
    assert module.count("vector.load") == module.count("vector.store") == rows
    assert module.count("scf.for") == 1 + loops
    assert module.count("memref.copy") == (rows == 0)
    assert module.count("linalg.copy") == 0


@pytest.mark.parametrize(
    ("source", "target", "op"),
    [
        ("memref<4xf16>", f"memref<4xf32, {WG}>", "linalg"),
        ("memref<*xf32>", f"memref<4xf32, {WG}>", "memref"),
    ],
)
def test_copies_that_convert_or_have_no_known_rank_stay(source: str, target: str, op: str) -> None:
    with new_context():
        assert written(source, target, COPIES[op]).count(f"{op}.copy") == 1


def written(source: str, target: str, copy: str) -> list[str]:
    """The names of the ops of a loop that copies, after its copies were rewritten."""
    module = ir.Module.parse(f"""
func.func @f(%source: {source}, %target: {target}, %n: index) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {{
    {copy.format(source=source, target=target)}
  }}
  return
}}""")
    (loop,) = [op for op in walk(module.operation) if op.name == "scf.for"]
    write_tile_copies(loop)
    assert module.operation.verify()
    return [op.name for op in walk(loop)]
