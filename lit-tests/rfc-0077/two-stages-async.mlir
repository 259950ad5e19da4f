// Two stages, the first asynchronous: the kernel leaves one group in flight, the epilogue none.
// RUN: async-pipe-opt %s --async-pipe | FileCheck %s

// CHECK-LABEL: func.func @two_stages_async
// CHECK:         %[[B:.*]] = memref.alloca() : memref<2x1xf32>
// CHECK:         "async_pipe.scope"
// CHECK:         %[[FIRST:.*]] = "async_pipe.commit_queue"
// CHECK:         %[[LOOP:.*]]:3 = scf.for {{.*}} iter_args(%[[TOKEN:.*]] = %[[FIRST]],
// CHECK:           "async_pipe.scope"
// CHECK:           "async_pipe.commit_queue"
// CHECK-NEXT:      "async_pipe.wait_queue"(%[[TOKEN]]) {count = 1 : i64, queue = 0 : i64}
// CHECK-NEXT:      memref.load %[[B]]
// CHECK:         "async_pipe.wait_queue"(%[[LOOP]]#0) {count = 0 : i64, queue = 0 : i64}
// CHECK-NEXT:    memref.load %[[B]]
// CHECK-NOT:     wait_queue
// CHECK:         return
func.func @two_stages_async(%A : memref<16xf32> {llvm.noalias},
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
  } {async_pipe.stage = array<i64: 0, 0, 1, 1>, async_pipe.order = array<i64: 0, 1, 2, 3>,
     async_pipe.async_stages = array<i64: 0>}
  return
}
