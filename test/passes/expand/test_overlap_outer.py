"""overlap-outer: the next tile's copies start in this tile's epilogue.

Covers: pipeliner/expand/expand_pass.py, pipeliner/expand/write/write_tiles.py,
bindings/structured_ops.py
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from helpers.gemm_kernels import gemm_text, run_gemm
from helpers.row_programs import kernel, pipelined, wrong_runs
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import integer_attribute, walk
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.lowering.lower import lower
from mlir_async_pipe.lowering.nvvm.ptxas import find_tool
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
    # Kernel S - 2, epilogue S - 2 … 0; then the loop for short trips.
    "%m %n 3": ("%m", "%n", 3, [1, 1, 0, 0, 0]),
    "%m %c5 3": ("%m", "%c5", 3, [1, 1, 0, 0]),
    "%c3 %n 4": ("%c3", "%n", 4, [2, 2, 1, 0, 0, 0]),
    "%c3 %c5 4": ("%c3", "%c5", 4, [2, 2, 1, 0]),
    "%m %c2 2": ("%m", "%c2", 2, [0, 0, 0]),
    "%m %c1 3": ("%m", "%c1", 3, [1, 1, 0, 0]),
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
    # Apart all three copies stand in loops; together the two of the prologue do not.
    assert depths == [1, 1, 1, 0, 0, 1]


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
    if overlap_outer:
        # The tile of a step is a carried value, which the checker does not follow from tile to
        # tile: that no two blocks store one element is unknown. What is shared in a block is proven.
        unknown = [h for h in session.report().of("hazards") if h.verdict == "unknown"]
        assert {h.op for h in unknown} == {"vector.store"}
    else:
        assert summary.unknown == 0
    for blocks in (1, 2, 3):
        result, right = run_gemm(module, (128, 128, 96), (blocks, 1))
        assert right
        assert result.races == ()


@pytest.mark.skipif(find_tool("ptxas") is None, reason="ptxas is not installed")
def test_persistent_gemm_has_one_loop_without_spills() -> None:
    module, _ = pipelined(gemm_text("--persistent"), overlap_outer=True, chip="sm_80")
    made = lower(module, target=Target.parse("nvvm:sm_80"), emit="cubin")
    (found,) = made.kernels
    assert found.resources is not None and found.machine is not None
    assert found.resources.spill_store_bytes == found.resources.stack_frame_bytes == 0
    (loop,) = found.machine.pipelined_loops
    assert (loop.waits, loop.barriers) == ((1,), 1)
