// The op form is checked by async-pipe-expand, too, where nothing made it.
// RUN: async-pipe-opt %s --split-input-file --verify-diagnostics --async-pipe-expand

func.func @stage_on_some_ops(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  scf.for %i = %c0 to %c16 step %c1 {
    // expected-note @below {{another statement of the loop has one}}
    %a = memref.load %A[%i] {async_pipe.stage = 0} : memref<16xf32>
    // expected-error @below {{statement 1, 'memref.store', has no 'async_pipe.stage' [stage-missing]}}
    memref.store %a, %C[%i] : memref<16xf32>
  }
  return
}

// -----

func.func @stage_below_zero(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  scf.for %i = %c0 to %c16 step %c1 {
    // expected-error @below {{'async_pipe.stage' is -1, expected 0 or more [negative-stage]}}
    %a = memref.load %A[%i] {async_pipe.stage = -1} : memref<16xf32>
    memref.store %a, %C[%i] {async_pipe.stage = 0} : memref<16xf32>
  }
  return
}
