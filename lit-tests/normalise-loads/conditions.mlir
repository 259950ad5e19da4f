// RUN: async-pipe-opt %s --async-pipe-normalise-loads | FileCheck %s

// What a condition loads first is loaded in one of its own; a loop that has loads of its own stays.

#wg = #gpu.address_space<workgroup>

// CHECK-LABEL: func.func @guarded
// CHECK:       scf.for
// CHECK:         %[[V:.*]] = scf.if %arg2 -> (f32) {
// CHECK-NEXT:      %[[L:.*]] = memref.load %arg0
// CHECK-NEXT:      scf.yield %[[L]]
// CHECK-NEXT:    } else {
// CHECK-NEXT:      scf.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    scf.if %arg2 {
// CHECK-NEXT:      %[[S:.*]] = arith.addf %[[V]], %[[V]]
// CHECK-NEXT:      memref.store %[[S]], %arg1
func.func @guarded(%A: memref<64xf32>, %O: memref<64xf32>, %c: i1, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    scf.if %c {
      %l = memref.load %A[%i] : memref<64xf32>
      %s = arith.addf %l, %l : f32
      memref.store %s, %O[%i] : memref<64xf32>
    }
  } {async_pipe.num_stages = 2 : i64}
  return
}

// CHECK-LABEL: func.func @has_its_own
// CHECK:       scf.for
// CHECK-NEXT:    memref.load %arg0
// CHECK-NEXT:    scf.if %arg2 {
// CHECK-NEXT:      memref.load %arg0
func.func @has_its_own(%A: memref<64xf32>, %O: memref<64xf32>, %c: i1, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    %v = memref.load %A[%c0] : memref<64xf32>
    scf.if %c {
      %l = memref.load %A[%i] : memref<64xf32>
      %s = arith.addf %l, %v : f32
      memref.store %s, %O[%i] : memref<64xf32>
    }
  } {async_pipe.num_stages = 2 : i64}
  return
}
