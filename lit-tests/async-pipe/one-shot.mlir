// The one-shot pass: schedule, expand, barriers, exact counts and the check. It leaves a loop
// without annotations alone, and its own output too.
// RUN: async-pipe-opt %s --async-pipe | FileCheck %s
// RUN: async-pipe-opt %s --async-pipe --async-pipe | FileCheck %s
// RUN: async-pipe-opt %s --async-pipe-schedule --async-pipe-expand --async-pipe-count-waits --async-pipe-check | FileCheck %s

// CHECK-LABEL: func.func @annotated
// CHECK:         "async_pipe.scope"()
// CHECK:         "async_pipe.commit_queue"()
// CHECK:         scf.for
// CHECK:           "async_pipe.commit_queue"() {queue = 0 : i64}
// CHECK-NEXT:      "async_pipe.wait_queue"({{.*}}) {count = 1 : i64, queue = 0 : i64}
// CHECK:         }
// CHECK-NEXT:    "async_pipe.wait_queue"({{.*}}) {count = 0 : i64, queue = 0 : i64}
// CHECK-NOT:     async_pipe.stage
func.func @annotated(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %B = memref.alloca() : memref<1xf32>
  scf.for %i = %c0 to %c16 step %c1 {
    %a = memref.load %A[%i] : memref<16xf32>
    memref.store %a, %B[%c0] : memref<1xf32>
    %b = memref.load %B[%c0] : memref<1xf32>
    memref.store %b, %C[%i] : memref<16xf32>
  } {async_pipe.stage = [0, 0, 1, 1], async_pipe.async_stages = [0]}
  return
}

// CHECK-LABEL: func.func @plain
// CHECK:         scf.for
// CHECK-NEXT:      memref.load
// CHECK-NEXT:      memref.store
// CHECK-NEXT:    }{{$}}
func.func @plain(%A : memref<16xf32>, %C : memref<16xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  scf.for %i = %c0 to %c16 step %c1 {
    %a = memref.load %A[%i] : memref<16xf32>
    memref.store %a, %C[%i] : memref<16xf32>
  }
  return
}
