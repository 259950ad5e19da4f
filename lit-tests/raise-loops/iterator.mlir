// RUN: async-pipe-opt %s --async-pipe-raise-loops | FileCheck %s

// A Python loop as a front end writes it: the iterator stands in memory (how many iterations are
// left, the next value), and is read and written before the loop knows whether it goes on.

// CHECK-LABEL: func.func @iterator
// CHECK-SAME:    %[[A:.*]]: memref<64xf32>, %[[N:.*]]: i64
// CHECK:         %[[TRIPS:.*]] = arith.select %{{.*}}, %[[N]], %{{.*}} : i64
// CHECK:         %[[SUM:.*]] = scf.for %[[K:.*]] = %{{.*}} to %[[TRIPS]] step %{{.*}} iter_args(%[[OLD:.*]] = %{{.*}}) -> (f32) : i64
// CHECK-NEXT:      %[[AT:.*]] = arith.index_cast %[[K]]
// CHECK-NEXT:      %[[V:.*]] = memref.load %[[A]][%[[AT]]]
// CHECK-NEXT:      %[[NEW:.*]] = arith.addf %[[OLD]], %[[V]]
// CHECK-NEXT:      scf.yield %[[NEW]]
// CHECK:         return %[[SUM]]
func.func @iterator(%a: memref<64xf32>, %n: i64) -> f32 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %f0 = arith.constant 0.0 : f32
  %sum = memref.alloca() : memref<1xf32>
  %state = memref.alloca() : memref<2xi64>
  memref.store %f0, %sum[%c0] : memref<1xf32>
  %some = arith.cmpi sgt, %n, %zero : i64
  %trips = arith.select %some, %n, %zero : i64
  memref.store %trips, %state[%c0] : memref<2xi64>
  memref.store %zero, %state[%c1] : memref<2xi64>
  cf.br ^header
^header:
  %left = memref.load %state[%c0] : memref<2xi64>
  %more = arith.cmpi sgt, %left, %zero : i64
  %i = memref.load %state[%c1] : memref<2xi64>
  %less = arith.subi %left, %one : i64
  %next = arith.addi %i, %one : i64
  %left1 = arith.select %more, %less, %left : i64
  %next1 = arith.select %more, %next, %i : i64
  memref.store %left1, %state[%c0] : memref<2xi64>
  memref.store %next1, %state[%c1] : memref<2xi64>
  cf.cond_br %more, ^body, ^out
^body:
  %at = arith.index_cast %i : i64 to index
  %v = memref.load %a[%at] : memref<64xf32>
  %old = memref.load %sum[%c0] : memref<1xf32>
  %new = arith.addf %old, %v : f32
  memref.store %new, %sum[%c0] : memref<1xf32>
  cf.br ^header
^out:
  %r = memref.load %sum[%c0] : memref<1xf32>
  return %r : f32
}

// A branch inside a loop becomes an `if`; what is needed after the loop is carried.
// CHECK-LABEL: func.func @branch
// CHECK-SAME:    %[[A:.*]]: memref<64xf32>, %[[N:.*]]: index, %[[P:.*]]: i1
// CHECK:         %[[END:.*]] = scf.for %[[I:.*]] = %c0 to %[[N]] step %c4 iter_args(%{{.*}} = %c0) -> (index) {
// CHECK-NEXT:      scf.if %[[P]] {
// CHECK-NEXT:        memref.store %{{.*}}, %[[A]][%[[I]]]
// CHECK-NEXT:      }
// CHECK-NEXT:      %[[J1:.*]] = arith.addi %[[I]], %c4
// CHECK-NEXT:      scf.yield %[[J1]]
// CHECK:         return %[[END]]
func.func @branch(%a: memref<64xf32>, %n: index, %p: i1) -> index {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %f0 = arith.constant 0.0 : f32
  cf.br ^header(%c0 : index)
^header(%i: index):
  %more = arith.cmpi slt, %i, %n : index
  cf.cond_br %more, ^body, ^out
^body:
  cf.cond_br %p, ^store, ^next
^store:
  memref.store %f0, %a[%i] : memref<64xf32>
  cf.br ^next
^next:
  %i1 = arith.addi %i, %c4 : index
  cf.br ^header(%i1 : index)
^out:
  return %i : index
}

// In a kernel: the side exit of an error before the loop stays where it is.
// CHECK-LABEL: gpu.func @kernel
// CHECK:         scf.if
// CHECK:           llvm.cmpxchg
// CHECK:         scf.for
gpu.module @m {
  llvm.mlir.global common @error(0 : i32) {addr_space = 0 : i32} : i32
  gpu.func @kernel(%a: memref<64xf32>, %n: i64, %bad: i1) kernel {
    %zero = arith.constant 0 : i64
    %one = arith.constant 1 : i64
    %f0 = arith.constant 0.0 : f32
    %flag = llvm.mlir.addressof @error : !llvm.ptr
    scf.if %bad {
      %none = llvm.mlir.constant(0 : i32) : i32
      %code = llvm.mlir.constant(5 : i32) : i32
      %was = llvm.cmpxchg %flag, %none, %code monotonic monotonic : !llvm.ptr, i32
    }
    cf.br ^header(%n : i64)
  ^header(%left: i64):
    %more = arith.cmpi sgt, %left, %zero : i64
    cf.cond_br %more, ^body, ^out
  ^body:
    %at = arith.index_cast %left : i64 to index
    memref.store %f0, %a[%at] : memref<64xf32>
    %less = arith.subi %left, %one : i64
    cf.br ^header(%less : i64)
  ^out:
    gpu.return
  }
}
