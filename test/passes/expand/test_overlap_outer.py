"""overlap-outer: the next tile's copies start in this tile's epilogue.

Covers: pipeliner/expand/expand_pass.py, pipeliner/expand/write/write_tiles.py,
bindings/structured_ops.py
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from helpers.gemm_kernels import gemm_text, operands, run_gemm
from helpers.row_programs import kernel, pipelined, wrong_runs
from mlir_async_pipe import check, machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import integer_attribute, set_integer, walk
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.lowering.lower import lower
from mlir_async_pipe.lowering.nvvm.ptxas import find_tool
from mlir_async_pipe.machine.validation import validate
from mlir_async_pipe.session.report import Session

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _context() -> Iterator[None]:
    with new_context():
        yield


def tiles_of_sums(
    tiles: str,
    steps: str,
    annotation: str,
    *,
    front: str = "",
    behind: str = "",
    upper: str = "",
    start: str = "%zero",
) -> str:
    """Tile o adds up rows 3 o … of %A and stores the sum to row o of %O; `front` and `behind`
    stand before and after the inner loop."""
    return kernel(
        f"""
  %zero = arith.constant 0.0 : f32
  scf.for %o = %c0 to {tiles} step %c1 {{
    %base = arith.muli %o, %c3 : index
    {front}
    %total = scf.for %i = %c0 to {upper or steps} step %c1 iter_args(%acc = {start}) -> f32 {{
      %row = arith.addi %i, %base : index
      %tk = nvgpu.device_async_copy %A[%row, %t], %B[%t], 1 : memref<32x4xf32> to memref<4xf32, #wg>
      %g = nvgpu.device_async_create_group %tk
      nvgpu.device_async_wait %g
      gpu.barrier
      %sum = scf.execute_region -> f32 no_inline {{
        %v = memref.load %B[%other] : memref<4xf32, #wg>
        %w = arith.addf %v, %acc : f32
        scf.yield %w : f32
      }}
      gpu.barrier
      scf.yield %sum : f32
    }} {{{annotation}}}
    memref.store %total, %O[%o, %t] : memref<32x4xf32>
    {behind}
  }}
