// Two stages, nothing asynchronous: B[0] = A[i] + 1; C[i] = B[0] + 1.
// RUN: async-pipe-opt %s --async-pipe | FileCheck %s

// Two versions of B, 15 kernel iterations, one step before and one after the kernel.
// CHECK-LABEL: func.func @two_stages_sync
// CHECK:         %[[B:.*]] = memref.alloca() : memref<2x1xf32>
// CHECK:         memref.store %{{.*}}, %[[B]]
// CHECK:         scf.for %{{.*}} = %c0 to %c15 step %c1
// CHECK:           memref.store %{{.*}}, %[[B]]
// CHECK:           memref.load %[[B]]
// CHECK:           memref.store %{{.*}}, %arg1
// CHECK:           scf.yield
// CHECK:         memref.load %[[B]]
// CHECK:         memref.store %{{.*}}, %arg1[%c15]
// CHECK-NOT:     memref.store
// CHECK:         return
func.func @two_stages_sync(%A : memref<16xf32> {llvm.noalias},
                           %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %one = arith.constant 1.0 : f32
  %B = memref.alloca() : memref<1xf32>
  scf.for %i = %c0 to %c16 step %c1 {
    %a = memref.load %A[%i] : memref<16xf32>
    %a1 = arith.addf %a, %one : f32
    memref.store %a1, %B[%c0] : memref<1xf32>
    %b = memref.load %B[%c0] : memref<1xf32>
    %b1 = arith.addf %b, %one : f32
    memref.store %b1, %C[%i] : memref<16xf32>
  } {async_pipe.stage = array<i64: 0, 0, 1, 1>, async_pipe.order = array<i64: 0, 1, 2, 3>}
  return
}
