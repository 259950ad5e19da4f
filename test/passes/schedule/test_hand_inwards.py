"""num_stages on a loop whose loads stand in loops inside of it, as on a persistent kernel's tiles.

Covers: pipeliner/normalise/sink_annotations.py
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from helpers.row_programs import STAGES_3, copying_loop, kernel, pipelined, wrong_runs
from mlir_async_pipe.bindings import new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.session.diagnostics import InputError
from mlir_async_pipe.session.report import Session

SIZES = [(n, m) for n in range(6) for m in range(3)]


@pytest.fixture(autouse=True)
def _context() -> Iterator[None]:
    with new_context():
        yield


def reported(session: Session, code: str) -> list[str]:
    return [item.message for item in session.diagnostics.items if item.code == code]


def sums(inner: str = "", outer: str = STAGES_3, after: str = "") -> str:
    """%m tiles of %n rows each: the sum of the rows goes to one row of %O."""
    return kernel(
        f"""
  %zero = arith.constant 0.0 : f32
  scf.for %tile = %c0 to %m step %c1 {{
    %base = arith.muli %tile, %c3 : index
    %total = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> f32 {{
      %row = arith.addi %i, %base : index
      %v = memref.load %A[%row, %t] : memref<32x4xf32>
      memref.store %v, %B[%t] : memref<4xf32, #wg>
      gpu.barrier
      %w = memref.load %B[%other] : memref<4xf32, #wg>
      %sum = arith.addf %w, %acc : f32
      gpu.barrier
      scf.yield %sum : f32
    }} {{{inner}}}
    memref.store %total, %O[%tile, %t] : memref<32x4xf32>
    {after}
  }} {{{outer}}}
"""
    )


def test_the_inner_loop_gets_the_stages_and_computes_the_same() -> None:
    text = sums()
    module, session = pipelined(text, chip="sm_80")
    (loop,) = session.report().of("loops")
    assert (loop.stages, [buffer.versions for buffer in loop.buffers]) == (3, [3])
    assert len(reported(session, "inner-loop-pipelined")) == 1
    assert "num_stages" not in str(module)
    assert wrong_runs(text, module, SIZES) == []


def test_the_remarks_advice_overlaps_the_tiles() -> None:
    """The next tile's copies start in the last steps of a tile: what is carried goes on from tile to tile."""
    text = sums()
    module, session = pipelined(text, chip="sm_80", overlap_outer=True)
    assert reported(session, "outer-not-overlapped") == []
    pipelines = [op for op in walk(module) if op.name == "scf.for" and len(op.results) > 3]
    tiles, steps = pipelines
    assert steps in walk(tiles)
    assert wrong_runs(text, module, SIZES) == []


def test_what_else_stands_on_the_loop_goes_along() -> None:
    through = f'{STAGES_3}, async_pipe.stage_through = "registers"'
    _, session = pipelined(sums(outer=through), chip="sm_80")
    (loop,) = session.report().of("loops")
    assert [buffer.write_stage for buffer in loop.buffers] == [1]
    assert len(reported(session, "through-registers")) == 1


def test_two_loops_inside_are_both_pipelined() -> None:
    text = kernel(
        f"scf.for %o = %c0 to %m step %c1 {{ {copying_loop('')} {copying_loop('', first_row='%c5')} }} {{{STAGES_3}}}"
    )
    module, session = pipelined(text)
    assert len(session.report().of("loops")) == 2
    assert wrong_runs(text, module, SIZES) == []


def test_a_loop_over_rows_belongs_to_the_copy_of_its_tile() -> None:
    text = kernel(
        f"""
  %T = memref.alloc() : memref<2x4xf32, #wg>
  scf.for %k = %c0 to %n step %c2 {{
    scf.for %r = %c0 to %c2 step %c1 {{
      %row = arith.addi %k, %r : index
      %v = memref.load %A[%row, %t] : memref<32x4xf32>
      memref.store %v, %T[%r, %t] : memref<2x4xf32, #wg>
    }}
    gpu.barrier
    %x = memref.load %T[%c1, %other] : memref<2x4xf32, #wg>
    memref.store %x, %O[%k, %t] : memref<32x4xf32>
    gpu.barrier
  }} {{{STAGES_3}}}
"""
    )
    module, session = pipelined(text)
    assert reported(session, "inner-loop-pipelined") == []
    (loop,) = session.report().of("loops")
    assert [buffer.versions for buffer in loop.buffers] == [3]
    assert wrong_runs(text, module, [(n, 0) for n in (0, 2, 4, 6)]) == []


def test_a_loop_that_loads_itself_keeps_its_stages() -> None:
    after = """%b = memref.load %A[%tile, %t] : memref<32x4xf32>
    memref.store %b, %O[%base, %t] : memref<32x4xf32>"""
    _, session = pipelined(sums(after=after))
    assert reported(session, "inner-loop-pipelined") == []


def test_a_loop_around_one_that_has_its_own_stages_is_told_to_drop_them() -> None:
    with pytest.raises(InputError) as caught:
        pipelined(sums(inner="async_pipe.num_stages = 2 : i64"))
    assert caught.value.code == "no-copies"
    assert "take 'async_pipe.num_stages' off this loop" in str(caught.value)
    # The inner loop is three statements, prologue, kernel and epilogue: each load is told once.
    reported = [(note.message, note.place) for note in caught.value.diagnostic.notes]
    assert len(reported) == len(set(reported))
    # And with the advice followed:
    _, session = pipelined(sums(inner="async_pipe.num_stages = 2 : i64", outer=""))
    (loop,) = session.report().of("loops")
    assert loop.stages == 2


def test_a_nest_that_loads_nothing_is_refused_as_before() -> None:
    text = kernel(
        f"""scf.for %o = %c0 to %m step %c1 {{
    scf.for %i = %c0 to %n step %c1 {{ memref.store %c0f, %O[%o, %t] : memref<32x4xf32> }}
  }} {{{STAGES_3}}}""".replace("%c0f", "%zero")
    ).replace("%t = gpu", "%zero = arith.constant 0.0 : f32\n  %t = gpu")
    with pytest.raises(InputError) as caught:
        pipelined(text)
    assert caught.value.code == "no-copies"