"""
    )


def stages(number: int) -> str:
    return f"async_pipe.num_stages = {number} : i64"


SIZES = [(n, m) for n in range(6) for m in range(6)]
COUNTS = {
    # Kernel S - 2, the last S steps of a tile S - 2, then the drain; then the loop for short trips.
    "%m %n 3": ("%m", "%n", 3, [1, 1, 1, 1, 0, 0]),
    "%m %c5 3": ("%m", "%c5", 3, [1, 1, 1, 1, 0]),
    "%c3 %n 4": ("%c3", "%n", 4, [2, 2, 2, 2, 2, 0, 0]),
    "%c3 %c5 4": ("%c3", "%c5", 4, [2, 2, 2, 2, 2, 0]),
    "%m %c2 2": ("%m", "%c2", 2, [0, 0, 0, 0]),
}


def counts(module: ir.Module) -> list[int | None]:
    return [
        integer_attribute(op, "numGroups")
        for op in walk(module)
        if op.name == "nvgpu.device_async_wait"
    ]


def remarks(session: Session) -> list[str]:
    return [d.message for d in session.diagnostics.items if d.code == "outer-not-overlapped"]


@pytest.mark.parametrize("case", COUNTS)
def test_all_steps_of_all_tiles_are_one_pipeline(case: str) -> None:
    tiles, steps, number, expected = COUNTS[case]
    text = tiles_of_sums(tiles, steps, stages(number))
    module, session = pipelined(text, overlap_outer=True)
    (loop,) = session.report().of("loops")
    assert (loop.stages, [b.versions for b in loop.buffers]) == (number, [number])
    assert counts(module) == expected
    (summary,) = session.report().of("checks")
    assert (summary.unsafe, summary.unknown) == (0, 0)
    assert remarks(session) == []
    assert wrong_runs(text, module, SIZES) == []


def test_without_the_option_every_tile_fills_the_pipeline_again() -> None:
    text = tiles_of_sums("%c3", "%c5", stages(3))
    apart, _ = pipelined(text)
    together, _ = pipelined(text, overlap_outer=True)
    depths = [
        sum(above.name == "scf.for" for above in (op.parent.operation,))
        for module in (apart, together)
        for op in walk(module)
        if op.name == "nvgpu.device_async_copy"
    ]
    # Apart all three copies stand in loops; together the two of the prologue do not, but those of the last steps do.
    assert depths == [1, 1, 1, 0, 0, 1, 1, 1, 1]


@pytest.mark.parametrize("annotation", ['short_trip = "predicate"', 'short_trip = "assume"'])
def test_other_ways_with_short_trips_stay_right(annotation: str) -> None:
    text = tiles_of_sums("%m", "%n", f"{stages(3)}, async_pipe.{annotation}")
    module, session = pipelined(text, overlap_outer=True)
    (summary,) = session.report().of("checks")
    assert (summary.unsafe, summary.unknown) == (0, 0)
    # What is assumed of each tile: 2 iterations or more. Of the tiles nothing is.
    sizes = SIZES if "predicate" in annotation else [(n, m) for n, m in SIZES if n >= 2]
    assert wrong_runs(text, module, sizes) == []


def test_values_that_tiles_carry_go_on() -> None:
    text = tiles_of_sums("%m", "%n", stages(3), start="%carried")
    text = text.replace(
        "scf.for %o = %c0 to %m step %c1 {",
        "%last = scf.for %o = %c0 to %m step %c1 iter_args(%carried = %zero) -> f32 {",
    ).replace(
        "memref.store %total, %O[%o, %t] : memref<32x4xf32>\n    \n  }",
        "memref.store %total, %O[%o, %t] : memref<32x4xf32>\n    scf.yield %total : f32\n  }\n"
        "  memref.store %last, %O[%c16, %t] : memref<32x4xf32>",
    )
    assert "scf.yield %total" in text
    module, session = pipelined(text, overlap_outer=True)
    assert remarks(session) == []
    assert wrong_runs(text, module, SIZES) == []


LOAD = "%first = memref.load %A[%o, %t] : memref<32x4xf32>"
REFUSALS = {
    "a load in front": (
        tiles_of_sums("%m", "%n", stages(3), front=LOAD, behind="", start="%first"),
        "'memref.load' before the inner loop is not pure",
    ),
    "other bounds": (
        tiles_of_sums("%m", "%n", stages(3), upper="%o"),
        "the bounds of the inner loop differ between tiles",
    ),
    "a start of its own": (
        tiles_of_sums(
            "%m",
            "%n",
            stages(3),
            front="%word = arith.index_cast %o : index to i32\n%s = arith.sitofp %word : i32 to f32",
            start="%s",
        ),
        "the inner loop begins with a value that each tile computes",
    ),
    "a wait after": (
        tiles_of_sums(
            "%m",
            "%n",
            stages(3),
            behind="%none = nvgpu.device_async_create_group {async_pipe.empty}\n"
            "nvgpu.device_async_wait %none",
        ),
        "'nvgpu.device_async_create_group' stands after the inner loop",
    ),
    "few steps": (
        tiles_of_sums("%m", "%c2", stages(3)),
        "a tile has 2 iterations, and the pipeline 3 stages",
    ),
    "one tile": (tiles_of_sums("%c1", "%n", stages(3)), "there are no two tiles with iterations"),
    "independent": (
        tiles_of_sums("%m", "%n", f"{stages(3)}, async_pipe.independent"),
        "the inner loop is declared independent, which says nothing of the outer one",
    ),
    "memory": (
        tiles_of_sums("%m", "%n", stages(3)).replace(" {llvm.noalias}", ""),
        "'nvgpu.device_async_copy' in stage 0 may read what",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_nest_that_cannot_overlap_is_pipelined_tile_by_tile(case: str) -> None:
    text, reason = REFUSALS[case]
    module, session = pipelined(text, overlap_outer=True)
    (remark,) = remarks(session)
    assert reason in remark
    assert len(session.report().of("loops")) == 1
    assert wrong_runs(text, module, SIZES) == []


def test_a_loop_in_no_loop_is_left_alone() -> None:
    text = (
        tiles_of_sums("%m", "%n", stages(3))
        .replace("scf.for %o = %c0 to %m step %c1 {", "scf.if %some {")
        .replace("%o,", "%c0,")
        .replace("%zero = arith", "%some = arith.cmpi sgt, %m, %c0 : index\n  %zero = arith")
    )
    _, session = pipelined(text, overlap_outer=True)
    assert remarks(session) == []
    assert len(session.report().of("loops")) == 1


@pytest.mark.parametrize("overlap_outer", [False, True])
def test_persistent_gemm_computes_the_product(overlap_outer: bool) -> None:
    text = gemm_text("--persistent", "--tile-m=64", "--tile-n=64", "--warps-m=2", "--warps-n=2")
    module, session = pipelined(text, overlap_outer=overlap_outer)
    (summary,) = session.report().of("checks")
    assert summary.unsafe == 0
    assert summary.unknown == 0
    # Two and six steps a tile, and more blocks than tiles.
    for blocks, k in ((1, 192), (2, 64), (3, 192), (5, 192)):
        result, right = run_gemm(module, (128, 128, k), (blocks, 1))
        assert right
        assert result.races == ()


SMALL = ("--persistent", "--tile-m=32", "--tile-n=32", "--warps-m=1", "--warps-n=1")


def test_overlapped_tiles_compute_the_same_for_all_data() -> None:
    text = gemm_text(*SMALL)
    module, _ = pipelined(text, overlap_outer=True)
    (a, b, c), _ = operands((64, 32, 160), "f16")
    found = validate(ir.Module.parse(text), module, "gemm", [a, b, c], threads=32, grid=(1, 1))
    assert found.verdict == "equal"


def test_one_group_more_in_flight_is_a_race_in_each_step() -> None:
    module, _ = pipelined(gemm_text(*SMALL), overlap_outer=True)
    waits = [op for op in walk(module) if op.name == "nvgpu.device_async_wait"]
    # Of the kernel, of the three last steps of a tile, the drain, which waits for zeros, and of the loop for short tiles.
    assert [integer_attribute(op, "numGroups") for op in waits] == [1, 1, 1, 1, 0, 0]
    for op in [*waits[:4], waits[5]]:
        count = integer_attribute(op, "numGroups")
        set_integer(op, "numGroups", count + 1, 32)
        assert "read-in-flight" in {one.code for one in check(module).diagnostics}
        set_integer(op, "numGroups", count, 32)
    assert not check(module).diagnostics


def test_without_the_barrier_of_a_step_it_is_no_longer_proven() -> None:
    module, _ = pipelined(gemm_text(*SMALL[:-1], "--warps-n=2"), overlap_outer=True)
    assert not check(module).diagnostics
    barriers = [op for op in walk(module) if op.name == "gpu.barrier"]
    for number in range(4):
        text = ir.Module.parse(str(module))
        [op for op in walk(text) if op.name == "gpu.barrier"][number].erase()
        assert check(text).diagnostics, barriers[number]


def test_what_stands_after_the_steps_may_use_workgroup_memory() -> None:
    """The sum of another thread, by way of a buffer of its own."""
    behind = """
    gpu.barrier
    memref.store %total, %S[%t] : memref<4xf32, #wg>
    gpu.barrier
    %its = memref.load %S[%other] : memref<4xf32, #wg>
    memref.store %its, %O[%o, %t] : memref<32x4xf32>"""
    text = tiles_of_sums("%m", "%n", stages(3), behind=behind).replace(
        "  %zero = arith", "  %S = memref.alloc() : memref<4xf32, #wg>\n  %zero = arith"
    )
    module, session = pipelined(text, overlap_outer=True)
    assert remarks(session) == []
    (summary,) = session.report().of("checks")
    assert (summary.unsafe, summary.unknown) == (0, 0)
    assert wrong_runs(text, module, SIZES) == []


def test_tiles_and_steps_may_be_numbers_of_32_bits() -> None:
    text = (
        tiles_of_sums("%m32", "%n32", stages(3))
        .replace(
            "  scf.for %o = %c0 to",
            "  %m32 = arith.index_cast %m : index to i32\n  %n32 = arith.index_cast %n : index to i32\n"
            "  %z = arith.constant 0 : i32\n  %e = arith.constant 1 : i32\n  scf.for %o32 = %z to",
        )
        .replace("to %m32 step %c1 {", "to %m32 step %e : i32 {\n  %o = arith.index_cast %o32 : i32 to index")
        .replace("scf.for %i = %c0 to %n32 step %c1", "scf.for %i32 = %z to %n32 step %e")
        .replace("-> f32 {\n      %row", "-> f32 : i32 {\n      %i = arith.index_cast %i32 : i32 to index\n      %row")
    )  # fmt: skip
    module, session = pipelined(text, overlap_outer=True)
    assert remarks(session) == []
    assert wrong_runs(text, module, SIZES) == []


@pytest.mark.parametrize("chip", ["gfx942", "gfx950"])
def test_tiles_overlap_on_amd_too(chip: str) -> None:
    """Copies to LDS are predicated as those of NVIDIA."""
    text = gemm_text(f"--chip={chip}", "--persistent", "--tile-m=64", "--tile-n=64")
    module, session = pipelined(text, overlap_outer=True, chip=chip)
    (summary,) = session.report().of("checks")
    assert (summary.unsafe, summary.unknown) == (0, 0) and remarks(session) == []
    for shape, blocks in (((128, 128, 160), 1), ((128, 64, 96), 3), ((64, 64, 64), 1)):
        arguments, product = operands(shape, "f16")
        target = f"rocdl:{chip}"
        done = machine.run(
            module, "gemm", arguments, threads=256, grid=blocks, target=target, completion="late"
        )
        assert np.array_equal(done.arrays[2], product) and not done.races


@pytest.mark.skipif(find_tool("ptxas") is None, reason="ptxas is not installed")
def test_the_steps_of_a_persistent_gemm_are_those_of_one_tile() -> None:
    """One loop over the steps without spills, one wait and one barrier, and the last ones of a tile around it."""
    text = gemm_text("--persistent", "--tile-m=64", "--tile-n=64")
    module, _ = pipelined(text, overlap_outer=True, chip="sm_80")
    made = lower(module, target=Target.parse("nvvm:sm_80"), emit="cubin")
    (found,) = made.kernels
    assert found.resources is not None and found.machine is not None
    assert found.resources.spill_store_bytes == found.resources.stack_frame_bytes == 0
    loops = {(loop.waits, loop.barriers) for loop in found.machine.pipelined_loops}
    # The last one is that of tiles with fewer steps than stages.
    assert loops == {((1,), 1), ((1, 1, 1, 1), 4), ((0,), 2)}
