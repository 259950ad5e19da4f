// A scope with a condition inside is one scope on both ways through it.
// RUN: async-pipe-opt %s --split-input-file --verify-diagnostics --async-pipe-check

func.func @read_before_the_wait(%A : memref<16xf32> {llvm.noalias},
                                %C : memref<16xf32> {llvm.noalias}, %condition : i1) {
  %c0 = arith.constant 0 : index
  %B = memref.alloca() : memref<1xf32>
  "async_pipe.scope"() ({
    scf.if %condition {
      %a = memref.load %A[%c0] : memref<16xf32>
      // expected-note @below {{this op is in flight there, with 0 younger groups}}
      memref.store %a, %B[%c0] : memref<1xf32>
    }
    "async_pipe.yield"() : () -> ()
  }) {queue = 0 : i64} : () -> ()
  %group = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> !nvgpu.device.async.token
  // expected-note @below {{a wait is missing before this: count 0 would do}}
  // expected-error @below {{'memref.load' reads what 'memref.store' may still be writing}}
  %b = memref.load %B[%c0] : memref<1xf32>
  memref.store %b, %C[%c0] : memref<16xf32>
  "async_pipe.wait_queue"(%group) {count = 0 : i64, queue = 0 : i64}
    : (!nvgpu.device.async.token) -> ()
  return
}

// -----

func.func @read_after_the_wait(%A : memref<16xf32> {llvm.noalias},
                                %C : memref<16xf32> {llvm.noalias}, %condition : i1) {
  %c0 = arith.constant 0 : index
  %B = memref.alloca() : memref<1xf32>
  "async_pipe.scope"() ({
    scf.if %condition {
      %a = memref.load %A[%c0] : memref<16xf32>
      memref.store %a, %B[%c0] : memref<1xf32>
      %own = memref.load %B[%c0] : memref<1xf32>
      memref.store %own, %B[%c0] : memref<1xf32>
    }
    "async_pipe.yield"() : () -> ()
  }) {queue = 0 : i64} : () -> ()
  %group = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> !nvgpu.device.async.token
  "async_pipe.wait_queue"(%group) {count = 0 : i64, queue = 0 : i64}
    : (!nvgpu.device.async.token) -> ()
  %b = memref.load %B[%c0] : memref<1xf32>
  memref.store %b, %C[%c0] : memref<16xf32>
  return
}
