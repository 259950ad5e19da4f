// RUN: async-pipe-opt %s --async-pipe-tokens=chip=gfx950 --async-pipe-count-waits=chip=gfx950 | FileCheck %s

// CHECK-LABEL: func.func @marks
func.func @marks(%n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // CHECK: %[[A:.*]] = "async_pipe.commit_queue"() {queue = 0 : i64}
  rocdl.asyncmark
  // CHECK: scf.for {{.*}} iter_args(%[[X:.*]] = %[[A]])
  scf.for %i = %c0 to %n step %c1 {
    // CHECK: "async_pipe.commit_queue"
    rocdl.asyncmark
    // CHECK: "async_pipe.wait_queue"(%[[X]]) {count = 1 : i64, queue = 0 : i64}
    rocdl.wait.asyncmark 1
  }
  return
}
