"""Carried values that no statement makes: they swap places, or hand on the induction variable.

Covers: pipeliner/expand/write/kernel_units.py, pipeliner/plan/units.py
"""

from __future__ import annotations

import numpy as np
import pytest

import mlir_async_pipe
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context

LENGTH = 16


def program(trips: int, stages: int, options: str) -> str:
    """C[i] = A[i] + a + b, where a and b swap: a is used in stage 0, b in the last one."""
    return f"""
    func.func @f(%A: memref<{LENGTH}xf32> {{llvm.noalias}}, %C: memref<{LENGTH}xf32> {{llvm.noalias}},
                 %D: memref<{LENGTH}xf32> {{llvm.noalias}}, %n: index) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %trips = arith.constant {trips} : index
      %x = arith.constant 1.0 : f32
      %y = arith.constant 2.0 : f32
      %B = memref.alloca() : memref<1xf32>
      %r:2 = scf.for %i = %c0 to {"%n" if options else "%trips"} step %c1
          iter_args(%a = %x, %b = %y) -> (f32, f32) {{
        %v = memref.load %A[%i] : memref<{LENGTH}xf32>
        %w = arith.addf %v, %a : f32
        memref.store %w, %B[%c0] : memref<1xf32>
        %u = memref.load %B[%c0] : memref<1xf32>
        %z = arith.mulf %u, %b : f32
        memref.store %z, %C[%i] : memref<{LENGTH}xf32>
        scf.yield %b, %a : f32, f32
      }} {{async_pipe.stage = [0, 0, {stages - 1}, {stages - 1}],
          async_pipe.order = [0, 1, 2, 3]{options}}}
      memref.store %r#0, %D[%c0] : memref<{LENGTH}xf32>
      memref.store %r#1, %D[%c1] : memref<{LENGTH}xf32>
      return
    }}"""


def earlier_iterations(stages: int, trips: int, options: str) -> str:
    """C[%before] = A[%i] A[%before_that], with the induction variables of one and of two
    iterations before; D gets what the loop leaves of them."""
    return f"""
    func.func @f(%A: memref<{LENGTH}xf32> {{llvm.noalias}}, %C: memref<{LENGTH}xf32> {{llvm.noalias}},
                 %D: memref<{LENGTH}xf32> {{llvm.noalias}}, %n: index) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %c12 = arith.constant 12 : index
      %c13 = arith.constant 13 : index
      %trips = arith.constant {2 * trips} : index
      %upper = arith.muli %n, %c2 : index
      %B = memref.alloca() : memref<1xf32>
      %x = arith.constant 1.0 : f32
      %r:2 = scf.for %i = %c0 to {"%upper" if options else "%trips"} step %c2
          iter_args(%before = %c12, %before_that = %c13) -> (index, index) {{
        %v = memref.load %A[%i] : memref<{LENGTH}xf32>
        memref.store %v, %B[%c0] : memref<1xf32>
        %u = memref.load %B[%c0] : memref<1xf32>
        %w = memref.load %A[%before_that] : memref<{LENGTH}xf32>
        %z = arith.mulf %u, %w : f32
        memref.store %z, %C[%before] : memref<{LENGTH}xf32>
        scf.yield %i, %before : index, index
      }} {{async_pipe.stage = [0, 0, {stages - 1}, {stages - 2}, {stages - 1}],
          async_pipe.order = [0, 1, 2, 3, 4], async_pipe.independent{options}}}
      memref.store %x, %D[%r#0] : memref<{LENGTH}xf32>
      %y = memref.load %A[%r#1] : memref<{LENGTH}xf32>
      memref.store %y, %D[%c1] : memref<{LENGTH}xf32>
      return
    }}"""


FORMS = pytest.mark.parametrize(
    "options",
    [
        "",
        ', async_pipe.short_trip = "version"',
        ', async_pipe.short_trip = "predicate"',
        ', async_pipe.epilogue = "predicate"',
    ],
)


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("trips", [1, 4, 5, 8])
@FORMS
def test_swapped_values_are_those_of_their_iteration(trips, stages, options):
    assert_means_the_same(program(trips, stages, options), trips)


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("trips", [0, 1, 4, 6])
@FORMS
def test_carried_induction_variables_are_those_of_earlier_iterations(trips, stages, options):
    assert_means_the_same(earlier_iterations(stages, trips, options), trips)


def assert_means_the_same(text: str, trips: int) -> None:
    """The machine finds the same before and after pipelining."""
    arguments = [np.arange(LENGTH, dtype=np.float32) + 3, *np.zeros((2, LENGTH), np.float32), trips]
    with new_context():
        expected = machine.run(ir.Module.parse(text), "f", arguments)
        module = ir.Module.parse(text)
        mlir_async_pipe.pipeline(module)
        result = machine.run(module, "f", arguments)
    for wanted, found in zip(expected.arrays[:3], result.arrays[:3], strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("trips", [4, 7])
def test_what_a_later_stage_uses_too_is_made_for_the_next_iteration_of_an_earlier_one(
    stages, trips
):
    """C[%next] = A[%at], where %next = %at + 2 is the next iteration's %at, in stage 0."""
    last = stages - 1
    text = f"""
    func.func @f(%A: memref<{LENGTH}xf32> {{llvm.noalias}}, %C: memref<{LENGTH + 2}xf32> {{llvm.noalias}}) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %trips = arith.constant {trips} : index
      %B = memref.alloca() : memref<1xf32>
      %r = scf.for %i = %c0 to %trips step %c1 iter_args(%at = %c1) -> (index) {{
        %v = memref.load %A[%at] : memref<{LENGTH}xf32>
        memref.store %v, %B[%c0] : memref<1xf32>
        %next = arith.addi %at, %c2 : index
        %u = memref.load %B[%c0] : memref<1xf32>
        memref.store %u, %C[%next] : memref<{LENGTH + 2}xf32>
        scf.yield %next : index
      }} {{async_pipe.stage = [0, 0, {last}, {last}], async_pipe.order = [0, 1, 2, 3],
          async_pipe.independent}}
      return
    }}"""
    given = [np.arange(1, LENGTH + 1, dtype=np.float32), np.zeros(LENGTH + 2, np.float32)]
    with new_context():
        module = ir.Module.parse(text)
        before = machine.run(module, "f", given)
        mlir_async_pipe.pipeline(module)
        after = machine.run(module, "f", given)
    assert before.arrays[1].any()
    assert after.arrays[1].tolist() == before.arrays[1].tolist()
