"""Ops that access several versioned buffers, or one without subscripts: all of their accesses use
the slot of their iteration.

Each loop takes A[i] through workgroup buffers to C[i], with three stages.

Covers: pipeliner/expand/write/versioned_buffers.py
"""

from __future__ import annotations

import numpy as np
import pytest

import mlir_async_pipe
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context

LENGTH = 8


def copied(source: str, destination: str) -> str:
    """An asynchronous copy of one float, waited for at once."""
    return f"""%t = nvgpu.device_async_copy {source}, {destination}
        %g = nvgpu.device_async_create_group %t
        nvgpu.device_async_wait %g"""


BUFFER = "memref<1xf32, 3>"
POINT = "memref<f32, 3>"
GLOBAL = f"memref<{LENGTH}xf32>"
FROM_GLOBAL = copied("%A[%i]", f"%b[%c0], 1 : {GLOBAL} to {BUFFER}")
BETWEEN = copied("%b[%c0]", f"%c[%c0], 1 : {BUFFER} to {BUFFER}")
TO_POINT = copied("%A[%i]", f"%p[], 1 : {GLOBAL} to {POINT}")
FROM_POINT = copied("%p[]", f"%c[%c0], 1 : {POINT} to {BUFFER}")
WHOLE = f"memref.copy %b, %c : {BUFFER} to {BUFFER}"
SUM = f"""%x = memref.load %b[%c0] : {BUFFER}
        %y = memref.load %c[%c0] : {BUFFER}
        %z = arith.addf %x, %y : f32
        memref.store %z, %C[%i] : {GLOBAL}"""
LAST = f"""%y = memref.load %c[%c0] : {BUFFER}
        memref.store %y, %C[%i] : {GLOBAL}"""


def program(parts: list[str], stages: list[int], async_stages: list[int]) -> str:
    """The parts in this order, as statements of these stages."""
    named = [part.replace("%t", f"%t{n}").replace("%g", f"%g{n}") for n, part in enumerate(parts)]
    body = "\n        ".join(named)
    return f"""
    func.func @f(%A: {GLOBAL} {{llvm.noalias}}, %C: {GLOBAL} {{llvm.noalias}}, %n: index)
        attributes {{gpu.known_block_size = array<i32: 1, 1, 1>}} {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %b = memref.alloc() {{async_pipe.private}} : {BUFFER}
      %c = memref.alloc() {{async_pipe.private}} : {BUFFER}
      %p = memref.alloc() : {POINT}
      scf.for %i = %c0 to %n step %c1 {{
        {body}
      }} {{async_pipe.stage = {stages}, async_pipe.async_stages = {async_stages}}}
      return
    }}"""


@pytest.mark.parametrize("trips", [0, 1, 2, 3, 7])
@pytest.mark.parametrize(
    ("parts", "stages", "async_stages"),
    [
        pytest.param(
            [FROM_GLOBAL, BETWEEN, SUM], [0, 1, 2, 2, 2], [0, 1], id="two-with-subscripts"
        ),
        pytest.param([FROM_GLOBAL, WHOLE, SUM], [0, 1, 2, 2, 2], [0], id="two-whole"),
        pytest.param([TO_POINT, FROM_POINT, LAST], [0, 1, 2, 2], [0, 1], id="without-subscripts"),
    ],
)
def test_every_access_uses_the_slot_of_its_iteration(parts, stages, async_stages, trips):
    text = program(parts, stages, async_stages)
    arguments = [np.arange(LENGTH, dtype=np.float32) + 3, np.zeros(LENGTH, np.float32), trips]
    with new_context():
        expected = machine.run(ir.Module.parse(text), "f", arguments)
        module = ir.Module.parse(text)
        mlir_async_pipe.pipeline(module)
        assert "memref<2x1xf32, 3>" in str(module) or "memref<2xf32, 3>" in str(module)
        result = machine.run(module, "f", arguments, completion="late")
    np.testing.assert_array_equal(result.arrays[1], expected.arrays[1])
