// RUN: async-pipe-opt %s --split-input-file --verify-diagnostics --async-pipe-count-waits | FileCheck %s

// CHECK-LABEL: func.func @few
func.func @few(%c: i1) {
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  // CHECK: %[[K:.*]] = arith.select
  %k = arith.select %c, %c1, %c3 : index
  // CHECK: scf.index_switch %[[K]]
  // CHECK: case 1 {
  // CHECK-NEXT: "async_pipe.wait_queue"() {count = 1 : i64, queue = 0 : i64}
  // CHECK: case 3 {
  // CHECK-NEXT: "async_pipe.wait_queue"() {count = 3 : i64, queue = 0 : i64}
  // CHECK: default {
  // CHECK-NEXT: "async_pipe.wait_queue"() {count = 0 : i64, queue = 0 : i64}
  "async_pipe.wait_queue"(%k) {queue = 0 : i64} : (index) -> ()
  return
}

// -----

// CHECK-LABEL: func.func @anything
func.func @anything(%n: index) {
  // CHECK-NEXT: "async_pipe.wait_queue"() {count = 0 : i64, queue = 0 : i64}
  // expected-remark @below {{nothing is known about this count, so the wait is for all groups}}
  "async_pipe.wait_queue"(%n) {queue = 0 : i64} : (index) -> ()
  return
}

// -----

func.func @both(%n: index) {
  %t = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> !nvgpu.device.async.token
  // expected-error@+2 {{'async_pipe.wait_queue' has tokens and a count, which would have to agree}}
  // expected-note@+1 {{name the groups by tokens, or give a count}}
  "async_pipe.wait_queue"(%t, %n) {queue = 0 : i64} : (!nvgpu.device.async.token, index) -> ()
  return
}
