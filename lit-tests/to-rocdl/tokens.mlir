// Tokens have no counterpart: what carries them through branches, loops and calls carries zeros.
//
// RUN: async-pipe-opt %s --async-pipe-to-rocdl=chip=gfx950 | FileCheck %s

#wg = #gpu.address_space<workgroup>
!token = !nvgpu.device.async.token
gpu.module @kernels {
  // CHECK-LABEL: func.func @same
  // CHECK-SAME: (%{{.*}}: i32) -> i32
  // CHECK: return %{{.*}} : i32
  func.func @same(%t : !token) -> !token {
    return %t : !token
  }

  // CHECK-LABEL: gpu.func @carried
  // CHECK: rocdl.asyncmark
  // CHECK: cf.cond_br
  // CHECK: ^{{.*}}(%[[CARRIED:.*]]: i32):
  // CHECK-NEXT: rocdl.wait.asyncmark 0
  // CHECK-NEXT: call @same(%[[CARRIED]]) : (i32) -> i32
  // CHECK-NOT: nvgpu
  gpu.func @carried(%A : memref<?xf32>, %n : index) workgroup(%tile : memref<64xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %some = arith.cmpi eq, %n, %c0 : index
    %t = gpu.thread_id x
    %a = nvgpu.device_async_copy %A[%t], %tile[%t], 1 : memref<?xf32> to memref<64xf32, #wg>
    %g = nvgpu.device_async_create_group %a
    cf.cond_br %some, ^again, ^end(%g : !token)
  ^again:
    %b = nvgpu.device_async_copy %A[%t], %tile[%t], 1 : memref<?xf32> to memref<64xf32, #wg>
    %h = nvgpu.device_async_create_group %b
    cf.br ^end(%h : !token)
  ^end(%x : !token):
    nvgpu.device_async_wait %x {numGroups = 0 : i32}
    %y = func.call @same(%x) : (!token) -> !token
    gpu.return
  }
}
