// What is written is compared with what was read: pipeline, lowering and LLVM in one.

// RUN: async-pipe-opt %s --async-pipe --target=nvvm:sm_80 --emit=ptx --validate=sum 2>&1 | FileCheck %s
// RUN: not async-pipe-opt %s --async-pipe --target=nvvm:sm_80 --emit=ptx --validate=typo 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: async-pipe-opt %s --async-pipe --target=nvvm:sm_80 --emit=ptx --validate=sum --check-only 2>&1 | FileCheck %s --check-prefix=NONE
// REQUIRES: bindings-numba-cuda-mlir

// CHECK: remark: the PTX of 'sum' computes what it did: 16 elements are the same terms of its input [equal]
// CHECK: .entry sum
// No PTX is made: the IR is compared.
// NONE: remark: 'sum' computes what it did: 16 elements
// NAME: error: no kernel 'typo' in the module before [no-function]
// NAME-NOT: .entry
gpu.module @kernels {
  gpu.func @sum(%in: memref<8xf32> {llvm.noalias}, %out: memref<8xf32> {llvm.noalias})
      workgroup(%tile: memref<1xf32, #gpu.address_space<workgroup>>)
      kernel attributes {known_block_size = array<i32: 1, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %two = arith.constant 2.0 : f32
    scf.for %i = %c0 to %c8 step %c1 {
      %copy = nvgpu.device_async_copy %in[%i], %tile[%c0], 1 : memref<8xf32> to memref<1xf32, #gpu.address_space<workgroup>>
      %group = nvgpu.device_async_create_group %copy
      nvgpu.device_async_wait %group
      %value = memref.load %tile[%c0] : memref<1xf32, #gpu.address_space<workgroup>>
      %twice = arith.mulf %value, %two : f32
      memref.store %twice, %out[%i] : memref<8xf32>
    } {async_pipe.num_stages = 2 : i64}
    gpu.return
  }
}
