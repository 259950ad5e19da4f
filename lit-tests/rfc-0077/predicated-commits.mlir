// Where the commit itself is under a condition, the number of groups differs between paths, and
// the count is the smallest over them.
// RUN: async-pipe-opt %s --async-pipe-count-waits | FileCheck %s

// One commit is certain in each iteration, so one group may stay; the other may be missing.
// CHECK-LABEL: func.func @one_of_two
// CHECK:         scf.for
// CHECK:           "async_pipe.wait_queue"(%{{.*}}) {{{.*}}count = 1 : i64, queue = 0 : i64}
!token = !nvgpu.device.async.token
func.func @one_of_two(%n : index, %condition : i1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %first = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> !token
  scf.for %i = %c0 to %n step %c1 iter_args(%before = %first) -> (!token) {
    %now = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> !token
    scf.if %condition {
      %extra = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> !token
    }
    "async_pipe.wait_queue"(%before) {queue = 0 : i64} : (!token) -> ()
    scf.yield %now : !token
  }
  return
}

// The only commit after the awaited group is under a condition: nothing may stay.
// CHECK-LABEL: func.func @perhaps_none
// CHECK:           "async_pipe.wait_queue"(%{{.*}}) {{{.*}}count = 0 : i64, queue = 0 : i64}
func.func @perhaps_none(%condition : i1) {
  %first = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> !token
  scf.if %condition {
    %extra = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> !token
  }
  "async_pipe.wait_queue"(%first) {queue = 0 : i64} : (!token) -> ()
  return
}
