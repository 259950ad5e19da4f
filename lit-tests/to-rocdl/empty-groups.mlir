// A group that is empty on every path goes, and the counts are made again without it; one that
// a wait names stays.
//
// RUN: async-pipe-opt %s --async-pipe-to-rocdl=chip=gfx942 | FileCheck %s

#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  // CHECK-LABEL: gpu.func @unnamed
  // CHECK-COUNT-2: rocdl.asyncmark
  // CHECK-NOT: rocdl.asyncmark
  // CHECK: rocdl.wait.asyncmark 1
  // CHECK: gpu.return
  gpu.func @unnamed(%A : memref<?xf32>) workgroup(%tile : memref<64xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %t = gpu.thread_id x
    %a = nvgpu.device_async_copy %A[%t], %tile[%t], 1 : memref<?xf32> to memref<64xf32, #wg>
    %g = nvgpu.device_async_create_group %a
    %e = nvgpu.device_async_create_group {async_pipe.empty}
    %b = nvgpu.device_async_copy %A[%t], %tile[%t], 1 : memref<?xf32> to memref<64xf32, #wg>
    %h = nvgpu.device_async_create_group %b
    nvgpu.device_async_wait %g {numGroups = 2 : i32}
    gpu.return
  }

  // CHECK-LABEL: gpu.func @named
  // CHECK-COUNT-2: rocdl.asyncmark
  // CHECK: rocdl.wait.asyncmark 0
  gpu.func @named(%A : memref<?xf32>) workgroup(%tile : memref<64xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %t = gpu.thread_id x
    %a = nvgpu.device_async_copy %A[%t], %tile[%t], 1 : memref<?xf32> to memref<64xf32, #wg>
    %g = nvgpu.device_async_create_group %a
    %e = nvgpu.device_async_create_group {async_pipe.empty}
    nvgpu.device_async_wait %e {numGroups = 0 : i32}
    gpu.return
  }
}
