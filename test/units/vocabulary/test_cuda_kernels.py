"""A kernel of CUTLASS' `cuda` dialect is a function that all threads of a block enter.

Covers: vocabulary/control_flow.py, bindings/raw_ops.py
"""

from __future__ import annotations

import pytest

import mlir_async_pipe
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context

# Each of 128 threads reads what another one has stored.
KERNEL = """
module attributes {gpu.container_module} {
  gpu.module @kernels {
    llvm.mlir.global internal @tile() {addr_space = 3 : i32} : !llvm.array<128 x i32>
    "cuda.kernel"() ({
      %t = nvvm.read.ptx.sreg.tid.x : i32
      %last = arith.constant 127 : i32
      %other = arith.subi %last, %t : i32
      %tile = llvm.mlir.addressof @tile : !llvm.ptr<3>
      %mine = llvm.getelementptr %tile[%t] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
      llvm.store %t, %mine : i32, !llvm.ptr<3>
      BETWEEN
      %theirs = llvm.getelementptr %tile[%other] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
      %value = llvm.load %theirs : !llvm.ptr<3> -> i32
      "cuda.return"() : () -> ()
    }) {function_type = () -> (), gpu.kernel, nvvm.reqntid = array<i32: 128, 1, 1>,
        sym_name = "reversed"} : () -> ()
  }
}
"""


@pytest.mark.parametrize("between, unsafe", [("gpu.barrier", 0), ("", 1)])
def test_its_threads_are_those_of_a_block(between: str, unsafe: int) -> None:
    with new_context():
        module = ir.Module.parse(KERNEL.replace("BETWEEN", between))
        (summary,) = mlir_async_pipe.check(module, "nvvm:sm_80").of("checks")
        assert (summary.function, summary.unsafe, summary.unknown) == ("reversed", unsafe, 0)
        assert bool(machine.run(module, "reversed", [], threads=128).races) == bool(unsafe)
