"""Barriers that reduce a predicate over the block: they stay in the loop, for the value's sake.

Covers: facts/loops/statements.py, machine/dialects/nvvm.py
"""

from __future__ import annotations

import numpy as np
import pytest

import mlir_async_pipe
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import walk

THREADS, ROWS = 64, 9
TILE = f"memref<{THREADS}xf32, #gpu.address_space<workgroup>>"
FROM, TO = f"memref<{ROWS}x{THREADS}xf32>", f"memref<{ROWS}x{THREADS}xi32>"


def kernel(barrier: str, attributes: str) -> str:
    """D[i, t] = A[i, 63 - t] + (what the barrier makes of A[i, …] > 0)."""
    return f"""
gpu.module @m {{
  gpu.func @k(%A: {FROM} {{llvm.noalias}}, %D: {TO} {{llvm.noalias}}, %n: index)
      workgroup(%s: {TILE} {{llvm.align = 16 : i64}})
      kernel attributes {{known_block_size = array<i32: {THREADS}, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c63 = arith.constant 63 : index
    %z = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    %o = arith.subi %c63, %t : index
    scf.for %i = %c0 to %n step %c1 {{
      %a = memref.load %A[%i, %t] : {FROM}
      memref.store %a, %s[%t] : {TILE}
      %p = arith.cmpf ogt, %a, %z : f32
      %pi = arith.extui %p : i1 to i32
      {barrier}
      %v = memref.load %s[%o] : {TILE}
      %vi = arith.fptosi %v : f32 to i32
      %x = arith.addi %vi, %met : i32
      memref.store %x, %D[%i, %t] : {TO}
      gpu.barrier
    }} {{{attributes}}}
    gpu.return
  }}
}}"""


def reducing(kind: str) -> str:
    return f"%met = nvvm.barrier #nvvm.reduction<{kind}> %pi -> i32"


WITHOUT = "nvvm.barrier\n%met = arith.constant 0 : i32"
AHEAD = "async_pipe.num_stages = 3 : i64"
GIVEN = "async_pipe.stage = [0, 1, 1, 1, 1]"
PREDICATED = f'{GIVEN}, async_pipe.epilogue = "predicate", async_pipe.short_trip = "predicate"'


def run(module: ir.Module, trips: int) -> machine.Result:
    values = np.random.default_rng(0).integers(-3, 4, (ROWS, THREADS)).astype(np.float32)
    values[0], values[1] = 1, -1
    arguments = [values, np.zeros((ROWS, THREADS), np.int32), trips]
    return machine.run(module, "k", arguments, threads=THREADS, completion="late")


@pytest.mark.parametrize("trips", [0, 1, 2, 9])
@pytest.mark.parametrize("attributes", [AHEAD, GIVEN, PREDICATED])
@pytest.mark.parametrize("kind", ["popc", "and", "or"])
def test_each_iteration_is_given_what_its_barrier_makes(kind, attributes, trips):
    text = kernel(reducing(kind), attributes)
    with new_context():
        expected = run(ir.Module.parse(text), trips)
        module = ir.Module.parse(text)
        mlir_async_pipe.pipeline(module)
        result = run(module, trips)
    assert not result.races
    np.testing.assert_array_equal(result.arrays[1], expected.arrays[1])


@pytest.mark.parametrize(("barrier", "kept"), [(reducing("popc"), True), (WITHOUT, False)])
def test_only_a_barrier_with_a_value_stays(barrier, kept):
    with new_context():
        module = ir.Module.parse(kernel(barrier, AHEAD))
        mlir_async_pipe.pipeline(module)
        loop = next(op for op in walk(module.operation) if op.name == "scf.for")
        assert ("nvvm.barrier" in str(loop)) == kept


def test_the_machine_reduces_predicates():
    with new_context():
        counted = run(ir.Module.parse(kernel(reducing("popc"), "")), 2).arrays[1]
        every = run(ir.Module.parse(kernel(reducing("and"), "")), 2).arrays[1]
    assert counted[0, 0] == 1 + THREADS and counted[1, 0] == -1
    assert every[0, 0] == 2 and every[1, 0] == -1
