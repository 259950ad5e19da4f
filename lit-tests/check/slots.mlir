// Slots are numbers modulo V, however they are counted: other slots are other memory.
// RUN: async-pipe-opt %s --split-input-file --verify-diagnostics --async-pipe-check

// A carried counter that wraps, and its last value.
func.func @carried(%A: memref<32xf32> {llvm.noalias}, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %ring = memref.alloc() : memref<2xf32, 3>
  %a = nvgpu.device_async_copy %A[%c0], %ring[%c0], 1 : memref<32xf32> to memref<2xf32, 3>
  nvvm.cp.async.commit.group
  scf.for %i = %c0 to %n step %c1 iter_args(%read = %c0, %write = %c1) -> (index, index) {
    %ahead = arith.addi %i, %c1 : index
    %b = nvgpu.device_async_copy %A[%ahead], %ring[%write], 1 : memref<32xf32> to memref<2xf32, 3>
    nvvm.cp.async.commit.group
    nvvm.cp.async.wait.group 1
    %x = memref.load %ring[%read] : memref<2xf32, 3>
    %up = arith.addi %read, %c1 : index
    %full = arith.cmpi eq, %up, %c2 : index
    %next = arith.select %full, %c0, %up : index
    scf.yield %next, %read : index, index
  }
  nvvm.cp.async.wait.group 0
  return
}

// -----

// A remainder of the induction variable whose lower bound is not known.
func.func @remainder(%A: memref<32xf32> {llvm.noalias}, %m: index, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %ring = memref.alloc() : memref<3xf32, 3>
  scf.for %i = %m to %n step %c1 {
    %slot = arith.remui %i, %c3 : index
    %ahead = arith.addi %i, %c1 : index
    %other = arith.remui %ahead, %c3 : index
    %a = nvgpu.device_async_copy %A[%i], %ring[%slot], 1 : memref<32xf32> to memref<3xf32, 3>
    nvvm.cp.async.commit.group
    %x = memref.load %ring[%other] : memref<3xf32, 3>
    nvvm.cp.async.wait.group 0
  }
  return
}

// -----

// The same with the slot that is being filled.
func.func @same_remainder(%A: memref<32xf32> {llvm.noalias}, %m: index, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %ring = memref.alloc() : memref<3xf32, 3>
  scf.for %i = %m to %n step %c1 {
    %slot = arith.remui %i, %c3 : index
    %ahead = arith.addi %i, %c3 : index
    %again = arith.remui %ahead, %c3 : index
    // expected-note @below {{this op is in flight there, with 0 younger groups on queue cp.async}}
    %a = nvgpu.device_async_copy %A[%i], %ring[%slot], 1 : memref<32xf32> to memref<3xf32, 3>
    nvvm.cp.async.commit.group
    // expected-error @below {{'memref.load' reads what 'nvgpu.device_async_copy' may still be writing}}
    %x = memref.load %ring[%again] : memref<3xf32, 3>
    // expected-note @below {{this wait stands before the group is committed; after the commit count 0 would do}}
    nvvm.cp.async.wait.group 0
  }
  return
}
