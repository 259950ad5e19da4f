"""What a name means is what the nearest module around it declares.

Covers: machine/decode.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.machine_programs import parse
from mlir_async_pipe import machine
from mlir_async_pipe.session.diagnostics import MachineError


def gpu_module(name: str, kernel: str, number: float, threads: int = 4) -> str:
    """A kernel that adds up what a global, a global of LLVM, and a function of its module give."""
    return f"""gpu.module @{name} {{
      memref.global "private" @g : memref<4xf32> = dense<{number}>
      llvm.mlir.global internal constant @h(dense<{number}> : tensor<4xf32>) : !llvm.array<4 x f32>
      func.func @f() -> f32 {{
        %c = arith.constant {number} : f32
        return %c : f32
      }}
      gpu.func @{kernel}(%out: memref<4xf32>) kernel
          attributes {{known_block_size = array<i32: {threads}, 1, 1>}} {{
        %t = gpu.thread_id x
        %s = memref.get_global @g : memref<4xf32>
        %a = memref.load %s[%t] : memref<4xf32>
        %p = llvm.mlir.addressof @h : !llvm.ptr
        %b = llvm.load %p : !llvm.ptr -> f32
        %c = func.call @f() : () -> f32
        %ab = arith.addf %a, %b : f32
        %abc = arith.addf %ab, %c : f32
        memref.store %abc, %out[%t] : memref<4xf32>
        gpu.return
      }} }}"""


def test_two_modules_declare_the_same_names() -> None:
    module = parse(gpu_module("m", "k1", 1.0) + gpu_module("n", "k2", 10.0))
    for kernel, expected in (("k1", 3), ("k2", 30)):
        run = machine.run(module, kernel, [np.zeros(4, np.float32)])
        assert (run.arrays[0] == expected).all()


def test_two_kernels_of_one_name_are_refused() -> None:
    module = parse(gpu_module("m", "k", 1.0) + gpu_module("n", "k", 10.0))
    with pytest.raises(MachineError) as caught:
        machine.run(module, "k", [np.zeros(4, np.float32)])
    assert caught.value.code == "no-function" and "2 functions" in str(caught.value)


def test_a_kernel_is_meant_where_a_function_of_the_host_has_its_name() -> None:
    host = "func.func @k(%x: i32) { return }"
    for text in (host + gpu_module("m", "k", 2.0), gpu_module("m", "k", 2.0) + host):
        run = machine.run(parse(text), "k", [np.zeros(4, np.float32)])
        assert (run.arrays[0] == 6).all()
