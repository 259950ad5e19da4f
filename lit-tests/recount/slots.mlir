// Slots that the loop counts itself go: it gets as many versions as its stages need.
// RUN: async-pipe-opt %S/../../examples/handwritten/gemm_two_slots.mlir --async-pipe-check=chip=sm_80 --report=text -o /dev/null 2>&1 | FileCheck %s --check-prefix=GIVEN
// RUN: async-pipe-opt %s --split-input-file --async-pipe-normalise --async-pipe-schedule --verify-diagnostics | FileCheck %s
// RUN: async-pipe-opt %s --split-input-file --async-pipe=chip=sm_80 | FileCheck %s --check-prefix=PIPE

// GIVEN: gemm_two_slots 7 0 0

// The buffer loses its leading dimension, and the loop gets the barrier that the second slot saved.
// CHECK-LABEL: gpu.func @modulo
// CHECK-SAME:    workgroup(%[[B:.*]] : memref<64xf32, #gpu.address_space<workgroup>>)
// CHECK:         scf.for
// CHECK:           nvgpu.device_async_copy %{{.*}}, %[[B]][%{{[^,]*}}], 1
// CHECK:           gpu.barrier
// CHECK:           memref.load %[[B]][%{{[^,]*}}]
// CHECK:           gpu.barrier memfence [#gpu.address_space<workgroup>]
// CHECK-NEXT:    }

// PIPE-LABEL: gpu.func @modulo
// PIPE-SAME:    memref<4x64xf32, #gpu.address_space<workgroup>>
// PIPE:         scf.for
// PIPE:           nvgpu.device_async_wait %{{.*}} {numGroups = 2 : i32}
// PIPE-NEXT:      gpu.barrier
// PIPE-NOT:       gpu.barrier
// PIPE:         nvgpu.device_async_wait %{{.*}} {numGroups = 2 : i32}
// PIPE:         nvgpu.device_async_wait %{{.*}} {numGroups = 1 : i32}
// PIPE:         nvgpu.device_async_wait %{{.*}} {numGroups = 0 : i32}
#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  // expected-note @+2 {{the buffer}}
  gpu.func @modulo(%A: memref<16x64xf32> {llvm.noalias}, %C: memref<16x64xf32> {llvm.noalias})
      workgroup(%rows: memref<2x64xf32, #wg>) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c16 = arith.constant 16 : index
    %c63 = arith.constant 63 : index
    %t = gpu.thread_id x
    %mirror = arith.subi %c63, %t : index
    // expected-remark @+1 {{the loop counts 2 slots of a buffer itself; they go, the pipeline makes as many as it needs [hand-made-slots]}}
    scf.for %i = %c0 to %c16 step %c1 {
      %slot = arith.remui %i, %c2 : index
      %copy = nvgpu.device_async_copy %A[%i, %t], %rows[%slot, %t], 1 : memref<16x64xf32> to memref<2x64xf32, #wg>
      %group = nvgpu.device_async_create_group %copy
      nvgpu.device_async_wait %group
      gpu.barrier
      %x = memref.load %rows[%slot, %mirror] : memref<2x64xf32, #wg>
      memref.store %x, %C[%i, %t] : memref<16x64xf32>
    } {async_pipe.num_stages = 4 : i64}
    gpu.return
  }
}

// -----

// A view of the slot: it loses the slot, and keeps its type by a cast.
// CHECK-LABEL: gpu.func @view_of_the_slot
// CHECK:         %[[B:.*]] = memref.alloc() {alignment = 16 : i64} : memref<64xf32, #gpu.address_space<workgroup>>
// CHECK:         scf.for
// CHECK:           %[[S:.*]] = memref.subview %[[B]][0] [64] [1]
// CHECK:           memref.cast %[[S]] : {{.*}} to memref<64xf32, strided<[1], offset: ?>, #gpu.address_space<workgroup>>
// CHECK:         memref.dealloc %[[B]]

// PIPE-LABEL: gpu.func @view_of_the_slot
// PIPE:         memref.alloc() {alignment = 16 : i64} : memref<3x64xf32, #gpu.address_space<workgroup>>
// PIPE:         nvgpu.device_async_wait %{{.*}} {numGroups = 1 : i32}
#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  gpu.func @view_of_the_slot(%A: memref<16x64xf32> {llvm.noalias}, %C: memref<16x64xf32> {llvm.noalias})
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %c16 = arith.constant 16 : index
    %c63 = arith.constant 63 : index
    %t = gpu.thread_id x
    %mirror = arith.subi %c63, %t : index
    // expected-note @+1 {{the buffer}}
    %rows = memref.alloc() {alignment = 16 : i64} : memref<2x64xf32, #wg>
    // expected-remark @+1 {{hand-made-slots}}
    scf.for %i = %c0 to %c16 step %c1 {
      %slot = arith.andi %i, %c1 : index
      %row = memref.subview %rows[%slot, 0] [1, 64] [1, 1] : memref<2x64xf32, #wg> to memref<64xf32, strided<[1], offset: ?>, #wg>
      %copy = nvgpu.device_async_copy %A[%i, %t], %row[%t], 1 : memref<16x64xf32> to memref<64xf32, strided<[1], offset: ?>, #wg>
      nvvm.cp.async.commit.group
      nvvm.cp.async.wait.group 0
      gpu.barrier
      %x = memref.load %row[%mirror] : memref<64xf32, strided<[1], offset: ?>, #wg>
      memref.store %x, %C[%i, %t] : memref<16x64xf32>
    } {async_pipe.num_stages = 3 : i64}
    memref.dealloc %rows : memref<2x64xf32, #wg>
    gpu.return
  }
}
