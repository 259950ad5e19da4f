// RUN: not async-pipe-opt %s --async-pipe-suggest=num-stages=0 2>&1 | FileCheck %s
// RUN: async-pipe-opt %s --suggest --async-pipe-suggest=num-stages=1 2>&1 | FileCheck %s --check-prefix=ONE

// CHECK: error: 'async_pipe.num_stages' is 0, expected 1 or more [num-stages-too-small]
// ONE:   remark: 1 stages do not help this loop: one stage needs no pipelining; the loop stays as it is [one-stage] [no-suggestion]
func.func @f(%A : memref<16xf32>, %C : memref<16xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  scf.for %i = %c0 to %c16 step %c1 {
    %v = memref.load %A[%i] : memref<16xf32>
    memref.store %v, %C[%i] : memref<16xf32>
  }
  return
}
