// RUN: async-pipe-opt %s --async-pipe-normalise-guards | FileCheck %s

// A guarded copy that stores zeros otherwise becomes a copy of a guarded load; one that stores nothing otherwise stays.

#wg = #gpu.address_space<workgroup>

// CHECK-LABEL: func.func @zeros
// CHECK:       scf.for
// CHECK:         %[[V:.*]] = scf.if %arg3 -> (f32) {
// CHECK-NEXT:      %[[L:.*]] = memref.load %arg0
// CHECK-NEXT:      scf.yield %[[L]]
// CHECK-NEXT:    } else {
// CHECK-NEXT:      scf.yield %cst
// CHECK-NEXT:    }
// CHECK-NEXT:    memref.store %[[V]], %arg1
// CHECK-NEXT:    scf.if %arg3 {
// CHECK-NEXT:      %[[M:.*]] = memref.load %arg0
// CHECK-NEXT:      memref.store %[[M]], %arg2
func.func @zeros(%A: memref<64xf32>, %a: memref<64xf32, #wg>, %b: memref<64xf32, #wg>, %c: i1, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  scf.for %i = %c0 to %n step %c1 {
    scf.if %c {
      %v = memref.load %A[%i] : memref<64xf32>
      memref.store %v, %a[%c0] : memref<64xf32, #wg>
    } else {
      memref.store %zero, %a[%c0] : memref<64xf32, #wg>
    }
    scf.if %c {
      %v = memref.load %A[%i] : memref<64xf32>
      memref.store %v, %b[%c0] : memref<64xf32, #wg>
    }
  } {async_pipe.num_stages = 2 : i64}
  return
}
