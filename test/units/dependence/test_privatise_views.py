"""Writes through another view of a buffer are not where the same subscripts of the buffer are.

Covers: dependence/privatise.py, dependence/regions.py
"""

from __future__ import annotations

import numpy as np
import pytest

import mlir_async_pipe
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.session.diagnostics import PipelineError

WG = "#gpu.address_space<workgroup>"


@pytest.mark.parametrize(
    ("view", "kind", "at"),
    [
        (
            f"memref.expand_shape %B [[0, 1]] output_shape [1, 4] : memref<4xf32, {WG}> "
            f"into memref<1x4xf32, {WG}>",
            f"memref<1x4xf32, {WG}>",
            "%c0, %c1",
        ),
        (
            f"memref.reinterpret_cast %B to offset: [2], sizes: [2], strides: [1] : "
            f"memref<4xf32, {WG}> to memref<2xf32, strided<[1], offset: 2>, {WG}>",
            f"memref<2xf32, strided<[1], offset: 2>, {WG}>",
            "%c0",
        ),
    ],
    ids=["other rank", "other offset"],
)
def test_a_loop_that_writes_through_a_view_is_refused_or_right(view, kind, at):
    text = f"""
    func.func @f(%A: memref<8xf32> {{llvm.noalias}}, %C: memref<8xf32> {{llvm.noalias}}) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %c8 = arith.constant 8 : index
      %B = memref.alloc() : memref<4xf32, {WG}>
      %V = {view}
      scf.for %i = %c0 to %c8 step %c1 {{
        %x = memref.load %A[%i] : memref<8xf32>
        memref.store %x, %V[{at}] : {kind}
        %y = memref.load %B[{"%c1" if "," in at else "%c2"}] : memref<4xf32, {WG}>
        memref.store %y, %C[%i] : memref<8xf32>
      }} {{async_pipe.stage = [0, 0, 1, 1], async_pipe.order = [0, 1, 2, 3],
          async_pipe.async_stages = [0]}}
      return
    }}"""
    arrays = [np.arange(8, dtype=np.float32), np.zeros(8, np.float32)]
    with new_context():
        module = ir.Module.parse(text)
        try:
            mlir_async_pipe.pipeline(module)
        except PipelineError as error:
            assert error.code in ("not-privatisable", "escapes")
        result = machine.run(module, "f", arrays, completion="late")
        np.testing.assert_array_equal(result.arrays[1], arrays[0])
