// What stands close to the worked examples and is wrong.
// RUN: async-pipe-opt %s --split-input-file --verify-diagnostics --async-pipe

// The read may happen where the write did not.
func.func @other_condition(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias},
                %n : index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  // expected-note @below {{say so with `async_pipe.private` on the allocation}}
  %B = memref.alloca() : memref<1xf32>
  scf.for %i = %c0 to %c16 step %c1 {
    %inside = arith.cmpi ult, %i, %n : index
    %also = arith.cmpi ule, %i, %n : index
    scf.if %inside {
      %a = memref.load %A[%i] : memref<16xf32>
      memref.store %a, %B[%c0] : memref<1xf32>
    }
    scf.if %also {
      // expected-note @below {{this 'memref.load' reads it}}
      // expected-error @below {{[not-privatisable]}}
      %b = memref.load %B[%c0] : memref<1xf32>
      memref.store %b, %C[%i] : memref<16xf32>
    }
  } {async_pipe.stage = array<i64: 0, 2>, async_pipe.async_stages = array<i64: 0>}
  return
}

// -----

// The same condition, but the other branch.
func.func @other_branch(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias},
                %n : index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  // expected-note @below {{say so with `async_pipe.private` on the allocation}}
  %B = memref.alloca() : memref<1xf32>
  scf.for %i = %c0 to %c16 step %c1 {
    %inside = arith.cmpi ult, %i, %n : index
    scf.if %inside {
      %a = memref.load %A[%i] : memref<16xf32>
      memref.store %a, %B[%c0] : memref<1xf32>
    }
    scf.if %inside {
    } else {
      // expected-note @below {{this 'memref.load' reads it}}
      // expected-error @below {{[not-privatisable]}}
      %b = memref.load %B[%c0] : memref<1xf32>
      memref.store %b, %C[%i] : memref<16xf32>
    }
  } {async_pipe.stage = array<i64: 0, 2>, async_pipe.async_stages = array<i64: 0>}
  return
}

// -----

// Consumer in the producer's stage, but before it in order.
func.func @consumer_before_producer(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias},
                %n : index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %B = memref.alloca() : memref<1xf32>
  scf.for %i = %c0 to %c16 step %c1 {
    scf.execute_region no_inline {
      %a = memref.load %A[%i] : memref<16xf32>
      // expected-note @below {{the 'memref.store' that writes it}}
      memref.store %a, %B[%c0] : memref<1xf32>
      scf.yield
    }
    scf.execute_region no_inline {
      // expected-error @below {{[dependence-violated]}}
      %b = memref.load %B[%c0] : memref<1xf32>
      memref.store %b, %C[%i] : memref<16xf32>
      scf.yield
    }
  } {async_pipe.stage = array<i64: 0, 0>, async_pipe.order = array<i64: 1, 0>,
     async_pipe.async_stages = array<i64: 0>}
  return
}
