// Expand alone meets an inner loop whose annotations nobody has turned into the op form.
// RUN: async-pipe-opt %s --verify-diagnostics --async-pipe-expand

func.func @f(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  // expected-error @below {{cannot pipeline: a loop inside still waits to be pipelined itself [inner-loop-first]}}
  scf.for %i = %c0 to %c16 step %c1 {
    scf.for %j = %c0 to %c16 step %c1 {
      %a = memref.load %A[%j] : memref<16xf32>
      memref.store %a, %C[%j] : memref<16xf32>
    } {async_pipe.stage = [0, 1]}
    %b = memref.load %A[%i] {async_pipe.stage = 0} : memref<16xf32>
    memref.store %b, %C[%i] {async_pipe.stage = 1} : memref<16xf32>
  }
  return
}
