// A grouping op that clean-ups would dissolve is accepted with a remark.
// RUN: async-pipe-opt %s --verify-diagnostics --async-pipe-schedule

func.func @dissolves(%A : memref<16xf32>, %C : memref<16xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  scf.for %i = %c0 to %c16 step %c1 {
    // expected-remark @below {{statement 0 is an 'scf.execute_region' that clean-ups will dissolve, which changes the numbering; give it `no_inline` [grouping-may-dissolve]}}
    scf.execute_region {
      %a = memref.load %A[%i] : memref<16xf32>
      memref.store %a, %C[%i] : memref<16xf32>
      scf.yield
    }
  } {async_pipe.stage = [0]}
  return
}
