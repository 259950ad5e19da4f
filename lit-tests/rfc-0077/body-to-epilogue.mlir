// From the body to an epilogue without producers: 128 groups were committed, the two consumers of
// epilogue step i are at i + 125 and i + 126, so their counts are 2 - i and 1 - i.
// RUN: async-pipe-opt %s --async-pipe-count-waits | FileCheck %s

// Step 2 has no second consumer: 1 - 2 would be -1, a count that no wait has.
// CHECK-LABEL: func.func @boundary
// CHECK:         scf.for
// CHECK:           "async_pipe.wait_queue"(%{{.*}}) {count = 3 : i64, queue = 0 : i64}
// CHECK:           "async_pipe.wait_queue"(%{{.*}}) {count = 2 : i64, queue = 0 : i64}
// CHECK:           scf.yield
// CHECK:         "async_pipe.wait_queue"(%[[LOOP:.*]]#0) {count = 2 : i64, queue = 0 : i64}
// CHECK-NEXT:    "async_pipe.wait_queue"(%[[LOOP]]#1) {count = 1 : i64, queue = 0 : i64}
// CHECK-NEXT:    "async_pipe.wait_queue"(%[[LOOP]]#1) {count = 1 : i64, queue = 0 : i64}
// CHECK-NEXT:    "async_pipe.wait_queue"(%[[LOOP]]#2) {count = 0 : i64, queue = 0 : i64}
// CHECK-NEXT:    "async_pipe.wait_queue"(%[[LOOP]]#2) {count = 0 : i64, queue = 0 : i64}
// CHECK-NEXT:    return
!token = !nvgpu.device.async.token
func.func @boundary() {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c125 = arith.constant 125 : index
  %g0 = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> !token
  %g1 = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> !token
  %g2 = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> !token
  %last:3 = scf.for %i = %c0 to %c125 step %c1 iter_args(%t0 = %g0, %t1 = %g1, %t2 = %g2)
      -> (!token, !token, !token) {
    %t3 = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> !token
    "async_pipe.wait_queue"(%t0) {queue = 0 : i64} : (!token) -> ()
    "async_pipe.wait_queue"(%t1) {queue = 0 : i64} : (!token) -> ()
    scf.yield %t1, %t2, %t3 : !token, !token, !token
  }
  "async_pipe.wait_queue"(%last#0) {queue = 0 : i64} : (!token) -> ()
  "async_pipe.wait_queue"(%last#1) {queue = 0 : i64} : (!token) -> ()
  "async_pipe.wait_queue"(%last#1) {queue = 0 : i64} : (!token) -> ()
  "async_pipe.wait_queue"(%last#2) {queue = 0 : i64} : (!token) -> ()
  "async_pipe.wait_queue"(%last#2) {queue = 0 : i64} : (!token) -> ()
  return
}
