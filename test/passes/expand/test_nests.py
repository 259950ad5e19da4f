"""Loops inside pipelined loops: imperfect nests, unknown trip counts, async on both levels.

Covers: pipeliner/plan/make_plan.py, pipeliner/expand/write/kernel_units.py
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from helpers.row_programs import kernel, pipelined, proven, wrong_runs
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.session.diagnostics import AsyncPipeError

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _context() -> Iterator[None]:
    with new_context():
        yield


def streams(steps: str, stage: str, order: str, inner: str = "") -> str:
    """Each row of %A stays in %C while the rows from it on are streamed through %B."""
    return kernel(
        f"""
  %C = memref.alloc() : memref<4xf32, #wg>
  %zero = arith.constant 0.0 : f32
  scf.for %o = %c0 to %m step %c1 {{
    %tc = nvgpu.device_async_copy %A[%o, %t], %C[%t], 1 : memref<32x4xf32> to memref<4xf32, #wg>
    %gc = nvgpu.device_async_create_group %tc
    nvgpu.device_async_wait %gc
    gpu.barrier
    %total = scf.for %i = %c0 to {steps} step %c1 iter_args(%acc = %zero) -> f32 {{
      %row = arith.addi %i, %o : index
      %tk = nvgpu.device_async_copy %A[%row, %t], %B[%t], 1 : memref<32x4xf32> to memref<4xf32, #wg>
      %g = nvgpu.device_async_create_group %tk
      nvgpu.device_async_wait %g
      gpu.barrier
      %sum = scf.execute_region -> f32 no_inline {{
        %v = memref.load %B[%other] : memref<4xf32, #wg>
        %u = memref.load %C[%other] : memref<4xf32, #wg>
        %p = arith.mulf %u, %v : f32
        %w = arith.addf %p, %acc : f32
        scf.yield %w : f32
      }}
      gpu.barrier
      scf.yield %sum : f32
    }} {{async_pipe.num_stages = 3 : i64{inner}}}
    memref.store %total, %O[%o, %t] : memref<32x4xf32>
    gpu.barrier
  }} {{async_pipe.stage = [{stage}], async_pipe.order = [{order}], async_pipe.async_stages = [0]}}
"""
    )


SIZES = [(n, m) for n in range(5) for m in range(5)]
ALONE = (
    ("0, 1, 1, 1, 1", "0, 1, 2, 3, 4", 2),
    ("0, 2, 2, 2, 2", "0, 1, 2, 3, 4", 3),
    ("0, 2, 2, 2, 2", "4, 0, 1, 2, 3", 2),
)


@pytest.mark.parametrize("steps", ["%n", "%c5"])
@pytest.mark.parametrize(("stage", "order", "versions"), ALONE)
def test_async_on_both_levels(steps: str, stage: str, order: str, versions: int) -> None:
    """The inner pipeline keeps its waits as one statement of the outer one; both commit to the
    same queue, and the counts of both look over the other's groups."""
    text = streams(steps, stage, order)
    module, session = pipelined(text)
    inner, outer = session.report().of("loops")
    assert [b.versions for b in inner.buffers] == [3]
    assert [b.versions for b in outer.buffers] == [versions]
    assert proven(session)
    assert wrong_runs(text, module, SIZES) == []


@pytest.mark.parametrize("short_trip", ["predicate", "assume"])
def test_async_on_both_levels_with_other_short_trips(short_trip: str) -> None:
    stage, order, _ = ALONE[1]
    text = streams("%n", stage, order, f', async_pipe.short_trip = "{short_trip}"')
    module, session = pipelined(text)
    assert proven(session)
    least = 2 if short_trip == "assume" else 0
    assert wrong_runs(text, module, [(n, m) for n, m in SIZES if n >= least]) == []


@pytest.mark.parametrize(
    ("stage", "order"),
    [
        ("0, 1, 2, 2, 2", "0, 1, 2, 3, 4"),
        ("0, 2, 2, 2, 2", "2, 0, 1, 3, 4"),
        ("0, 2, 2, 2, 2", "0, 2, 1, 3, 4"),
    ],
    ids=["two stages", "another statement in between", "out of order"],
)
def test_parts_with_async_statements_that_are_taken_apart_are_refused(
    stage: str, order: str
) -> None:
    with pytest.raises(AsyncPipeError) as caught:
        pipelined(streams("%c5", stage, order))
    assert caught.value.code == "nested-async"


PARTS_APART = """
func.func @f(%A: memref<64xf32> {llvm.noalias}, %D: memref<64xf32> {llvm.noalias},
             %E: memref<64xf32> {llvm.noalias}, %n: index, %m: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  scf.for %k = %c0 to %n step %c1 {
    %b = arith.muli %k, %c8 : index
    %first = memref.load %A[%k] : memref<64xf32>
    scf.for %j = %c0 to %m step %c1 {
      %x = arith.addi %j, %b : index
      %v = memref.load %A[%x] : memref<64xf32>
      %w = arith.addf %v, %first : f32
      memref.store %w, %D[%x] : memref<64xf32>
    } {async_pipe.stage = [0, 1]SHORT}
    memref.store %first, %E[%k] : memref<64xf32>
  } {async_pipe.stage = [0, 1, 2, 2, 2], async_pipe.order = [0, 3, 1, 2, 4]}
  return
}
"""


def outputs(module: ir.Module, n: int, m: int) -> list[list[float]]:
    a = np.arange(64, dtype=np.float32)
    empty = [np.full(64, -1, np.float32) for _ in range(2)]
    _, d, e = machine.run(module, "f", [a, *empty, n, m]).arrays[:3]
    assert d is not None and e is not None
    return [list(d), list(e)]


@pytest.mark.parametrize("short_trip", ["predicate", "assume"])
def test_parts_of_an_inner_loop_of_unknown_trip_count_in_different_stages(short_trip: str) -> None:
    """An imperfect nest: a load before the inner loop, a store after it, and the next
    tile's first loads after this tile's kernel."""
    text = PARTS_APART.replace("SHORT", f', async_pipe.short_trip = "{short_trip}"')
    module, session = pipelined(text)
    assert [loop.stages for loop in session.report().of("loops")] == [2, 3]
    plain = ir.Module.parse(text)
    for n in range(6):
        for m in range(1 if short_trip == "assume" else 0, 6):
            assert outputs(module, n, m) == outputs(plain, n, m)


def test_parts_that_need_a_version_for_short_trips_cannot_be_taken_apart() -> None:
    with pytest.raises(AsyncPipeError) as caught:
        pipelined(PARTS_APART.replace("SHORT", ""))
    assert caught.value.code == "inner-loop-versioned"
    assert "predicate" in str(caught.value)
