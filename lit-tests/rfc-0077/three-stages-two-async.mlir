// Three stages, the first two asynchronous, each on its own queue: the second waits for the first
// and is waited for by the third.
// RUN: async-pipe-opt %s --async-pipe | FileCheck %s

// In textual order the scope of stage 1 may still run when stage 0 issues its next write of B, so
// B has three versions; with two, the write to B would race with the read that is in flight.
// CHECK-LABEL: func.func @textual_order
// CHECK:         memref.alloca() : memref<3x1xf32>
// CHECK:         memref.alloca() : memref<2x1xf32>
// CHECK:         "async_pipe.wait_queue"{{.*}}{count = 1 : i64, queue = 0 : i64}
// CHECK:         scf.for
// CHECK:           "async_pipe.commit_queue"() {queue = 0 : i64}
// CHECK-NEXT:      "async_pipe.wait_queue"{{.*}}{count = 1 : i64, queue = 0 : i64}
// CHECK:           "async_pipe.commit_queue"() {queue = 1 : i64}
// CHECK-NEXT:      "async_pipe.wait_queue"{{.*}}{count = 1 : i64, queue = 1 : i64}
// CHECK:           scf.yield
// CHECK:         "async_pipe.wait_queue"{{.*}}{count = 0 : i64, queue = 0 : i64}
// CHECK:         "async_pipe.commit_queue"() {queue = 1 : i64}
// CHECK-NEXT:    "async_pipe.wait_queue"{{.*}}{count = 1 : i64, queue = 1 : i64}
// CHECK:         memref.store %{{.*}}, %arg1[%c14]
// CHECK:         "async_pipe.wait_queue"{{.*}}{count = 0 : i64, queue = 1 : i64}
// CHECK:         memref.store %{{.*}}, %arg1[%c15]
// CHECK-NOT:     wait_queue
// CHECK:         return
func.func @textual_order(%A : memref<16xf32> {llvm.noalias},
                         %D : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %one = arith.constant 1.0 : f32
  %B = memref.alloca() : memref<1xf32>
  %C = memref.alloca() : memref<1xf32>
  scf.for %i = %c0 to %c16 step %c1 {
    %a = memref.load %A[%i] : memref<16xf32>
    %a1 = arith.addf %a, %one : f32
    memref.store %a1, %B[%c0] : memref<1xf32>
    %b = memref.load %B[%c0] : memref<1xf32>
    %b1 = arith.addf %b, %one : f32
    memref.store %b1, %C[%c0] : memref<1xf32>
    %c = memref.load %C[%c0] : memref<1xf32>
    %c_1 = arith.addf %c, %one : f32
    memref.store %c_1, %D[%i] : memref<16xf32>
  } {async_pipe.stage = array<i64: 0, 0, 1, 1, 2, 2>,
     async_pipe.order = array<i64: 0, 1, 2, 3, 4, 5>,
     async_pipe.async_stages = array<i64: 0, 1>}
  return
}

// The last stage first: its wait stands before everything that is issued in the step, so
// two versions of B and one of C are enough, at the price of a count of 0 for queue 1.
// CHECK-LABEL: func.func @last_stage_first
// CHECK:         memref.alloca() : memref<2x1xf32>
// CHECK:         memref.alloca() : memref<1xf32>
// CHECK:         scf.for
// CHECK-NEXT:      "async_pipe.wait_queue"{{.*}}{count = 0 : i64, queue = 1 : i64}
// CHECK:           "async_pipe.commit_queue"() {queue = 0 : i64}
// CHECK-NEXT:      "async_pipe.wait_queue"{{.*}}{count = 1 : i64, queue = 0 : i64}
// CHECK:           "async_pipe.commit_queue"() {queue = 1 : i64}
// CHECK:           scf.yield
// CHECK:         "async_pipe.wait_queue"{{.*}}{count = 0 : i64, queue = 1 : i64}
// CHECK:         "async_pipe.wait_queue"{{.*}}{count = 0 : i64, queue = 0 : i64}
// CHECK:         "async_pipe.wait_queue"{{.*}}{count = 0 : i64, queue = 1 : i64}
// CHECK-NOT:     wait_queue
// CHECK:         return
func.func @last_stage_first(%A : memref<16xf32> {llvm.noalias},
                            %D : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %one = arith.constant 1.0 : f32
  %B = memref.alloca() : memref<1xf32>
  %C = memref.alloca() : memref<1xf32>
  scf.for %i = %c0 to %c16 step %c1 {
    %a = memref.load %A[%i] : memref<16xf32>
    %a1 = arith.addf %a, %one : f32
    memref.store %a1, %B[%c0] : memref<1xf32>
    %b = memref.load %B[%c0] : memref<1xf32>
    %b1 = arith.addf %b, %one : f32
    memref.store %b1, %C[%c0] : memref<1xf32>
    %c = memref.load %C[%c0] : memref<1xf32>
    %c_1 = arith.addf %c, %one : f32
    memref.store %c_1, %D[%i] : memref<16xf32>
  } {async_pipe.stage = array<i64: 0, 0, 1, 1, 2, 2>,
     async_pipe.order = array<i64: 2, 3, 4, 5, 0, 1>,
     async_pipe.async_stages = array<i64: 0, 1>}
  return
}
