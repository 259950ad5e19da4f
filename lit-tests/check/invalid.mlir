// Accesses that race with their own thread's copies, each with two notes.
// RUN: async-pipe-opt %s --split-input-file --verify-diagnostics --async-pipe-check

func.func @no_wait(%A: memref<8xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %s = memref.alloc() : memref<8xf32, 3>
  // expected-note @below {{this op is in flight there, with 0 younger groups on queue cp.async}}
  %a = nvgpu.device_async_copy %A[%c0], %s[%c0], 4 : memref<8xf32> to memref<8xf32, 3>
  nvvm.cp.async.commit.group
  // expected-error @below {{'memref.load' reads what 'nvgpu.device_async_copy' may still be writing}}
  // expected-note @below {{a wait is missing before this: count 0 would do}}
  %x = memref.load %s[%c0] : memref<8xf32, 3>
  return
}

// -----

func.func @uncommitted(%A: memref<8xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %s = memref.alloc() : memref<8xf32, 3>
  // expected-note @below {{this copy is in no committed group there}}
  %a = nvgpu.device_async_copy %A[%c0], %s[%c0], 4 : memref<8xf32> to memref<8xf32, 3>
  nvvm.cp.async.wait.group 0
  // expected-error @below {{'memref.load' reads what 'nvgpu.device_async_copy' may still be writing}}
  // expected-note @below {{commit its group before this access, and wait for it with count 0}}
  %x = memref.load %s[%c0] : memref<8xf32, 3>
  nvvm.cp.async.commit.group
  nvvm.cp.async.wait.group 0
  return
}

// -----

func.func @source_overwritten(%A: memref<8xf32> {llvm.noalias}, %x: f32) {
  %c0 = arith.constant 0 : index
  %s = memref.alloc() : memref<8xf32, 3>
  // expected-note @below {{this op is in flight there, with 1 younger group on queue cp.async}}
  %a = nvgpu.device_async_copy %A[%c0], %s[%c0], 4 : memref<8xf32> to memref<8xf32, 3>
  nvvm.cp.async.commit.group
  nvvm.cp.async.commit.group
  // expected-note @below {{this wait lets 3 groups stay in flight; at most 1 would do}}
  nvvm.cp.async.wait.group 3
  // expected-error @below {{'memref.store' writes what 'nvgpu.device_async_copy' may still be reading}}
  memref.store %x, %A[%c0] : memref<8xf32>
  nvvm.cp.async.wait.group 0
  return
}

// -----

// Two arguments may be the same memory: that cannot be told.
func.func @may_alias(%A: memref<8xf32>, %B: memref<8xf32>, %x: f32) {
  %c0 = arith.constant 0 : index
  %s = memref.alloc() : memref<8xf32, 3>
  // expected-note @below {{this op is in flight there}}
  %a = nvgpu.device_async_copy %A[%c0], %s[%c0], 4 : memref<8xf32> to memref<8xf32, 3>
  nvvm.cp.async.commit.group
  // expected-warning @below {{cannot tell whether 'memref.store' writes what 'nvgpu.device_async_copy' may still be reading (may-alias)}}
  // expected-note @below {{if they never share memory, say so: `llvm.noalias` on the argument}}
  // expected-note @below {{a wait is missing before this: count 0 would do}}
  memref.store %x, %B[%c0] : memref<8xf32>
  nvvm.cp.async.wait.group 0
  return
}
