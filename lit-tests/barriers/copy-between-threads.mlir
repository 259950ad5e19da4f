// A kernel without barriers gets those that its threads need: one between the wait and the
// reads of other threads' copies, one between those reads and the copy that reuses the buffer.
// RUN: async-pipe-opt %s --async-pipe-barriers | FileCheck %s
// RUN: async-pipe-opt %s --async-pipe-barriers=asked | FileCheck %s --check-prefix=ASKED
// RUN: async-pipe-opt %s --async-pipe-barriers --async-pipe-check | FileCheck %s
// RUN: async-pipe-opt %s --async-pipe-barriers --async-pipe-barriers | FileCheck %s

gpu.module @kernels {
  // CHECK-LABEL: gpu.func @opposite
  gpu.func @opposite(%from: memref<?xf32>, %to: memref<?xf32> {llvm.noalias})
      workgroup(%tile: memref<128xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64})
      kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c127 = arith.constant 127 : index
    %c128 = arith.constant 128 : index
    %tid = gpu.thread_id x
    %other = arith.subi %c127, %tid : index
    %size = memref.dim %from, %c0 : memref<?xf32>
    // CHECK:      scf.for
    // CHECK:        gpu.barrier memfence [#gpu.address_space<workgroup>]
    // CHECK-NEXT:   nvgpu.device_async_copy
    // CHECK:        nvgpu.device_async_wait
    // CHECK-NEXT:   gpu.barrier memfence [#gpu.address_space<workgroup>]
    // CHECK-NEXT:   memref.load
    // CHECK-NOT:    gpu.barrier
    // CHECK:      gpu.return
    scf.for %i = %c0 to %size step %c128 {
      %here = arith.addi %i, %tid : index
      %copy = nvgpu.device_async_copy %from[%here], %tile[%tid], 1 : memref<?xf32> to memref<128xf32, #gpu.address_space<workgroup>>
      %group = nvgpu.device_async_create_group %copy
      nvgpu.device_async_wait %group
      %v = memref.load %tile[%other] : memref<128xf32, #gpu.address_space<workgroup>>
      memref.store %v, %to[%here] : memref<?xf32>
    }
    gpu.return
  }

  // Each thread reads what it copied itself: no barrier.
  // CHECK-LABEL: gpu.func @own
  // CHECK-NOT:   gpu.barrier
  // CHECK:       gpu.return
  gpu.func @own(%from: memref<?xf32>, %to: memref<?xf32> {llvm.noalias})
      workgroup(%tile: memref<128xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64})
      kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %tid = gpu.thread_id x
    %copy = nvgpu.device_async_copy %from[%tid], %tile[%tid], 1 : memref<?xf32> to memref<128xf32, #gpu.address_space<workgroup>>
    %group = nvgpu.device_async_create_group %copy
    nvgpu.device_async_wait %group
    %v = memref.load %tile[%tid] : memref<128xf32, #gpu.address_space<workgroup>>
    memref.store %v, %to[%tid] : memref<?xf32>
    gpu.return
  }

  // A barrier moves out before a branch that threads take differently.
  // CHECK-LABEL: gpu.func @branch
  // CHECK:       nvgpu.device_async_wait
  // CHECK:       gpu.barrier
  // CHECK-NEXT:  scf.if
  // CHECK-NOT:   gpu.barrier
  // CHECK:       gpu.return
  gpu.func @branch(%from: memref<?xf32>, %to: memref<?xf32> {llvm.noalias})
      workgroup(%tile: memref<128xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64})
      kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c64 = arith.constant 64 : index
    %c127 = arith.constant 127 : index
    %tid = gpu.thread_id x
    %other = arith.subi %c127, %tid : index
    %copy = nvgpu.device_async_copy %from[%tid], %tile[%tid], 1 : memref<?xf32> to memref<128xf32, #gpu.address_space<workgroup>>
    %group = nvgpu.device_async_create_group %copy
    nvgpu.device_async_wait %group
    %low = arith.cmpi ult, %tid, %c64 : index
    scf.if %low {
      %v = memref.load %tile[%other] : memref<128xf32, #gpu.address_space<workgroup>>
      memref.store %v, %to[%tid] : memref<?xf32>
    }
    gpu.return
  }
}

gpu.module @loops {
  // One barrier before the loop that reads serves all of its iterations.
  // CHECK-LABEL: gpu.func @read_in_a_loop
  gpu.func @read_in_a_loop(%from: memref<?xf32>, %to: memref<?xf32> {llvm.noalias})
      workgroup(%tile: memref<128xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64})
      kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c128 = arith.constant 128 : index
    %zero = arith.constant 0.0 : f32
    %tid = gpu.thread_id x
    // CHECK:      nvgpu.device_async_wait
    // CHECK-NEXT: gpu.barrier memfence [#gpu.address_space<workgroup>]
    // CHECK-NEXT: scf.for
    // CHECK-NOT:  gpu.barrier
    // CHECK:      gpu.return
    %copy = nvgpu.device_async_copy %from[%tid], %tile[%tid], 1 : memref<?xf32> to memref<128xf32, #gpu.address_space<workgroup>>
    %group = nvgpu.device_async_create_group %copy
    nvgpu.device_async_wait %group
    %sum = scf.for %i = %c0 to %c128 step %c1 iter_args(%s = %zero) -> f32 {
      %v = memref.load %tile[%i] : memref<128xf32, #gpu.address_space<workgroup>>
      %t = arith.addf %s, %v : f32
      scf.yield %t : f32
    }
    memref.store %sum, %to[%tid] : memref<?xf32>
    gpu.return
  }

  // Only where it is asked for, and then the attribute goes.
  // ASKED-LABEL: gpu.func @nobody_asks
  // ASKED-NOT:   gpu.barrier
  // ASKED:       gpu.func @asked
  // ASKED-NOT:   async_pipe.barriers
  // ASKED:       gpu.barrier
  gpu.func @nobody_asks(%to: memref<?xf32>)
      workgroup(%tile: memref<128xf32, #gpu.address_space<workgroup>>)
      kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %zero = arith.constant 0.0 : f32
    %c127 = arith.constant 127 : index
    %tid = gpu.thread_id x
    %other = arith.subi %c127, %tid : index
    memref.store %zero, %tile[%tid] : memref<128xf32, #gpu.address_space<workgroup>>
    %v = memref.load %tile[%other] : memref<128xf32, #gpu.address_space<workgroup>>
    memref.store %v, %to[%tid] : memref<?xf32>
    gpu.return
  }
  gpu.func @asked(%to: memref<?xf32>)
      workgroup(%tile: memref<128xf32, #gpu.address_space<workgroup>>)
      kernel attributes {known_block_size = array<i32: 128, 1, 1>, async_pipe.barriers} {
    %zero = arith.constant 0.0 : f32
    %c127 = arith.constant 127 : index
    %tid = gpu.thread_id x
    %other = arith.subi %c127, %tid : index
    memref.store %zero, %tile[%tid] : memref<128xf32, #gpu.address_space<workgroup>>
    %v = memref.load %tile[%other] : memref<128xf32, #gpu.address_space<workgroup>>
    memref.store %v, %to[%tid] : memref<?xf32>
    gpu.return
  }
}
