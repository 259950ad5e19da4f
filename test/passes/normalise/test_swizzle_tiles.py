"""Tiles that are laid out anew: the same results, proven, and no more wavefronts than the machine counts.

Covers: pipeliner/normalise/swizzle_tiles.py
"""

from __future__ import annotations

import re
from random import Random
from typing import Any

import numpy as np
import pytest

from helpers.gemm_kernels import gemm_text, operands, run_gemm
from helpers.lane_addresses import neighbours, watched, wavefronts
from mlir_async_pipe import check, machine, pipeline
from mlir_async_pipe.api import run_pass
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.machine.validation import validate
from mlir_async_pipe.session.diagnostics import InputError
from mlir_async_pipe.session.report import Report

TARGET = "nvvm:sm_80"
PASS = "async-pipe-normalise-swizzle"
WG = "#gpu.address_space<workgroup>"
AUTO = 'async_pipe.swizzle = "auto"'


@pytest.fixture(autouse=True)
def context():
    with new_context():
        yield


def plain_gemm(*options: str) -> str:
    """The generator's GEMM with the columns of its tiles as they are."""
    text = re.sub(r"arith.xori (%\w+), %\w+", r"arith.ori \1, \1", gemm_text(*options))
    return text.replace("async_pipe.num_stages", f"{AUTO}, async_pipe.num_stages")


def codes(report: Report) -> list[str]:
    return [one.code for one in report.diagnostics]


@pytest.mark.parametrize(
    ("options", "size", "words"),
    [
        (("--tile-m=64", "--tile-n=64"), (64, 64, 96), "(row / 2) mod 4"),
        (("--tile-m=64", "--tile-n=64", "--tile-k=64"), (64, 64, 192), "(the row) mod 8"),
    ],
)
def test_a_plain_gemm_is_as_good_as_a_swizzled_one(
    options: tuple[str, ...], size: tuple[int, int, int], words: str, monkeypatch: Any
) -> None:
    module = ir.Module.parse(plain_gemm(*options))
    report = pipeline(module, target=TARGET)  # proves it
    said = [one.message for one in report.diagnostics if one.code == "swizzled"]
    assert len(said) == 2 and all(words in one for one in said)
    result, right = run_gemm(module, size)
    assert right and not result.races
    seen = watched(monkeypatch, module, operands(size, "f16")[0], threads=128, target=TARGET)
    asked = [w for (_, space), warps in seen.items() if space == "workgroup" for w in warps]
    assert asked and all(wavefronts(w, 16, neighbours(8))[1] == 1 for w in asked)


def kernel(fill: str, read: str, tile: str = "32x32xf32", columns: int = 32) -> str:
    """Each of 32 threads fills a row or column of the tile in each iteration, and reads others."""
    return f"""
gpu.module @m {{
  gpu.func @k(%from: memref<32x{columns}xf32> {{llvm.noalias}}, %to: memref<32x{columns}xf32> {{llvm.noalias}}, %n: index)
      workgroup(%tile: memref<{tile}, {WG}>) kernel attributes {{known_block_size = array<i32: 32, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %c32 = arith.constant 32 : index
    %t = gpu.thread_id x
    scf.for %i = %c0 to %n step %c1 {{
      scf.for %j = %c0 to %c32 step %c1 {{
        %v = memref.load %from[%t, %j] : memref<32x{columns}xf32>
        {fill}
      }}
      gpu.barrier
      scf.for %j = %c0 to %c32 step %c1 {{
        {read}
        memref.store %w, %to[%t, %j] : memref<32x{columns}xf32>
      }}
      gpu.barrier
    }} {{async_pipe.num_stages = 1 : i64, {AUTO}}}
    gpu.return
  }}
}}
"""


STORE = f"memref.store %v, %tile[%t, %j] : memref<32x32xf32, {WG}>"
LOAD = f"%w = memref.load %tile[%t, %j] : memref<32x32xf32, {WG}>"
TURNED = f"%w = memref.load %tile[%j, %t] : memref<32x32xf32, {WG}>"
KERNELS = {
    "rows": kernel(STORE, LOAD),
    "rows, read as columns": kernel(STORE, TURNED),
    "columns": kernel(f"memref.store %v, %tile[%j, %t] : memref<32x32xf32, {WG}>", LOAD),
    "four at once": kernel(
        STORE,
        f"""%r = arith.remui %t, %c8 : index
        %c = arith.muli %r, %c4 : index
        %x = vector.load %tile[%t, %c] {{alignment = 16 : i64}} : memref<32x32xf32, {WG}>, vector<4xf32>
        %w = vector.extract %x[2] : f32 from vector<4xf32>""",
    ),
}


