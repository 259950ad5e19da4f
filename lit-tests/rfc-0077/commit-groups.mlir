// Async statements of one stage that are adjacent in order share a group; with a consumer between
// them each has its own.
// RUN: async-pipe-opt %s --async-pipe | FileCheck %s

// Both scopes in one group; the reader runs three steps later, so three groups may stay.
// CHECK-LABEL: func.func @grouped
// CHECK:         memref.alloca() : memref<4x1xf32>
// CHECK:         memref.alloca() : memref<4x1xf32>
// CHECK-COUNT-3: "async_pipe.commit_queue"
// CHECK:         scf.for
// CHECK:           "async_pipe.scope"
// CHECK-NOT:       commit_queue
// CHECK:           "async_pipe.scope"
// CHECK:           "async_pipe.commit_queue"
// CHECK-NEXT:      "async_pipe.wait_queue"{{.*}}{count = 3 : i64, queue = 0 : i64}
// CHECK-NOT:       commit_queue
// CHECK:           scf.yield
// CHECK:         "async_pipe.wait_queue"{{.*}}{count = 2 : i64, queue = 0 : i64}
// CHECK:         "async_pipe.wait_queue"{{.*}}{count = 1 : i64, queue = 0 : i64}
// CHECK:         "async_pipe.wait_queue"{{.*}}{count = 0 : i64, queue = 0 : i64}
// CHECK:         return
func.func @grouped(%A : memref<16xf32> {llvm.noalias}, %B : memref<16xf32> {llvm.noalias},
                   %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %A_near = memref.alloca() : memref<1xf32>
  %B_near = memref.alloca() : memref<1xf32>
  scf.for %i = %c0 to %c16 step %c1 {
    scf.execute_region no_inline {
      %a = memref.load %A[%i] : memref<16xf32>
      memref.store %a, %A_near[%c0] : memref<1xf32>
      scf.yield
    }
    scf.execute_region no_inline {
      %b = memref.load %B[%i] : memref<16xf32>
      memref.store %b, %B_near[%c0] : memref<1xf32>
      scf.yield
    }
    scf.execute_region no_inline {
      %a = memref.load %A_near[%c0] : memref<1xf32>
      %b = memref.load %B_near[%c0] : memref<1xf32>
      %c = arith.mulf %a, %b : f32
      memref.store %c, %C[%i] : memref<16xf32>
      scf.yield
    }
  } {async_pipe.stage = array<i64: 0, 0, 3>, async_pipe.async_stages = array<i64: 0>}
  return
}

// The second buffer is read before it is written in a step, so three versions of it are enough.
// CHECK-LABEL: func.func @interleaved
// CHECK:         memref.alloca() : memref<4x1xf32>
// CHECK:         memref.alloca() : memref<3x1xf32>
// CHECK-COUNT-6: "async_pipe.commit_queue"
// CHECK:         scf.for
// CHECK:           "async_pipe.scope"
// CHECK:           "async_pipe.commit_queue"
// CHECK-NEXT:      "async_pipe.wait_queue"{{.*}}{count = 5 : i64, queue = 0 : i64}
// CHECK:           "async_pipe.scope"
// CHECK:           "async_pipe.commit_queue"
// CHECK:           scf.yield
// CHECK:         "async_pipe.wait_queue"{{.*}}{count = 4 : i64, queue = 0 : i64}
// CHECK:         "async_pipe.wait_queue"{{.*}}{count = 2 : i64, queue = 0 : i64}
// CHECK:         "async_pipe.wait_queue"{{.*}}{count = 0 : i64, queue = 0 : i64}
// CHECK:         return
func.func @interleaved(%A : memref<16xf32> {llvm.noalias}, %B : memref<16xf32> {llvm.noalias},
                       %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %A_near = memref.alloca() : memref<1xf32>
  %B_near = memref.alloca() : memref<1xf32>
  scf.for %i = %c0 to %c16 step %c1 {
    scf.execute_region no_inline {
      %a = memref.load %A[%i] : memref<16xf32>
      memref.store %a, %A_near[%c0] : memref<1xf32>
      scf.yield
    }
    scf.execute_region no_inline {
      %b = memref.load %B[%i] : memref<16xf32>
      memref.store %b, %B_near[%c0] : memref<1xf32>
      scf.yield
    }
    scf.execute_region no_inline {
      %a = memref.load %A_near[%c0] : memref<1xf32>
      %b = memref.load %B_near[%c0] : memref<1xf32>
      %c = arith.mulf %a, %b : f32
      memref.store %c, %C[%i] : memref<16xf32>
      scf.yield
    }
  } {async_pipe.stage = array<i64: 0, 0, 3>, async_pipe.order = array<i64: 0, 2, 1>,
     async_pipe.async_stages = array<i64: 0>}
  return
}
