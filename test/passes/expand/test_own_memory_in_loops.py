"""Loops that keep something in a thread's own memory: it orders nothing between threads, and has no
place for slots unless it is a memref.

Covers: pipeliner/dependence/memory_dependences.py, pipeliner/plan/barrier_pairs.py,
pipeliner/normalise/own_buffers.py, facts/values/memory_roots.py
"""

from __future__ import annotations

import numpy as np
import pytest

import mlir_async_pipe
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context

KERNEL = """
gpu.module @m {{
  gpu.func @k(%A: memref<1024xi32> {{llvm.noalias}}, %C: memref<1024xi32> {{llvm.noalias}},
      %q: !llvm.ptr {{llvm.byval = i32}}) workgroup(%s: memref<64xi32, 3>) kernel
      attributes {{known_block_size = array<i32: 64, 1, 1>}} {{
    %t = gpu.thread_id x
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %c63 = arith.constant 63 : index
    %c64 = arith.constant 64 : index
    %one = llvm.mlir.constant(1 : i32) : i32
    %o = arith.subi %c63, %t : index
    %a = llvm.alloca %one x i32 : (i32) -> !llvm.ptr
    %m = memref.alloca() : memref<1xi32>
    scf.for %k = %c0 to %c16 step %c1 {{
      %b = arith.muli %k, %c64 : index
      %p = arith.addi %b, %t : index
      %v = memref.load %A[%p] : memref<1024xi32>
      memref.store %v, %s[%t] : memref<64xi32, 3>
      gpu.barrier
      %w = memref.load %s[%o] : memref<64xi32, 3>
      {keep}
      memref.store %y, %C[%p] : memref<1024xi32>
      gpu.barrier
    }} {{async_pipe.num_stages = 3 : i64}}
    gpu.return
  }}
}}
"""
KEPT = {
    "nowhere": "%y = arith.addi %w, %w : i32",
    "on the stack": "llvm.store %w, %a : i32, !llvm.ptr\n%x = llvm.load %a : !llvm.ptr -> i32\n"
    "%y = arith.addi %x, %x : i32",
    "in a copy by value": "llvm.store %w, %q : i32, !llvm.ptr\n"
    "%x = llvm.load %q : !llvm.ptr -> i32\n%y = arith.addi %x, %x : i32",
    "in a memref": "memref.store %w, %m[%c0] : memref<1xi32>\n"
    "%x = memref.load %m[%c0] : memref<1xi32>\n%y = arith.addi %x, %x : i32",
}


@pytest.mark.parametrize("kept", KEPT)
def test_a_loop_is_pipelined_as_without_its_own_memory(kept: str) -> None:
    data, out = np.arange(1024, dtype=np.int32), np.zeros(1024, np.int32)
    with new_context() as context:
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(KERNEL.format(keep=KEPT[kept]))
        mlir_async_pipe.pipeline(module, target="nvvm:sm_80")
        # One an iteration, and one before each of the two steps of the epilogue.
        assert str(module).count("gpu.barrier") == 3
        result = machine.run(module, "k", [data, out, np.zeros(1, np.int32)], threads=64)
    assert result.race_codes == frozenset()
    np.testing.assert_array_equal(
        result.arrays[1].reshape(16, 64), 2 * data.reshape(16, 64)[:, ::-1]
    )
