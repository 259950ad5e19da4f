// Two consumers in one iteration, the first of the older group: a wait before each counts 3,
// then 2, and the first one never blocks, since the second one of the step before left 2 groups
// and only one more was committed.
// RUN: async-pipe-opt %s --async-pipe-count-waits | FileCheck %s --check-prefix=EXACT
// RUN: async-pipe-opt %s --async-pipe-count-waits --async-pipe-simplify-waits | FileCheck %s --check-prefix=SIMPLE

// The steps before the kernel end with the wait for the group of step 1, as in a pipeline.
// EXACT-LABEL:  func.func @hand_written
// EXACT:          scf.for
// EXACT:            "async_pipe.wait_queue"(%{{.*}}) {count = 3 : i64, queue = 0 : i64}
// EXACT-NEXT:       memref.load
// EXACT:            "async_pipe.wait_queue"(%{{.*}}) {count = 2 : i64, queue = 0 : i64}
// EXACT-NEXT:       memref.load
// SIMPLE-LABEL: func.func @hand_written
// SIMPLE:         scf.for
// SIMPLE-NOT:       wait_queue
// SIMPLE:           memref.store %{{.*}}, %arg1[%{{.*}}, %c1]
// SIMPLE:           "async_pipe.wait_queue"(%{{.*}}) {count = 2 : i64, queue = 0 : i64}
// SIMPLE-NEXT:      memref.load
!token = !nvgpu.device.async.token
func.func @hand_written(%A : memref<8xf32> {llvm.noalias}, %C : memref<8x2xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %c5 = arith.constant 5 : index
  %shared = memref.alloca() : memref<4xf32>
  "async_pipe.scope"() ({
    %a = memref.load %A[%c0] : memref<8xf32>
    memref.store %a, %shared[%c0] : memref<4xf32>
    "async_pipe.yield"() : () -> ()
  }) {queue = 0 : i64} : () -> ()
  %g0 = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> !token
  "async_pipe.scope"() ({
    %a = memref.load %A[%c1] : memref<8xf32>
    memref.store %a, %shared[%c1] : memref<4xf32>
    "async_pipe.yield"() : () -> ()
  }) {queue = 0 : i64} : () -> ()
  %g1 = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> !token
  "async_pipe.scope"() ({
    %a = memref.load %A[%c2] : memref<8xf32>
    memref.store %a, %shared[%c2] : memref<4xf32>
    "async_pipe.yield"() : () -> ()
  }) {queue = 0 : i64} : () -> ()
  %g2 = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> !token
  "async_pipe.wait_queue"(%g0) {queue = 0 : i64} : (!token) -> ()
  %first = memref.load %shared[%c0] : memref<4xf32>
  memref.store %first, %C[%c0, %c0] : memref<8x2xf32>
  scf.for %i = %c0 to %c5 step %c1 iter_args(%t0 = %g0, %t1 = %g1, %t2 = %g2)
      -> (!token, !token, !token) {
    %ahead = arith.addi %i, %c3 : index
    %ahead_slot = arith.remui %ahead, %c4 : index
    "async_pipe.scope"() ({
      %a = memref.load %A[%ahead] : memref<8xf32>
      memref.store %a, %shared[%ahead_slot] : memref<4xf32>
      "async_pipe.yield"() : () -> ()
    }) {queue = 0 : i64} : () -> ()
    %t3 = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> !token
    %slot = arith.remui %i, %c4 : index
    "async_pipe.wait_queue"(%t0) {queue = 0 : i64} : (!token) -> ()
    %x = memref.load %shared[%slot] : memref<4xf32>
    memref.store %x, %C[%i, %c1] : memref<8x2xf32>
    %next = arith.addi %i, %c1 : index
    %next_slot = arith.remui %next, %c4 : index
    "async_pipe.wait_queue"(%t1) {queue = 0 : i64} : (!token) -> ()
    %y = memref.load %shared[%next_slot] : memref<4xf32>
    memref.store %y, %C[%next, %c0] : memref<8x2xf32>
    scf.yield %t1, %t2, %t3 : !token, !token, !token
  }
  "async_pipe.wait_queue"() {queue = 0 : i64, count = 0 : i64} : () -> ()
  return
}
