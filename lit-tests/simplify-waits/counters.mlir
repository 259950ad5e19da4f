// Counters of AMD count copies, whatever groups they are in: such a wait is not redundant since there is no group.
//
// RUN: async-pipe-opt %s --async-pipe-simplify-waits | FileCheck %s

#wg = #gpu.address_space<workgroup>
#global = #gpu.address_space<global>

// CHECK-LABEL: gpu.func @copy
// CHECK: amdgpu.global_load_async_to_lds
// CHECK: rocdl.s.wait.asynccnt 0
// CHECK: rocdl.s.wait.tensorcnt 0
gpu.module @kernels {
  gpu.func @copy(%from: memref<128xf32, #global>) workgroup(%tile: memref<128xf32, #wg>) kernel {
    %t = gpu.thread_id x
    amdgpu.global_load_async_to_lds %from[%t], %tile[%t] : f32, memref<128xf32, #global>, memref<128xf32, #wg>
    rocdl.s.wait.asynccnt 0
    rocdl.s.wait.tensorcnt 0
    gpu.return
  }
}
