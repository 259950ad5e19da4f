// The count is the producer head minus the consumer head: groups committed so far, less those that
// the consumer has come to.
// RUN: async-pipe-opt %s --async-pipe-count-waits | FileCheck %s

// Producer at i + 3, consumers at i and at i + 1.
// CHECK-LABEL: func.func @tokens
// CHECK:         scf.for
// CHECK:           "async_pipe.wait_queue"(%{{.*}}) {count = 3 : i64, queue = 0 : i64}
// CHECK:           "async_pipe.wait_queue"(%{{.*}}) {count = 2 : i64, queue = 0 : i64}
!token = !nvgpu.device.async.token
func.func @tokens(%n : index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %g0 = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> !token
  %g1 = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> !token
  %g2 = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> !token
  scf.for %i = %c0 to %n step %c1 iter_args(%t0 = %g0, %t1 = %g1, %t2 = %g2)
      -> (!token, !token, !token) {
    %t3 = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> !token
    "async_pipe.wait_queue"(%t0) {queue = 0 : i64} : (!token) -> ()
    "async_pipe.wait_queue"(%t1) {queue = 0 : i64} : (!token) -> ()
    scf.yield %t1, %t2, %t3 : !token, !token, !token
  }
  return
}

// Producer and consumer both at i: nothing may stay in flight.
// CHECK-LABEL: func.func @same_iteration
// CHECK:           "async_pipe.wait_queue"(%{{.*}}) {count = 0 : i64, queue = 0 : i64}
func.func @same_iteration(%n : index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    %t = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> !token
    "async_pipe.wait_queue"(%t) {queue = 0 : i64} : (!token) -> ()
  }
  return
}

// Without tokens the queue itself keeps the heads: each consumer_wait moves the consumer's by one.
// CHECK-LABEL: func.func @heads
// CHECK:         scf.for
// CHECK:           "async_pipe.consumer_wait"() {count = 3 : i64, queue = 0 : i64}
// CHECK:         "async_pipe.consumer_wait"() {count = 2 : i64, queue = 0 : i64}
// CHECK:         "async_pipe.consumer_wait"() {count = 1 : i64, queue = 0 : i64}
// CHECK:         "async_pipe.consumer_wait"() {count = 0 : i64, queue = 0 : i64}
func.func @heads() {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c125 = arith.constant 125 : index
  %g0 = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> !token
  %g1 = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> !token
  %g2 = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> !token
  scf.for %i = %c0 to %c125 step %c1 {
    %g = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> !token
    "async_pipe.consumer_wait"() {queue = 0 : i64} : () -> ()
  }
  "async_pipe.consumer_wait"() {queue = 0 : i64} : () -> ()
  "async_pipe.consumer_wait"() {queue = 0 : i64} : () -> ()
  "async_pipe.consumer_wait"() {queue = 0 : i64} : () -> ()
  return
}
