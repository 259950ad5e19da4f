// RUN: async-pipe-opt %s --split-input-file --async-pipe | FileCheck %s
// RUN: async-pipe-opt %s --split-input-file --async-pipe --verify-diagnostics -o /dev/null

// The loop's last barrier ordered the copies from %A, in all threads, before the store to %O,
// which may be the same memory: one barrier after the epilogue does it now, and it fences
// global memory only.
// CHECK-LABEL: func.func @store_may_hit_the_source
// CHECK: scf.for
// CHECK:   gpu.barrier memfence [#gpu.address_space<workgroup>]
// CHECK: scf.yield
// CHECK: nvgpu.device_async_wait {{.*}} {numGroups = 0 : i32}
// CHECK: gpu.barrier memfence [#gpu.address_space<workgroup>]
// CHECK: memref.load
// CHECK: gpu.barrier memfence [#gpu.address_space<global>]
// CHECK-NEXT: memref.store
func.func @store_may_hit_the_source(%A: memref<4096xf32>, %O: memref<64xf32>)
    attributes {known_block_size = array<i32: 64, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c63 = arith.constant 63 : index
  %c64 = arith.constant 64 : index
  %c4096 = arith.constant 4096 : index
  %zero = arith.constant 0.0 : f32
  %tile = memref.alloc() : memref<64xf32, #gpu.address_space<workgroup>>
  %mine = gpu.thread_id x
  %other = arith.subi %c63, %mine : index
  %total = scf.for %i = %c0 to %c4096 step %c64 iter_args(%sum = %zero) -> (f32) {
    %at = arith.addi %i, %mine : index
    %copy = nvgpu.device_async_copy %A[%at], %tile[%mine], 1 : memref<4096xf32> to memref<64xf32, #gpu.address_space<workgroup>>
    %group = nvgpu.device_async_create_group %copy
    nvgpu.device_async_wait %group
    gpu.barrier
    %v = memref.load %tile[%other] : memref<64xf32, #gpu.address_space<workgroup>>
    %next = arith.addf %sum, %v : f32
    gpu.barrier
    scf.yield %next : f32
  } {async_pipe.num_stages = 2 : i64}
  memref.store %total, %O[%mine] : memref<64xf32>
  return
}

// -----

// CHECK-LABEL: func.func @store_elsewhere
// CHECK-NOT: gpu.address_space<global>
// CHECK: return
func.func @store_elsewhere(%A: memref<4096xf32> {llvm.noalias}, %O: memref<64xf32>)
    attributes {known_block_size = array<i32: 64, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c63 = arith.constant 63 : index
  %c64 = arith.constant 64 : index
  %c4096 = arith.constant 4096 : index
  %zero = arith.constant 0.0 : f32
  %tile = memref.alloc() : memref<64xf32, #gpu.address_space<workgroup>>
  %mine = gpu.thread_id x
  %other = arith.subi %c63, %mine : index
  %total = scf.for %i = %c0 to %c4096 step %c64 iter_args(%sum = %zero) -> (f32) {
    %at = arith.addi %i, %mine : index
    %copy = nvgpu.device_async_copy %A[%at], %tile[%mine], 1 : memref<4096xf32> to memref<64xf32, #gpu.address_space<workgroup>>
    %group = nvgpu.device_async_create_group %copy
    nvgpu.device_async_wait %group
    gpu.barrier
    %v = memref.load %tile[%other] : memref<64xf32, #gpu.address_space<workgroup>>
    %next = arith.addf %sum, %v : f32
    gpu.barrier
    scf.yield %next : f32
  } {async_pipe.num_stages = 2 : i64}
  memref.store %total, %O[%mine] : memref<64xf32>
  return
}

// -----

// A barrier that stands after the loop anyway is enough, and a read meets no read.
// CHECK-LABEL: func.func @ordered_by_the_input
// CHECK: scf.yield
// CHECK: nvgpu.device_async_wait {{.*}} {numGroups = 0 : i32}
// CHECK: memref.load {{.*}}workgroup
// CHECK-NOT: gpu.barrier memfence
// CHECK: memref.load %{{.*}} : memref<4096xf32>
// CHECK-NOT: gpu.barrier memfence
// CHECK: gpu.barrier{{$}}
// CHECK-NOT: gpu.barrier
// CHECK: memref.store
func.func @ordered_by_the_input(%A: memref<4096xf32>, %O: memref<64xf32>)
    attributes {known_block_size = array<i32: 64, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c63 = arith.constant 63 : index
  %c64 = arith.constant 64 : index
  %c4096 = arith.constant 4096 : index
  %zero = arith.constant 0.0 : f32
  %tile = memref.alloc() : memref<64xf32, #gpu.address_space<workgroup>>
  %mine = gpu.thread_id x
  %other = arith.subi %c63, %mine : index
  %total = scf.for %i = %c0 to %c4096 step %c64 iter_args(%sum = %zero) -> (f32) {
    %at = arith.addi %i, %mine : index
    %copy = nvgpu.device_async_copy %A[%at], %tile[%mine], 1 : memref<4096xf32> to memref<64xf32, #gpu.address_space<workgroup>>
    %group = nvgpu.device_async_create_group %copy
    nvgpu.device_async_wait %group
    gpu.barrier
    %v = memref.load %tile[%other] : memref<64xf32, #gpu.address_space<workgroup>>
    %next = arith.addf %sum, %v : f32
    gpu.barrier
    scf.yield %next : f32
  } {async_pipe.num_stages = 2 : i64}
  %first = memref.load %A[%mine] : memref<4096xf32>
  %result = arith.addf %total, %first : f32
  gpu.barrier
  memref.store %result, %O[%mine] : memref<64xf32>
  return
}
