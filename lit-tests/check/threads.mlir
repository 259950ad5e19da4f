// Copies of other threads need a wait, then a barrier; reuse needs a barrier after the reads.
// RUN: async-pipe-opt %s --split-input-file --verify-diagnostics --async-pipe-check

// Each thread reads what it copied itself.
func.func @own(%A: memref<32xf32> {llvm.noalias}) attributes {gpu.known_block_size = array<i32: 32, 1, 1>} {
  %t = gpu.thread_id x
  %s = memref.alloc() : memref<32xf32, 3>
  %a = nvgpu.device_async_copy %A[%t], %s[%t], 1 : memref<32xf32> to memref<32xf32, 3>
  nvvm.cp.async.commit.group
  nvvm.cp.async.wait.group 0
  %x = memref.load %s[%t] : memref<32xf32, 3>
  return
}

// -----

func.func @no_barrier(%A: memref<32xf32> {llvm.noalias}) attributes {gpu.known_block_size = array<i32: 32, 1, 1>} {
  %c31 = arith.constant 31 : index
  %t = gpu.thread_id x
  %u = arith.subi %c31, %t : index
  %s = memref.alloc() : memref<32xf32, 3>
  // expected-note @below {{this op is complete for its own thread only}}
  %a = nvgpu.device_async_copy %A[%t], %s[%t], 1 : memref<32xf32> to memref<32xf32, 3>
  nvvm.cp.async.commit.group
  // expected-note @below {{a barrier is missing after this wait}}
  nvvm.cp.async.wait.group 0
  // expected-error @below {{uses what 'nvgpu.device_async_copy' of another thread did}}
  %x = memref.load %s[%u] : memref<32xf32, 3>
  return
}

// -----

func.func @barrier_before_wait(%A: memref<32xf32> {llvm.noalias}) attributes {gpu.known_block_size = array<i32: 32, 1, 1>} {
  %c31 = arith.constant 31 : index
  %t = gpu.thread_id x
  %u = arith.subi %c31, %t : index
  %s = memref.alloc() : memref<32xf32, 3>
  // expected-note @below {{this op is complete for its own thread only}}
  %a = nvgpu.device_async_copy %A[%t], %s[%t], 1 : memref<32xf32> to memref<32xf32, 3>
  nvvm.cp.async.commit.group
  // expected-note @below {{the last barrier is this, before the wait; it belongs after it}}
  gpu.barrier
  nvvm.cp.async.wait.group 0
  // expected-error @below {{uses what 'nvgpu.device_async_copy' of another thread did}}
  %x = memref.load %s[%u] : memref<32xf32, 3>
  return
}

// -----

func.func @reuse(%A: memref<32xf32> {llvm.noalias}) attributes {gpu.known_block_size = array<i32: 32, 1, 1>} {
  %c31 = arith.constant 31 : index
  %t = gpu.thread_id x
  %u = arith.subi %c31, %t : index
  %s = memref.alloc() : memref<32xf32, 3>
  %a = nvgpu.device_async_copy %A[%t], %s[%t], 1 : memref<32xf32> to memref<32xf32, 3>
  nvvm.cp.async.commit.group
  nvvm.cp.async.wait.group 0
  gpu.barrier
  // expected-note @below {{the other access, in the same barrier interval}}
  %x = memref.load %s[%u] : memref<32xf32, 3>
  // expected-error @below {{of another thread touch the same memory without a barrier between}}
  // expected-note @below {{a barrier is missing between the two, before this}}
  %b = nvgpu.device_async_copy %A[%t], %s[%t], 1 : memref<32xf32> to memref<32xf32, 3>
  nvvm.cp.async.commit.group
  nvvm.cp.async.wait.group 0
  return
}
