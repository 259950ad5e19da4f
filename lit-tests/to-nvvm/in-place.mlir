// RUN: async-pipe-opt %s --split-input-file --verify-diagnostics --async-pipe-to-nvvm=chip=sm_80 | FileCheck %s

// What cp.async cannot do runs where the scope stands; its commit and its waits vanish, and the
// other waits keep their counts.

#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  // CHECK-LABEL: llvm.func @computes
  // CHECK:         llvm.load
  // CHECK:         llvm.fadd
  // CHECK:         llvm.store
  // CHECK-NOT:     nvvm.cp.async
  // CHECK:         nvvm.barrier
  gpu.func @computes(%A : memref<?xf32>)
      workgroup(%tile : memref<128xf32, #wg>) kernel {
    %one = arith.constant 1.0 : f32
    %tid = gpu.thread_id x
    // expected-warning @below {{this scope runs in place: sm_80 cannot run it asynchronously}}
    "async_pipe.scope"() ({
      %a = memref.load %A[%tid] : memref<?xf32>
      %b = arith.addf %a, %one : f32
      // expected-note @below {{the value that 'memref.store' writes is computed, not loaded}}
      memref.store %b, %tile[%tid] : memref<128xf32, #wg>
      "async_pipe.yield"() : () -> ()
    }) {queue = 0 : i64} : () -> ()
    %t = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> !nvgpu.device.async.token
    "async_pipe.wait_queue"(%t) {queue = 0 : i64, count = 0 : i64} : (!nvgpu.device.async.token) -> ()
    gpu.barrier
    gpu.return
  }
}

// -----

// A copy on queue 0 and a computation on queue 1: one commit stays, with its wait.
#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  // CHECK-LABEL: llvm.func @mixed
  // CHECK:         nvvm.cp.async.shared.global
  // CHECK:         nvvm.cp.async.commit.group
  // CHECK:         llvm.fadd
  // CHECK-NOT:     nvvm.cp.async.commit.group
  // CHECK:         nvvm.cp.async.wait.group 0
  // CHECK-NOT:     nvvm.cp.async.wait.group
  // CHECK:         llvm.return
  gpu.func @mixed(%A : memref<?xf32>)
      workgroup(%tile : memref<128xf32, #wg>, %sums : memref<128xf32, #wg>) kernel {
    %one = arith.constant 1.0 : f32
    %tid = gpu.thread_id x
    "async_pipe.scope"() ({
      %a = memref.load %A[%tid] : memref<?xf32>
      memref.store %a, %tile[%tid] : memref<128xf32, #wg>
      "async_pipe.yield"() : () -> ()
    }) {queue = 0 : i64} : () -> ()
    %t = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> !nvgpu.device.async.token
    // expected-warning @below {{this scope runs in place}}
    "async_pipe.scope"() ({
      %a = memref.load %A[%tid] : memref<?xf32>
      %b = arith.addf %a, %one : f32
      // expected-note @below {{is computed, not loaded}}
      memref.store %b, %sums[%tid] : memref<128xf32, #wg>
      "async_pipe.yield"() : () -> ()
    }) {queue = 1 : i64} : () -> ()
    %u = "async_pipe.commit_queue"() {queue = 1 : i64} : () -> !nvgpu.device.async.token
    "async_pipe.wait_queue"(%t) {queue = 0 : i64, count = 0 : i64} : (!nvgpu.device.async.token) -> ()
    "async_pipe.wait_queue"(%u) {queue = 1 : i64, count = 0 : i64} : (!nvgpu.device.async.token) -> ()
    gpu.return
  }
}

// -----

// Several blocks: after convert-scf-to-cf a scope may branch, also in a loop.
gpu.module @kernels {
  // CHECK-LABEL: llvm.func @branches
  // CHECK:         llvm.cond_br
  // CHECK:         llvm.cond_br
  // CHECK:         llvm.store
  // CHECK-NOT:     nvvm.cp.async
  // CHECK:         llvm.return
  gpu.func @branches(%A : memref<?xf32>, %C : memref<?xf32>, %c : i1, %n : index) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    scf.for %i = %c0 to %n step %c1 {
      // expected-warning @below {{this scope runs in place}}
      "async_pipe.scope"() ({
        cf.cond_br %c, ^copy, ^done
      ^copy:
        %a = memref.load %A[%i] : memref<?xf32>
        // expected-note @below {{'memref.store' does not write workgroup memory}}
        memref.store %a, %C[%i] : memref<?xf32>
        cf.br ^done
      ^done:
        "async_pipe.yield"() : () -> ()
      }) {queue = 0 : i64} : () -> ()
      %t = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> !nvgpu.device.async.token
      "async_pipe.wait_queue"(%t) {queue = 0 : i64, count = 0 : i64} : (!nvgpu.device.async.token) -> ()
    }
    gpu.return
  }
}

// -----

// A token that a loop carries is still a value when its commit is gone.
gpu.module @kernels {
  // CHECK-LABEL: llvm.func @carried
  // CHECK-NOT:     nvvm.cp.async
  // CHECK:         llvm.return
  gpu.func @carried(%C : memref<?xf32>, %x : f32, %n : index) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %first = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> !nvgpu.device.async.token
    %last = scf.for %i = %c0 to %n step %c1 iter_args(%t = %first) -> (!nvgpu.device.async.token) {
      // expected-warning @below {{this scope runs in place}}
      "async_pipe.scope"() ({
        // expected-note @below {{does not write workgroup memory}}
        memref.store %x, %C[%i] : memref<?xf32>
        "async_pipe.yield"() : () -> ()
      }) {queue = 0 : i64} : () -> ()
      %u = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> !nvgpu.device.async.token
      "async_pipe.wait_queue"(%t) {queue = 0 : i64, count = 1 : i64} : (!nvgpu.device.async.token) -> ()
      scf.yield %u : !nvgpu.device.async.token
    }
    "async_pipe.wait_queue"(%last) {queue = 0 : i64, count = 0 : i64} : (!nvgpu.device.async.token) -> ()
    gpu.return
  }
}
