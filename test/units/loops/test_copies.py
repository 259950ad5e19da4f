"""Which statements `num_stages` takes for copies from global to workgroup memory.

Covers: facts/loops/statements.py
"""

from __future__ import annotations

import pytest

from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import ancestors
from mlir_async_pipe.facts.loops.statements import copies_of, find_loops, read_body

LOOP = """
#wg = #gpu.address_space<workgroup>
func.func @f(%A : memref<64xf32>, %C : memref<64xf32>, %inside : i1, %at : index) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant 0.0 : f32
  %tile = memref.alloc() : memref<4xf32, #wg>
  scf.for %i = %c0 to %c64 step %c1 {{
    {body}
    %x = memref.load %tile[%c0] : memref<4xf32, #wg>
    memref.store %x, %C[%i] : memref<64xf32>
  }} {{async_pipe.num_stages = 2 : i64}}
  return
}}
"""
LOAD = "%v = memref.load %A[%i] : memref<64xf32>"
STORE = "memref.store %v, %tile[%c0] : memref<4xf32, #wg>"
GUARDED_LOAD = """%v = scf.if %inside -> (f32) {
      %loaded = memref.load %A[%i] : memref<64xf32>
      scf.yield %loaded : f32
    } else { scf.yield %zero : f32 }"""
SELECTED = f"""{LOAD}
    %w = arith.select %inside, %v, %zero : f32
    memref.store %w, %tile[%c0] : memref<4xf32, #wg>"""
ASYNC_COPY = (
    "%t = nvgpu.device_async_copy %A[%i], %tile[%c0], 1 : memref<64xf32> to memref<4xf32, #wg>"
)

COPIES = {
    "async copy": (ASYNC_COPY, [0]),
    "async copy under a guard": (f"scf.if %inside {{ {ASYNC_COPY} }}", [0]),
    "grouped async copies": (f"scf.execute_region no_inline {{ {ASYNC_COPY}\n scf.yield }}", [0]),
    "load and store": (f"{LOAD}\n{STORE}", [0, 1]),
    "selected load": (SELECTED, [0, 1]),
    "load under a guard": (f"{GUARDED_LOAD}\n{STORE}", [0, 1]),
}
OTHERS = {
    "load with another use": f"{LOAD}\n{STORE}\nmemref.store %v, %C[%i] : memref<64xf32>",
    "computed value": f"{LOAD}\n%w = arith.addf %v, %v : f32\n"
    "memref.store %w, %tile[%c0] : memref<4xf32, #wg>",
    "selected from two loads": f"""{LOAD}
    %u = memref.load %C[%i] : memref<64xf32>
    %w = arith.select %inside, %v, %u : f32
    memref.store %w, %tile[%c0] : memref<4xf32, #wg>""",
    "selected value with another use": f"{SELECTED}\nmemref.store %w, %C[%i] : memref<64xf32>",
    "load from workgroup memory": f"%v = memref.load %tile[%c1] : memref<4xf32, #wg>\n{STORE}",
    "guard that loads twice": """%v = scf.if %inside -> (f32) {
      %p = memref.load %A[%i] : memref<64xf32>
      %q = memref.load %A[%c0] : memref<64xf32>
      %sum = arith.addf %p, %q : f32
      scf.yield %sum : f32
    } else { scf.yield %zero : f32 }\n"""
    + STORE,
    "load outside of the loop": "memref.store %zero, %tile[%c0] : memref<4xf32, #wg>",
}


def copies(body: str) -> list[int]:
    """The numbers of the statements that copy."""
    module = ir.Module.parse(LOOP.format(body=body), new_context())
    (loop,) = find_loops(module.operation)
    return [statement.number for statement in copies_of(read_body(loop)).statements]


@pytest.mark.parametrize("kind", COPIES)
def test_copies_are_found(kind):
    body, numbers = COPIES[kind]
    assert copies(body) == numbers


@pytest.mark.parametrize("kind", OTHERS)
def test_what_is_no_copy_is_left_alone(kind):
    assert copies(OTHERS[kind]) == []


ROWS = "scf.for %r = %c0 to %c64 step %c1 {{ {body} }}"
TRIED = {
    "a loop that copies is a copy of the loop around it": (f"{LOAD}\n{STORE}", 1),
    "a loop that computes is tried itself": (
        f"{LOAD}\n%w = arith.addf %v, %v : f32\nmemref.store %w, %C[%r] : memref<64xf32>",
        2,
    ),
}


@pytest.mark.parametrize("kind", TRIED)
def test_the_loop_to_try_is_the_innermost_that_does_more_than_copy(kind):
    body, depth = TRIED[kind]
    text = LOOP.format(body=ROWS.format(body=body)).replace("{async_pipe.num_stages = 2 : i64}", "")
    module = ir.Module.parse(text, new_context())
    (loop,) = find_loops(module, annotated=False)
    assert len([op for op in ancestors(loop) if op.name == "scf.for"]) == depth - 1
