// With the option, arguments are different memory; with llvm.noalias they are anyway.
// RUN: async-pipe-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(async-pipe-check{assume-noalias-arguments})'

func.func @two_arguments(%A: memref<8xf32>, %B: memref<8xf32>, %x: f32) {
  %c0 = arith.constant 0 : index
  %s = memref.alloc() : memref<8xf32, 3>
  %a = nvgpu.device_async_copy %A[%c0], %s[%c0], 4 : memref<8xf32> to memref<8xf32, 3>
  nvvm.cp.async.commit.group
  memref.store %x, %B[%c0] : memref<8xf32>
  nvvm.cp.async.wait.group 0
  return
}
