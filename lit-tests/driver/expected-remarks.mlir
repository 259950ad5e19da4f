// Remarks of our passes are compared like errors, also those that --explain adds.
// RUN: async-pipe-opt %s --split-input-file --verify-diagnostics --async-pipe-schedule --explain
// RUN: not async-pipe-opt %s --split-input-file --verify-diagnostics --async-pipe-schedule 2>&1 | FileCheck %s
// RUN: async-pipe-opt %s --split-input-file --verify-diagnostics=only-expected --async-pipe-schedule --explain

// CHECK: error: expected remark "2 statements [statements]" was not produced
func.func @numbered(%from: memref<8xf32>, %to: memref<8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  // expected-remark @below {{2 statements [statements]}}
  scf.for %i = %c0 to %c8 step %c1 {
    // expected-note @below {{statement 0 is 'memref.load'}}
    %v = memref.load %from[%i] : memref<8xf32>
    // expected-note @below {{statement 1 is 'memref.store'}}
    memref.store %v, %to[%i] : memref<8xf32>
  } {async_pipe.stage = array<i64: 0, 1>}
  return
}
