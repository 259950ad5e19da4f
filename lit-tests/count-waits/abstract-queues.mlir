// RUN: async-pipe-opt %s --async-pipe-count-waits | FileCheck %s --check-prefix=APART
// RUN: async-pipe-opt %s --async-pipe-count-waits=chip=sm_80 | FileCheck %s --check-prefix=SHARED

// cp.async has one FIFO, so the group of queue 1 counts for the wait on queue 0.
// APART-LABEL: func.func @queues
// SHARED-LABEL: func.func @queues
func.func @queues() {
  %a = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> !nvgpu.device.async.token
  %b = "async_pipe.commit_queue"() {queue = 1 : i64} : () -> !nvgpu.device.async.token
  // APART: "async_pipe.wait_queue"(%{{.*}}) {count = 0 : i64, queue = 0 : i64}
  // SHARED: "async_pipe.wait_queue"(%{{.*}}) {count = 1 : i64, queue = 0 : i64}
  "async_pipe.wait_queue"(%a) {queue = 0 : i64} : (!nvgpu.device.async.token) -> ()
  return
}
