// A scope that the input has is async without being asked to be, and moves to its stage's queue.
// RUN: async-pipe-opt %s --async-pipe | FileCheck %s

// CHECK-LABEL: func.func @scope_of_the_input
// CHECK:         memref.alloca() : memref<3x1xf32>
// CHECK:         scf.for
// CHECK:           "async_pipe.scope"
// CHECK-NOT:         "async_pipe.scope"
// CHECK:           {queue = 0 : i64}
// CHECK:           "async_pipe.commit_queue"() {queue = 0 : i64}
// CHECK:           "async_pipe.wait_queue"(%{{.*}}) {count = 2 : i64, queue = 0 : i64}
// CHECK:         "async_pipe.wait_queue"(%{{.*}}) {count = 1 : i64, queue = 0 : i64}
// CHECK:         "async_pipe.wait_queue"(%{{.*}}) {count = 0 : i64, queue = 0 : i64}
// CHECK:         return
func.func @scope_of_the_input(%A : memref<16xf32> {llvm.noalias},
                              %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %B = memref.alloca() : memref<1xf32>
  scf.for %i = %c0 to %c16 step %c1 {
    "async_pipe.scope"() ({
      %a = memref.load %A[%i] : memref<16xf32>
      memref.store %a, %B[%c0] : memref<1xf32>
      "async_pipe.yield"() : () -> ()
    }) {queue = 5 : i64} : () -> ()
    %t = "async_pipe.commit_queue"() {queue = 5 : i64} : () -> !nvgpu.device.async.token
    "async_pipe.wait_queue"(%t) {queue = 5 : i64} : (!nvgpu.device.async.token) -> ()
    %b = memref.load %B[%c0] : memref<1xf32>
    memref.store %b, %C[%i] : memref<16xf32>
  } {async_pipe.stage = array<i64: 0, 2, 2>}
  return
}
