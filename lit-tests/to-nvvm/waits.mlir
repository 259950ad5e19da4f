// RUN: async-pipe-opt %s --split-input-file --verify-diagnostics --async-pipe-to-nvvm=chip=sm_80 | FileCheck %s

// Waits that name a count only, and counts that are not constant.

gpu.module @kernels {
  // CHECK-LABEL: llvm.func @counts
  // CHECK:         nvvm.cp.async.wait.group 2
  // CHECK-NEXT:    nvvm.cp.async.wait.group 1
  // CHECK-NEXT:    nvvm.cp.async.wait.group 0
  // CHECK-NEXT:    llvm.return
  gpu.func @counts() kernel {
    "async_pipe.wait_queue"() {queue = 0 : i64, count = 2 : i64} : () -> ()
    "async_pipe.producer_acquire"() {queue = 0 : i64, depth = 4 : i64} : () -> ()
    "async_pipe.consumer_wait"() {queue = 0 : i64, count = 1 : i64} : () -> ()
    "async_pipe.consumer_release"() {queue = 0 : i64} : () -> ()
    "async_pipe.wait_queue"() {queue = 0 : i64} : () -> ()
    gpu.return
  }
}

// -----

gpu.module @kernels {
  // A count of 0 to 2, from a thread id: one wait for each.
  // CHECK-LABEL: llvm.func @switched
  // CHECK:         llvm.switch
  // CHECK-DAG:     nvvm.cp.async.wait.group 0
  // CHECK-DAG:     nvvm.cp.async.wait.group 1
  // CHECK-DAG:     nvvm.cp.async.wait.group 2
  // CHECK:         llvm.return
  gpu.func @switched() kernel {
    %c3 = arith.constant 3 : index
    %tid = gpu.thread_id x
    %n = arith.remui %tid, %c3 : index
    "async_pipe.wait_queue"(%n) {queue = 0 : i64} : (index) -> ()
    gpu.return
  }

  // A count that nothing is known about.
  // CHECK-LABEL: llvm.func @unknown
  // CHECK-NEXT:    nvvm.cp.async.wait.group 0
  // CHECK-NEXT:    llvm.return
  gpu.func @unknown(%n : index) kernel {
    "async_pipe.wait_queue"(%n) {queue = 0 : i64} : (index) -> ()
    gpu.return
  }

  // CHECK-LABEL: llvm.func @any_queue
  // CHECK-NEXT:    nvvm.cp.async.wait.group 0
  // CHECK-NEXT:    llvm.return
  gpu.func @any_queue(%q : index) kernel {
    // expected-remark @below {{the queue of this wait is not constant, so it waits for all groups}}
    "async_pipe.wait_queue"(%q) {count = 2 : i64} : (index) -> ()
    gpu.return
  }

  // CHECK-LABEL: llvm.func @too_many
  // CHECK-NEXT:    nvvm.cp.async.wait.group 63
  gpu.func @too_many() kernel {
    // expected-remark @below {{queue cp.async can leave at most 63 groups in flight, not 70}}
    nvvm.cp.async.wait.group 70
    gpu.return
  }
}
