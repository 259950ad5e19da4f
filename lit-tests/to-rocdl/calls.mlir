// The callee's group counts on NVIDIA, whose groups belong to the thread; its mark does not count
// in the caller on AMD, so the count of 2 is made again, and is 1.
//
// RUN: async-pipe-opt %s --async-pipe-to-rocdl=chip=gfx1250 | FileCheck %s

#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  // CHECK-LABEL: func.func @fetch
  // CHECK: rocdl.asyncmark
  // CHECK: rocdl.wait.asyncmark 0
  func.func @fetch(%A : memref<?xf32>, %tile : memref<192xf32, #wg>, %at : index) {
    %a = nvgpu.device_async_copy %A[%at], %tile[%at], 1 : memref<?xf32> to memref<192xf32, #wg>
    %g = nvgpu.device_async_create_group %a
    nvgpu.device_async_wait %g {numGroups = 0 : i32}
    return
  }

  // CHECK-LABEL: gpu.func @caller
  // CHECK: call @fetch
  // CHECK: rocdl.wait.asyncmark 1
  gpu.func @caller(%A : memref<?xf32>) workgroup(%tile : memref<192xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c64 = arith.constant 64 : index
    %c128 = arith.constant 128 : index
    %t = gpu.thread_id x
    %second = arith.addi %t, %c64 : index
    %third = arith.addi %t, %c128 : index
    %a = nvgpu.device_async_copy %A[%t], %tile[%t], 1 : memref<?xf32> to memref<192xf32, #wg>
    %g = nvgpu.device_async_create_group %a
    func.call @fetch(%A, %tile, %second) : (memref<?xf32>, memref<192xf32, #wg>, index) -> ()
    %b = nvgpu.device_async_copy %A[%third], %tile[%third], 1 : memref<?xf32> to memref<192xf32, #wg>
    %h = nvgpu.device_async_create_group %b
    nvgpu.device_async_wait %g {numGroups = 2 : i32}
    gpu.return
  }
}
