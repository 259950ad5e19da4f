// The LDS DMA has no zero-fill. A copy that keeps all or nothing reads from a constant of zeros
// where it keeps nothing; any other leaves the lanes that do not keep all to store themselves,
// with the mark outside the condition.
//
// RUN: async-pipe-opt %s --async-pipe-to-rocdl=chip=gfx950 | FileCheck %s
// RUN: async-pipe-opt %s --async-pipe-to-rocdl=chip=gfx1250 | FileCheck %s

#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  // CHECK: memref.global "private" constant @[[$ZEROS:.*]] : memref<4xf32, #gpu.address_space<global>> = dense<0.000000e+00> {alignment = 16 : i64}
  // CHECK-LABEL: gpu.func @all_or_nothing
  // CHECK-SAME: (%[[A:.*]]: memref<?xf32>, %{{.*}}: index)
  // CHECK: %[[KEPT:.*]] = arith.select
  // CHECK: %[[WHOLE:.*]] = arith.cmpi sge, %[[KEPT]]
  // CHECK: %[[AT:.*]] = arith.select %[[WHOLE]], %{{.*}}, %{{.*}} : index
  // CHECK: memref.get_global @[[$ZEROS]]
  // CHECK: %[[FROM:.*]] = arith.select %[[WHOLE]], %[[A]], %{{.*}} : memref<?xf32>
  // CHECK-NOT: scf.if
  // CHECK: amdgpu.{{.*}}[%[[AT]]], {{.*}} : vector<4xf32>
  // CHECK-NEXT: rocdl.asyncmark
  gpu.func @all_or_nothing(%A : memref<?xf32>, %n : index)
      workgroup(%tile : memref<256xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c4 = arith.constant 4 : index
    %t = gpu.thread_id x
    %at = arith.muli %t, %c4 : index
    %inside = arith.cmpi ult, %at, %n : index
    %kept = arith.select %inside, %c4, %c0 : index
    %copy = nvgpu.device_async_copy %A[%at], %tile[%at], 4, %kept : memref<?xf32> to memref<256xf32, #wg>
    %group = nvgpu.device_async_create_group %copy
    gpu.return
  }

  // CHECK-LABEL: gpu.func @some
  // CHECK: %[[WHOLE:.*]] = arith.cmpi sge, %{{.*}}
  // CHECK: scf.if %[[WHOLE]] {
  // CHECK: amdgpu.{{.*}} : vector<4xf32>
  // CHECK: } else {
  // CHECK: vector.store
  // CHECK: scf.for %[[I:.*]] = %{{.*}} to %{{.*}} step
  // CHECK: memref.load
  // CHECK: memref.store
  // CHECK: rocdl.asyncmark
  gpu.func @some(%A : memref<?xf32>, %kept : index)
      workgroup(%tile : memref<256xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c4 = arith.constant 4 : index
    %t = gpu.thread_id x
    %at = arith.muli %t, %c4 : index
    %copy = nvgpu.device_async_copy %A[%at], %tile[%at], 4, %kept : memref<?xf32> to memref<256xf32, #wg>
    %group = nvgpu.device_async_create_group %copy
    gpu.return
  }
}