@pytest.mark.parametrize("name", KERNELS)
def test_the_result_is_the_same_for_all_data(name: str) -> None:
    before, after = (ir.Module.parse(KERNELS[name]) for _ in range(2))
    report = run_pass(PASS, after, target=TARGET)
    assert codes(report) == ["swizzled"]
    answer = validate(before, after, None, [None, None, 2], target=TARGET)
    assert answer.verdict == "equal", answer
    verdicts = check(after, target=TARGET).of("checks")
    assert verdicts and all(one.unsafe == one.unknown == 0 for one in verdicts)


@pytest.mark.parametrize("name", ["rows", "four at once"])
def test_a_layout_that_one_access_does_not_follow_is_wrong(name: str) -> None:
    """The judge of the test above sees it."""
    before, after = (ir.Module.parse(KERNELS[name]) for _ in range(2))
    run_pass(PASS, after, target=TARGET)
    text = str(after)
    assert "arith.xori" in text or "x33xf32" in text
    if "arith.xori" not in text:
        # Rows of one access begin elsewhere.
        last = text.rindex("memref.load %")
        wrong = text[:last] + re.sub(r"\[%(\w+), %\w+\]", r"[%\1, %c0]", text[last:], count=1)
    else:
        wrong = re.sub(r"arith.xori (%\w+), %\w+", r"arith.ori \1, \1", text, count=1)
    answer = validate(before, ir.Module.parse(wrong), None, [None, None, 2], target=TARGET)
    assert answer.verdict == "different"


