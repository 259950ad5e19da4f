// Views of a versioned buffer that the loop makes itself follow to its slots: subviews and
// reshapes of a slot, and reinterpret_cast, whose own offset grows by the slot's.
// RUN: async-pipe-opt %s --async-pipe-schedule --async-pipe-expand --async-pipe-count-waits | FileCheck %s

#workgroup = #gpu.address_space<workgroup>
gpu.module @kernels {
  // CHECK-LABEL: gpu.func @views
  // CHECK-SAME:    memref<2x128xf32
  // CHECK:       scf.for
  // CHECK:         nvgpu.device_async_wait
  // CHECK:         gpu.barrier
  // CHECK:         nvgpu.device_async_copy %{{.*}}, %{{.*}}[%[[IN:.*]], %{{.*}}], 1
  // CHECK:         %[[START:.*]] = arith.muli %[[OUT:.*]], %{{.*}} : index
  // CHECK:         %[[OFFSET:.*]] = arith.addi %[[START]], %{{.*}} : index
  // CHECK:         memref.reinterpret_cast %{{.*}} to offset: [%[[OFFSET]]], sizes: [64], strides: [2]
  // CHECK-SAME:      to memref<64xf32, strided<[2], offset: ?>
  // CHECK:         %[[SLOT:.*]] = memref.subview %{{.*}}[%[[OUT]], 0] [1, 128] [1, 1]
  // CHECK:         memref.expand_shape %[[SLOT]]
  // CHECK-SAME:      into memref<2x64xf32, strided<[64, 1], offset: ?>
  gpu.func @views(%from: memref<?xf32>, %to: memref<?xf32> {llvm.noalias})
      workgroup(%tile: memref<128xf32, #workgroup> {llvm.align = 16 : i64, async_pipe.private})
      kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %c128 = arith.constant 128 : index
    %tid = gpu.thread_id x
    %half = arith.remui %tid, %c64 : index
    %size = memref.dim %from, %c0 : memref<?xf32>
    scf.for %i = %c0 to %size step %c128 {
      %here = arith.addi %i, %tid : index
      %copy = nvgpu.device_async_copy %from[%here], %tile[%tid], 1 : memref<?xf32> to memref<128xf32, #workgroup>
      %group = nvgpu.device_async_create_group %copy
      nvgpu.device_async_wait %group
      gpu.barrier
      %odd = memref.reinterpret_cast %tile to offset: [1], sizes: [64], strides: [2] : memref<128xf32, #workgroup> to memref<64xf32, strided<[2], offset: 1>, #workgroup>
      %a = memref.load %odd[%half] : memref<64xf32, strided<[2], offset: 1>, #workgroup>
      %rows = memref.expand_shape %tile [[0, 1]] output_shape [2, 64] : memref<128xf32, #workgroup> into memref<2x64xf32, #workgroup>
      %b = memref.load %rows[%c1, %half] : memref<2x64xf32, #workgroup>
      %sum = arith.addf %a, %b : f32
      memref.store %sum, %to[%here] : memref<?xf32>
      gpu.barrier
    } {async_pipe.num_stages = 2 : i64}
    gpu.return
  }
}
