"""Carried values that swap places, used in an early stage and after the loop.

Covers: expand/write/recurrences.py, expand/write/sources.py
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


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("trips", [1, 4, 5, 8])
@pytest.mark.parametrize(
    "options",
    [
        "",
        ', async_pipe.short_trip = "version"',
        ', async_pipe.short_trip = "predicate"',
        ', async_pipe.epilogue = "predicate"',
    ],
)
def test_swapped_values_are_those_of_their_iteration(trips, stages, options):
    arguments = [np.arange(LENGTH, dtype=np.float32) + 3, *np.zeros((2, LENGTH), np.float32), trips]
    text = program(trips, stages, options)
    with new_context():
        expected = machine.run(ir.Module.parse(text), "f", arguments)
        module = ir.Module.parse(text)
        mlir_async_pipe.pipeline(module)
        result = machine.run(module, "f", arguments)
    for wanted, found in zip(expected.arrays[:3], result.arrays[:3], strict=True):
        np.testing.assert_array_equal(found, wanted)
