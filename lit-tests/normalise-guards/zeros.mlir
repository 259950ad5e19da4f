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

// Both arms compute the place for themselves; two tiles are zeroed before either is filled; one condition
// in another.

// CHECK-LABEL: func.func @as_front_ends_write
// CHECK:       scf.for
// CHECK-NOT:     memref.store %cst
// CHECK:         %[[V:.*]] = scf.if %arg3
// CHECK:         %[[P:.*]] = arith.addi
// CHECK:         memref.store %[[V]], %arg1[%[[P]]]
// CHECK-NOT:     memref.store %cst
// CHECK:         %[[BOTH:.*]] = arith.andi %arg3, %arg4
// CHECK:         %[[W:.*]] = scf.if %[[BOTH]]
// CHECK:         memref.store %[[W]], %arg2[%{{.*}}]
func.func @as_front_ends_write(%A: memref<64xf32>, %a: memref<64xf32, #wg> {llvm.noalias},
    %b: memref<64xf32, #wg> {llvm.noalias}, %c: i1, %d: i1, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  scf.for %i = %c0 to %n step %c1 {
    memref.store %zero, %b[%c0] : memref<64xf32, #wg>
    scf.if %c {
      %p = arith.addi %n, %c1 : index
      %v = memref.load %A[%i] : memref<64xf32>
      memref.store %v, %a[%p] : memref<64xf32, #wg>
    } else {
      %p = arith.addi %n, %c1 : index
      memref.store %zero, %a[%p] : memref<64xf32, #wg>
    }
    scf.if %c {
      %j = arith.addi %i, %c1 : index
      scf.if %d {
        %v = memref.load %A[%j] : memref<64xf32>
        memref.store %v, %b[%c0] : memref<64xf32, #wg>
      }
    }
  } {async_pipe.num_stages = 2 : i64}
  return
}

// What stands between may be the same memory, or a release that others wait for.

// CHECK-LABEL: func.func @stays
// CHECK:       scf.for
// CHECK:         memref.store %cst, %arg1
// CHECK:         memref.store %cst, %arg2
// CHECK:         memref.atomic_rmw
// CHECK:         scf.if %arg3 {
// CHECK:         memref.store %cst, %arg1
// CHECK:         memref.store %{{.*}}, %arg2[%{{.*}}]
// CHECK:         scf.if %arg3 {
func.func @stays(%A: memref<64xf32>, %a: memref<64xf32, #wg>, %b: memref<64xf32, #wg>, %c: i1,
    %flag: memref<1xi32>, %one: i32, %n: index, %x: f32) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  scf.for %i = %c0 to %n step %c1 {
    memref.store %zero, %a[%c0] : memref<64xf32, #wg>
    memref.store %zero, %b[%c0] : memref<64xf32, #wg>
    %old = memref.atomic_rmw addi %one, %flag[%c0] : (i32, memref<1xi32>) -> i32
    scf.if %c {
      %v = memref.load %A[%i] : memref<64xf32>
      memref.store %v, %a[%c0] : memref<64xf32, #wg>
    }
    memref.store %zero, %a[%c1] : memref<64xf32, #wg>
    memref.store %x, %b[%i] : memref<64xf32, #wg>
    scf.if %c {
      %v = memref.load %A[%i] : memref<64xf32>
      memref.store %v, %a[%c1] : memref<64xf32, #wg>
    }
  } {async_pipe.num_stages = 2 : i64}
  return
}
