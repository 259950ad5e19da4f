// A wait whose count is not below the outstanding marks never blocks, and goes.
//
// RUN: async-pipe-opt %s --async-pipe-simplify-waits=chip=gfx950 | FileCheck %s

#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  // CHECK-LABEL: gpu.func @never_blocks
  // CHECK-NOT: rocdl.wait.asyncmark
  // CHECK-COUNT-2: rocdl.asyncmark
  // CHECK-NOT: rocdl.wait.asyncmark 4
  // CHECK: rocdl.wait.asyncmark 0
  // CHECK-NEXT: memref.load
  gpu.func @never_blocks(%G: memref<8x64xf32> {llvm.noalias}, %C: memref<64xf32> {llvm.noalias})
      workgroup(%L: memref<8x64xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %t = gpu.thread_id x
    rocdl.wait.asyncmark 3
    amdgpu.gather_to_lds async %G[%c0, %t], %L[%c0, %c0] : f32, memref<8x64xf32>, memref<8x64xf32, #wg>
    rocdl.asyncmark
    amdgpu.gather_to_lds async %G[%c1, %t], %L[%c1, %c0] : f32, memref<8x64xf32>, memref<8x64xf32, #wg>
    rocdl.asyncmark
    rocdl.wait.asyncmark 4
    rocdl.wait.asyncmark 0
    %x = memref.load %L[%c0, %t] : memref<8x64xf32, #wg>
    memref.store %x, %C[%t] : memref<64xf32>
    gpu.return
  }
}
