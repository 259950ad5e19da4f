// Groups are marks, and counts stay; the counter of gfx1250 counts copies.
//
// RUN: async-pipe-opt %s --async-pipe-to-rocdl=chip=gfx950 | FileCheck %s --check-prefixes=CHECK,MARKS
// RUN: async-pipe-opt %s --async-pipe-to-rocdl=chip=gfx1250 | FileCheck %s --check-prefixes=CHECK,MARKS
// RUN: async-pipe-opt %s --async-pipe-to-rocdl="chip=gfx1250 waits=counter" | FileCheck %s --check-prefixes=CHECK,COUNTER

#wg = #gpu.address_space<workgroup>
!token = !nvgpu.device.async.token
gpu.module @kernels {
  // CHECK-LABEL: gpu.func @pipeline
  // MARKS: rocdl.asyncmark
  // MARKS: scf.for
  // MARKS-SAME: -> (i32)
  // MARKS: rocdl.asyncmark
  // MARKS: rocdl.wait.asyncmark 1
  // MARKS: rocdl.wait.asyncmark 0
  // COUNTER-NOT: rocdl.asyncmark
  // Two copies in every group: one group left in flight is two copies.
  // COUNTER: rocdl.s.wait.asynccnt 2
  // COUNTER: rocdl.s.wait.asynccnt 0
  // CHECK-NOT: nvgpu
  gpu.func @pipeline(%A : memref<?xf32>, %n : index)
      workgroup(%tile : memref<256xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %c128 = arith.constant 128 : index
    %c192 = arith.constant 192 : index
    %t = gpu.thread_id x
    %t64 = arith.addi %t, %c64 : index
    %t128 = arith.addi %t, %c128 : index
    %t192 = arith.addi %t, %c192 : index
    %a = nvgpu.device_async_copy %A[%t], %tile[%t], 1 : memref<?xf32> to memref<256xf32, #wg>
    %b = nvgpu.device_async_copy %A[%t64], %tile[%t64], 1 : memref<?xf32> to memref<256xf32, #wg>
    %g = nvgpu.device_async_create_group %a, %b
    %r = scf.for %i = %c1 to %n step %c1 iter_args(%x = %g) -> (!token) {
      %c = nvgpu.device_async_copy %A[%t128], %tile[%t128], 1 : memref<?xf32> to memref<256xf32, #wg>
      %d = nvgpu.device_async_copy %A[%t192], %tile[%t192], 1 : memref<?xf32> to memref<256xf32, #wg>
      %h = nvgpu.device_async_create_group %c, %d
      nvgpu.device_async_wait %x {numGroups = 1 : i32}
      scf.yield %h : !token
    }
    nvgpu.device_async_wait %r
    gpu.return
  }

  // A wait can leave 15 marks in flight at most.
  // CHECK-LABEL: gpu.func @many
  // MARKS: rocdl.wait.asyncmark 15
  gpu.func @many(%A : memref<?xf32>) workgroup(%tile : memref<64xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %t = gpu.thread_id x
    %a = nvgpu.device_async_copy %A[%t], %tile[%t], 1 : memref<?xf32> to memref<64xf32, #wg>
    %g = nvgpu.device_async_create_group %a
    nvgpu.device_async_wait %g {numGroups = 40 : i32}
    gpu.return
  }
}