@pytest.mark.parametrize("seed", range(12))
def test_random_accesses_take_no_more_wavefronts_and_compute_the_same(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted by the machine, over the accesses of the tile."""
    draw = Random(seed)
    rows = ["%t", "%j"]
    draw.shuffle(rows)
    fill = f"memref.store %v, %tile[{rows[0]}, {rows[1]}] : memref<32x32xf32, {WG}>"
    number, shift = draw.choice([3, 4, 8]), draw.choice([1, 3, 4])
    read = f"""%p = arith.divui %t, %c{number} : index
        %q = arith.muli %p, %c{shift} : index
        %r = arith.addi %q, %{draw.choice("tj")} : index
        %row = arith.remui %r, %c32 : index
        %w = memref.load %tile[%row, %{draw.choice("tj")}] : memref<32x32xf32, {WG}>"""
    text = kernel(fill, read)
    data = np.arange(1024, dtype=np.float32).reshape(32, 32)
    arguments = [data, np.zeros_like(data), 2]
    found = []
    for swizzled in (False, True):
        module = ir.Module.parse(text)
        if swizzled:
            run_pass(PASS, module, target=TARGET)
        seen = watched(monkeypatch, module, arguments, target=TARGET)
        asked = [
            wavefronts(w, 4, neighbours(32))[0]
            for (_, space), warps in seen.items()
            if space == "workgroup"
            for w in warps
        ]
        result = machine.run(module, None, arguments, target=TARGET)
        found.append((sum(asked), result.arrays[1]))
    (before, expected), (after, computed) = found
    np.testing.assert_array_equal(expected, computed)
    assert after <= before


TURNED_TILES = """gpu.module @two {
  gpu.func @k(%from: memref<?x32xf32> {llvm.noalias}, %to: memref<?x32xf32> {llvm.noalias}, %n: index)
      workgroup(%tile: memref<32x32xf32, WG>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %piece = arith.constant PIECE : index
    %pieces = arith.constant PIECES : index
    %c32 = arith.constant 32 : index
    %t = gpu.thread_id x
    %r = arith.divui %t, %pieces : index
    %p = arith.remui %t, %pieces : index
    %c = arith.muli %p, %piece : index
    scf.for %i = %c0 to %n step %c32 {
      scf.for %j = %c0 to %c32 step %piece {
        %row = arith.addi %j, %r : index
        %from_row = arith.addi %i, %row : index
        %copy = nvgpu.device_async_copy %from[%from_row, %c], %tile[%row, %c], PIECE : memref<?x32xf32> to memref<32x32xf32, WG>
      }
      %g = nvgpu.device_async_create_group
      nvgpu.device_async_wait %g
      gpu.barrier
      scf.for %j = %c0 to %c32 step %c1 {
        %w = memref.load %tile[%t, %j] : memref<32x32xf32, WG>
        %o = arith.addi %i, %j : index
        memref.store %w, %to[%o, %t] : memref<?x32xf32>
      }
      gpu.barrier
    } {async_pipe.num_stages = 3 : i64, async_pipe.swizzle = "auto"}
    gpu.return
  }
}
"""


@pytest.mark.parametrize(
    ("piece", "words"), [(4, "xor (the row) mod 8"), (1, "rows 4 bytes longer")]
)
@pytest.mark.parametrize("completion", ["late", "eager", "random"])
def test_pipelined_tiles_that_are_read_by_columns(piece: int, words: str, completion: str) -> None:
    """Copies of 16 bytes forbid rows of 4 bytes more; rows of a tile come out as its columns."""
    text = (
        TURNED_TILES.replace("PIECES", str(32 // piece))
        .replace("PIECE", str(piece))
        .replace("WG", WG)
    )
    module = ir.Module.parse(text)
    report = pipeline(module, target=TARGET)
    (said,) = (one.message for one in report.diagnostics if one.code == "swizzled")
    assert words in said
    assert [loop.stages for loop in report.of("loops")] == [3]
    assert all(one.unsafe == one.unknown == 0 for one in report.of("checks"))
    data = np.arange(128 * 32, dtype=np.float32).reshape(128, 32)
    arguments = [data, np.zeros_like(data), 128]
    result = machine.run(module, None, arguments, target=TARGET, completion=completion)
    expected = np.concatenate([data[first : first + 32].T for first in range(0, 128, 32)])
    assert not result.races
    np.testing.assert_array_equal(result.arrays[1], expected)


TORN = {
    # 8 bytes from anywhere on: a xor may tear them apart, and they may go on in the next row.
    "vector.load %tile[%t, %n] : TILE, vector<2xf32>": "may cross the ends of a row",
    # Three times 4 bytes end where no chunk does.
    "vector.load %tile[%t, %c0] : TILE, vector<3xf32>": "may cross the ends of a row",
    "vector.load %tile[%t, %c0] {alignment = 32 : i64} : TILE, vector<8xf32>": "may cross",
    # What lies beyond the tile is 0, which a longer row would not be.
    "vector.transfer_read %tile[%t, %n], %zero : TILE, vector<4xf32>": "may leave the row",
    "vector.maskedload %tile[%t, %c0], %mask, %other : TILE, vector<4xi1>, vector<4xf32> into vector<4xf32>": "may leave",
}


@pytest.mark.parametrize("read", TORN)
def test_accesses_that_a_layout_might_tear_apart_forbid_it(read: str) -> None:
    tile = f"memref<32x32xf32, {WG}>"
    lines = f"""%zero = arith.constant 0.0 : f32
        %mask = arith.constant dense<[true, true, true, false]> : vector<4xi1>
        %other = arith.constant dense<0.0> : vector<4xf32>
        %x = {read.replace("TILE", tile)}
        %w = arith.addf %v0, %zero : f32"""
    text = kernel(STORE, lines).replace(
        "%t = gpu.thread_id x", "%t = gpu.thread_id x\n    %v0 = arith.constant 1.0 : f32"
    )
    module = ir.Module.parse(text)
    report = run_pass(PASS, module, target=TARGET)
    assert codes(report) == ["swizzle-refused"]
    assert TORN[read] in report.diagnostics[0].message
    assert tile in str(module) and "xori" not in str(module)


def test_copies_that_a_chip_takes_apart_keep_their_tile() -> None:
    """gfx942 copies 4 bytes a lane, so 16 bytes are four copies of a wave; gfx950 copies them at once."""
    fill = f"""%copy = nvgpu.device_async_copy %from[%t, %c4], %tile[%t, %c4], 4 : memref<32x32xf32> to memref<32x32xf32, {WG}>"""
    text = kernel(fill, LOAD).replace("32: 32, 1, 1", "32: 64, 1, 1")
    report = run_pass(PASS, ir.Module.parse(text), target="rocdl:gfx942")
    assert codes(report) == ["swizzle-refused"]
    assert "copies of whole waves" in report.diagnostics[0].message
    assert codes(run_pass(PASS, ir.Module.parse(text), target="rocdl:gfx950")) == ["swizzled"]


def test_without_a_target_tiles_stay_and_that_is_said() -> None:
    module = ir.Module.parse(KERNELS["rows"])
    before = str(module)
    report = run_pass(PASS, module)
    assert codes(report) == ["swizzle-refused"]
    assert str(module) == before.replace(f", {AUTO}", "")


def test_loops_that_do_not_ask_stay() -> None:
    for text in (
        KERNELS["rows"].replace(f", {AUTO}", ""),
        KERNELS["rows"].replace('"auto"', '"none"'),
    ):
        module = ir.Module.parse(text)
        assert codes(run_pass(PASS, module, target=TARGET)) == []
        assert "xori" not in str(module) and "x33x" not in str(module)


def test_waves_that_copy_to_one_stretch_get_no_longer_rows() -> None:
    """gfx942 writes lane after lane: a xor is undone by who loads what, a gap is not."""
    columns = KERNELS["rows"].replace("32: 32, 1, 1", "32: 64, 1, 1")
    report = run_pass(PASS, ir.Module.parse(columns), target="rocdl:gfx942")
    assert codes(report) == ["swizzled"]
    assert "longer" not in report.diagnostics[0].message


def padded(columns: int, attributes: str) -> str:
    """Rows of 64 f16 that are 68 apart, read by columns of chunks; a wave of gfx950 copies eight of them."""
    kind = f"memref<32x{columns}xf16, {WG}>"
    return f"""gpu.module @m {{
      gpu.func @k(%from: memref<192x64xf16> {{llvm.noalias, llvm.align = 16 : i64}}, %to: memref<192x64xf16> {{llvm.noalias, llvm.align = 16 : i64}})
          workgroup(%tile: {kind} {{llvm.align = 16 : i64}}) kernel attributes {{known_block_size = array<i32: 256, 1, 1>}} {{
        %c0 = arith.constant 0 : index
        %c8 = arith.constant 8 : index
        %c32 = arith.constant 32 : index
        %c192 = arith.constant 192 : index
        %t = gpu.thread_id x
        %row = arith.divui %t, %c8 : index
        %piece = arith.remui %t, %c8 : index
        %column = arith.muli %piece, %c8 : index
        %other_row = arith.remui %t, %c32 : index
        %other_piece = arith.divui %t, %c32 : index
        %other_column = arith.muli %other_piece, %c8 : index
        scf.for %k = %c0 to %c192 step %c32 {{
          %at = arith.addi %k, %row : index
          %v = vector.load %from[%at, %column] : memref<192x64xf16>, vector<8xf16>
          vector.store %v, %tile[%row, %column] : {kind}, vector<8xf16>
          gpu.barrier
          %w = vector.load %tile[%other_row, %other_column] : {kind}, vector<8xf16>
          vector.store %w, %to[%at, %column] : memref<192x64xf16>, vector<8xf16>
          gpu.barrier
        }} {{async_pipe.num_stages = 3 : i64{attributes}}}
        gpu.return
      }}
    }}"""


@pytest.mark.parametrize("columns", [64, 68, 72])
@pytest.mark.parametrize("completion", ["eager", "late", "random"])
def test_rows_lose_their_ends_where_waves_copy_to_one_stretch(
    columns: int, completion: str
) -> None:
    module = ir.Module.parse(padded(columns, f", {AUTO}"))
    report = pipeline(module, target="rocdl:gfx950")  # proves it
    assert [wait.count for wait in report.of("waits")] == [1, 1, 0]
    assert f"memref<3x32x64xf16, {WG}>" in str(module)
    run_pass("async-pipe-to-rocdl", module, target="rocdl:gfx950", strict=True)
    given = np.arange(192 * 64, dtype=np.float16).reshape(192, 64)
    found = machine.run(
        module, "k", [given, np.zeros_like(given)], target="rocdl:gfx950", completion=completion
    )
    tiles = given.reshape(6, 32, 8, 8).swapaxes(1, 2).reshape(192, 64)
    assert not found.races and np.array_equal(found.arrays[1], tiles)


def test_rows_with_ends_go_through_registers() -> None:
    report = pipeline(ir.Module.parse(padded(68, "")), target="rocdl:gfx950")
    (remark,) = report.diagnostics
    assert remark.code == "through-registers"
    assert "do not write 2 neighbouring elements each" in remark.message


def test_another_value_is_an_error() -> None:
    module = ir.Module.parse(KERNELS["rows"].replace('"auto"', '"always"'))
    with pytest.raises(InputError) as refused:
        run_pass(PASS, module, target=TARGET)
    assert refused.value.code == "bad-annotation"
