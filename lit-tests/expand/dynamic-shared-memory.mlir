// Windows of dynamic shared memory that get versions are laid out anew after those that do
// not, and the function says how many bytes it needs now.
// RUN: async-pipe-opt %s --async-pipe | FileCheck %s

#workgroup = #gpu.address_space<workgroup>
gpu.module @kernels {
  // 64 bytes stay, then 3 slots of 512 bytes.
  // CHECK-LABEL: gpu.func @window
  // CHECK-SAME:    async_pipe.dynamic_shared_bytes = 1600
  // CHECK-DAG:   %[[KEPT:.*]] = arith.constant 0 : index
  // CHECK-DAG:   %[[START:.*]] = arith.constant 64 : index
  // CHECK:       memref.view %{{.*}}[%{{.*}}][] : {{.*}} to memref<16xf32
  // CHECK:       memref.view %{{.*}}[%{{.*}}][] : {{.*}} to memref<3x128xf32
  // CHECK:       scf.for
  // CHECK:         nvgpu.device_async_wait %{{.*}} {numGroups = 1 : i32}
  gpu.func @window(%from: memref<?xf32>, %to: memref<?xf32> {llvm.noalias})
      kernel attributes {known_block_size = array<i32: 128, 1, 1>, async_pipe.dynamic_shared_bytes = 576 : i64} {
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    %c127 = arith.constant 127 : index
    %c128 = arith.constant 128 : index
    %all = gpu.dynamic_shared_memory : memref<?xi8, #workgroup>
    %kept = memref.view %all[%c0][] : memref<?xi8, #workgroup> to memref<16xf32, #workgroup>
    %tile = memref.view %all[%c64][] : memref<?xi8, #workgroup> to memref<128xf32, #workgroup>
    %tid = gpu.thread_id x
    %opposite = arith.subi %c127, %tid : index
    %size = memref.dim %from, %c0 : memref<?xf32>
    scf.for %i = %c0 to %size step %c128 {
      %here = arith.addi %i, %tid : index
      %copy = nvgpu.device_async_copy %from[%here], %tile[%tid], 1 : memref<?xf32> to memref<128xf32, #workgroup>
      %group = nvgpu.device_async_create_group %copy
      nvgpu.device_async_wait %group
      gpu.barrier
      %v = memref.load %tile[%opposite] : memref<128xf32, #workgroup>
      memref.store %v, %to[%here] : memref<?xf32>
      gpu.barrier
    } {async_pipe.num_stages = 3 : i64}
    gpu.return
  }
}
