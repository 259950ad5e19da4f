// Loops that go on with what is issued before them keep their pipeline; where their waits could
// leave more in flight, that is what they get.
// RUN: async-pipe-opt %s --split-input-file --async-pipe=chip=sm_80 --verify-diagnostics | FileCheck %s
// RUN: async-pipe-opt %S/../../examples/handwritten/double_buffer_counts.mlir --async-pipe-tokens=relax --async-pipe-count-waits | FileCheck %s --check-prefix=EXACT

// What is exact already is not relaxed.
// EXACT: nvgpu.device_async_wait %{{.*}} {numGroups = 1 : i32}
// EXACT: nvgpu.device_async_wait %{{.*}} {numGroups = 0 : i32}

// CHECK-LABEL: gpu.func @wait_for_everything
// CHECK:         nvgpu.device_async_copy
// CHECK:         scf.for
// CHECK:           nvgpu.device_async_copy
// CHECK:           nvvm.cp.async.wait.group 1
// CHECK:           memref.load
// CHECK-NOT:     async_pipe
#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  gpu.func @wait_for_everything(%A: memref<17x64xf32> {llvm.noalias}, %C: memref<16x64xf32> {llvm.noalias})
      workgroup(%rows: memref<2x64xf32, #wg>) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c16 = arith.constant 16 : index
    %c63 = arith.constant 63 : index
    %t = gpu.thread_id x
    %mirror = arith.subi %c63, %t : index
    %first = nvgpu.device_async_copy %A[%c0, %t], %rows[%c0, %t], 1 : memref<17x64xf32> to memref<2x64xf32, #wg>
    nvvm.cp.async.commit.group
    // expected-remark @+1 {{the loop is pipelined already and keeps its pipeline; larger counts: 0 -> 1}}
    scf.for %i = %c0 to %c16 step %c1 {
      %next = arith.addi %i, %c1 : index
      %to = arith.remui %next, %c2 : index
      %from = arith.remui %i, %c2 : index
      %copy = nvgpu.device_async_copy %A[%next, %t], %rows[%to, %t], 1 : memref<17x64xf32> to memref<2x64xf32, #wg>
      nvvm.cp.async.commit.group
      // expected-remark @+1 {{the wait leaves 1 in flight instead of 0: every access after it is covered all the same [relaxed-wait]}}
      nvvm.cp.async.wait.group 0
      gpu.barrier
      // expected-note @+1 {{with one more 'memref.load' reads what 'nvgpu.device_async_copy' may still be writing}}
      %x = memref.load %rows[%from, %mirror] : memref<2x64xf32, #wg>
      memref.store %x, %C[%i, %t] : memref<16x64xf32>
      gpu.barrier
    } {async_pipe.num_stages = 4 : i64}
    nvvm.cp.async.wait.group 0
    gpu.return
  }
}

// -----

// The token names the group of the iteration before; its count was never made.
// CHECK-LABEL: gpu.func @carried_token
// CHECK:         scf.for
// CHECK:           nvgpu.device_async_wait %{{.*}} {numGroups = 1 : i32}
#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  gpu.func @carried_token(%A: memref<17x64xf32> {llvm.noalias}, %C: memref<16x64xf32> {llvm.noalias})
      workgroup(%rows: memref<2x64xf32, #wg>) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c16 = arith.constant 16 : index
    %c63 = arith.constant 63 : index
    %t = gpu.thread_id x
    %mirror = arith.subi %c63, %t : index
    %first = nvgpu.device_async_copy %A[%c0, %t], %rows[%c0, %t], 1 : memref<17x64xf32> to memref<2x64xf32, #wg>
    %group = nvgpu.device_async_create_group %first
    // expected-remark @+1 {{larger counts: 0 -> 1}}
    %last = scf.for %i = %c0 to %c16 step %c1 iter_args(%now = %group) -> (!nvgpu.device.async.token) {
      %next = arith.addi %i, %c1 : index
      %to = arith.remui %next, %c2 : index
      %from = arith.remui %i, %c2 : index
      %copy = nvgpu.device_async_copy %A[%next, %t], %rows[%to, %t], 1 : memref<17x64xf32> to memref<2x64xf32, #wg>
      %young = nvgpu.device_async_create_group %copy
      nvgpu.device_async_wait %now
      gpu.barrier
      %x = memref.load %rows[%from, %mirror] : memref<2x64xf32, #wg>
      memref.store %x, %C[%i, %t] : memref<16x64xf32>
      gpu.barrier
      scf.yield %young : !nvgpu.device.async.token
    } {async_pipe.num_stages = 3 : i64}
    nvgpu.device_async_wait %last
    gpu.return
  }
}

// -----

// Waits first, then issues: a count of 0 is all that two slots allow.
#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  gpu.func @nothing_to_gain(%A: memref<17x64xf32> {llvm.noalias}, %C: memref<16x64xf32> {llvm.noalias})
      workgroup(%rows: memref<2x64xf32, #wg>) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c16 = arith.constant 16 : index
    %c63 = arith.constant 63 : index
    %t = gpu.thread_id x
    %mirror = arith.subi %c63, %t : index
    // expected-note @+1 {{the prologue that it has}}
    %first = nvgpu.device_async_copy %A[%c0, %t], %rows[%c0, %t], 1 : memref<17x64xf32> to memref<2x64xf32, #wg>
    nvvm.cp.async.commit.group
    // expected-note @+2 {{take the annotation away and make its waits exact (async-pipe-tokens{relax}, async-pipe-count-waits)}}
    // expected-error @+1 {{cannot pipeline: the loop goes on with 'nvgpu.device_async_copy' before it, so it is pipelined already [already-pipelined]}}
    scf.for %i = %c0 to %c16 step %c1 {
      nvvm.cp.async.wait.group 0
      gpu.barrier
      %next = arith.addi %i, %c1 : index
      %to = arith.remui %next, %c2 : index
      %from = arith.remui %i, %c2 : index
      // expected-note @+1 {{what goes on with it}}
      %copy = nvgpu.device_async_copy %A[%next, %t], %rows[%to, %t], 1 : memref<17x64xf32> to memref<2x64xf32, #wg>
      nvvm.cp.async.commit.group
      // expected-note @+1 {{taken as a loop of its own: cannot pipeline: the buffer needs a version an iteration}}
      %x = memref.load %rows[%from, %mirror] : memref<2x64xf32, #wg>
      memref.store %x, %C[%i, %t] : memref<16x64xf32>
    } {async_pipe.num_stages = 3 : i64}
    nvvm.cp.async.wait.group 0
    gpu.return
  }
}
