"""Calls in pipelined loops: a known function touches what it is handed, others may touch anything.

Covers: pipeliner/dependence/regions.py, vocabulary/control_flow.py
"""

from __future__ import annotations

import numpy as np
import pytest

import mlir_async_pipe
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.session.diagnostics import PipelineError

WG = "#gpu.address_space<workgroup>"


def program(callee: str) -> str:
    """Copies of rows, each handed to @put(to, row, value)."""
    return f"""
    memref.global "private" @count : memref<1xf32>
    func.func private @other()
    func.func private @put(%to: memref<8xf32>, %row: index, %v: f32) {callee}
    func.func @f(%A: memref<8xf32> {{llvm.noalias}}, %C: memref<8xf32> {{llvm.noalias}}) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c8 = arith.constant 8 : index
      %B = memref.alloc() : memref<1xf32, {WG}>
      scf.for %i = %c0 to %c8 step %c1 {{
        %token = nvgpu.device_async_copy %A[%i], %B[%c0], 1
          : memref<8xf32> to memref<1xf32, {WG}>
        %group = nvgpu.device_async_create_group %token
        nvgpu.device_async_wait %group
        %v = memref.load %B[%c0] : memref<1xf32, {WG}>
        func.call @put(%C, %i, %v) : (memref<8xf32>, index, f32) -> ()
      }} {{async_pipe.stage = [0, 2, 2], async_pipe.order = [0, 1, 2],
          async_pipe.async_stages = [0]}}
      return
    }}"""


STORE = "memref.store %v, %to[%row] : memref<8xf32>"
ZERO = "%c0 = arith.constant 0 : index"


@pytest.mark.parametrize(
    "callee",
    [
        f"{{ {STORE} return }}",
        f"{{ %two = arith.addf %v, %v : f32 {STORE.replace('%v', '%two')} return }}",
    ],
    ids=["store", "sum"],
)
def test_a_call_that_stores_what_it_is_handed_is_pipelined(callee):
    arrays = [np.arange(8, dtype=np.float32) + 1, np.zeros(8, np.float32)]
    with new_context():
        expected = machine.run(ir.Module.parse(program(callee)), "f", arrays)
        module = ir.Module.parse(program(callee))
        report = mlir_async_pipe.pipeline(module)
        assert [loop.stages for loop in report.of("loops")] == [3]
        result = machine.run(module, "f", arrays, completion="late")
    assert result.races == ()
    np.testing.assert_array_equal(result.arrays[1], expected.arrays[1])


@pytest.mark.parametrize(
    "callee",
    [
        "",
        "{ func.call @other() : () -> () return }",
        "{ gpu.barrier return }",
        "{ nvvm.cp.async.wait.group 0 return }",
        f"{{ {ZERO} %g = memref.get_global @count : memref<1xf32> "
        "memref.store %v, %g[%c0] : memref<1xf32> return }",
    ],
    ids=["no body", "calls on", "barrier", "wait", "global"],
)
def test_a_call_of_which_less_is_known_is_refused(callee):
    with new_context(), pytest.raises(PipelineError) as caught:
        mlir_async_pipe.pipeline(ir.Module.parse(program(callee)))
    assert caught.value.code in ("unproven-independence", "dependence-violated", "opaque-barrier")
