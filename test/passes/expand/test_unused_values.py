"""What the loop carries, where pure ops that nobody uses read it too.

Covers: pipeliner/plan/units.py
"""

from __future__ import annotations

import numpy as np
import pytest

import mlir_async_pipe
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context

LENGTH, TRIPS = 16, 6

# Ops of the body that read %next, and whose own values nobody reads.
UNUSED = {
    "none": "",
    "one": "%d = arith.addf %next, %v : f32",
    "a chain": """%d = arith.addf %next, %v : f32
                  %e = arith.mulf %d, %d : f32""",
    "a select of a constant": "%d = arith.select %true, %next, %v : f32",
    "a branch of a constant": """%d = scf.if %true -> (f32) {
          %e = arith.addf %v, %v : f32
          scf.yield %e : f32
        } else { scf.yield %v : f32 } {async_pipe.stage = 1, async_pipe.order = 2}
        %g = arith.select %true, %d, %next : f32""",
    "a switch": """%d = scf.index_switch %i {async_pipe.stage = 1, async_pipe.order = 2} -> f32
        case 0 { scf.yield %v : f32 }
        default { scf.yield %x : f32 }
        %g = arith.addf %d, %next : f32""",
    "a loop": """%d = scf.for %n = %c0 to %c1 step %c1 iter_args(%e = %v) -> (f32) {
          %f = arith.addf %e, %e : f32
          scf.yield %f : f32
        } {async_pipe.stage = 1, async_pipe.order = 2}
        %g = arith.addf %d, %next : f32""",
    "a while loop": """%d = scf.while (%e = %v) : (f32) -> f32 {
          scf.condition(%false) %e : f32
        } do {
        ^bb0(%f: f32):
          scf.yield %f : f32
        } attributes {async_pipe.stage = 1, async_pipe.order = 2}
        %g = arith.addf %d, %next : f32""",
}


def program(unused: str, yielded: str) -> str:
    """C[i] = A[i], beside a product over the iterations that only the result of the loop needs."""
    return f"""
    func.func @f(%A: memref<{LENGTH}xf32> {{llvm.noalias}}, %C: memref<{LENGTH}xf32> {{llvm.noalias}},
                 %D: memref<2xf32> {{llvm.noalias}}) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %trips = arith.constant {TRIPS} : index
      %true = arith.constant true
      %false = arith.constant false
      %x = arith.constant 1.0 : f32
      %y = arith.constant 2.0 : f32
      %r:2 = scf.for %i = %c0 to %trips step %c1 iter_args(%a = %x, %b = %x) -> (f32, f32) {{
        %v = memref.load %A[%i] {{async_pipe.stage = 0, async_pipe.order = 0}} : memref<{LENGTH}xf32>
        %next = arith.mulf %a, %y : f32
        {unused}
        memref.store %v, %C[%i] {{async_pipe.stage = 2, async_pipe.order = 1}} : memref<{LENGTH}xf32>
        scf.yield {yielded} : f32, f32
      }}
      memref.store %r#0, %D[%c0] : memref<2xf32>
      memref.store %r#1, %D[%c1] : memref<2xf32>
      return
    }}"""


@pytest.mark.parametrize("yielded", ["%next, %next", "%next, %a", "%next, %b"])
@pytest.mark.parametrize("unused", UNUSED.values(), ids=UNUSED)
def test_what_is_carried_is_made_though_unused_ops_read_it(unused, yielded):
    given = np.arange(LENGTH, dtype=np.float32) + 3
    with new_context():
        module = ir.Module.parse(program(unused, yielded))
        outputs = []
        for _ in range(2):
            c, d = np.zeros(LENGTH, np.float32), np.zeros(2, np.float32)
            outputs.append(machine.run(module, "f", [given, c, d]).arrays)
            mlir_async_pipe.pipeline(module)
        assert module.operation.verify()
    for before, after in zip(*outputs, strict=True):
        np.testing.assert_array_equal(before, after)
