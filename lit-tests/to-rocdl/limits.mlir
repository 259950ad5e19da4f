// Counts that the chip cannot tell apart are made smaller, or are stricter in the instructions,
// and are reported.
//
// RUN: async-pipe-opt %s --verify-diagnostics --async-pipe-to-rocdl=chip=gfx942 | FileCheck %s

#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  // CHECK-LABEL: gpu.func @marks
  // CHECK: rocdl.wait.asyncmark 15
  gpu.func @marks(%A : memref<?xf32>) workgroup(%tile : memref<64xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %t = gpu.thread_id x
    %a = nvgpu.device_async_copy %A[%t], %tile[%t], 1 : memref<?xf32> to memref<64xf32, #wg>
    %g = nvgpu.device_async_create_group %a
    // expected-remark @below {{the wait leaves 40 groups in flight, and async-lds can tell 15 apart}}
    nvgpu.device_async_wait %g {numGroups = 40 : i32}
    gpu.return
  }

  // A copy of 16 bytes is four here: 14 groups hold 112 copies.
  // CHECK-LABEL: gpu.func @copies
  // CHECK: rocdl.wait.asyncmark 14
  gpu.func @copies(%A : memref<?xf16>) workgroup(%tile : memref<1024xf16, #wg>)
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c8 = arith.constant 8 : index
    %c512 = arith.constant 512 : index
    %t = gpu.thread_id x
    %at = arith.muli %t, %c8 : index
    %next = arith.addi %at, %c512 : index
    %a = nvgpu.device_async_copy %A[%at], %tile[%at], 8 : memref<?xf16> to memref<1024xf16, #wg>
    %b = nvgpu.device_async_copy %A[%next], %tile[%next], 8 : memref<?xf16> to memref<1024xf16, #wg>
    %g = nvgpu.device_async_create_group %a, %b
    // expected-remark @below {{14 groups of 8 copies may stay in flight, and the chip can tell 62 copies apart}}
    nvgpu.device_async_wait %g {numGroups = 14 : i32}
    gpu.return
  }
}
