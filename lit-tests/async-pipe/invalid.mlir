// A loop that cannot be pipelined is one located error, whatever else the module holds, and
// nothing is written: not even the loops that could be.
// RUN: async-pipe-opt %s --verify-diagnostics --async-pipe
// RUN: not async-pipe-opt %s --async-pipe -o %t.mlir 2>&1 | FileCheck %s
// RUN: not cat %t.mlir

// CHECK:     invalid.mlir:{{[0-9]+}}:10: error: cannot pipeline: 'memref.load' in stage 0
// CHECK:     note: the 'memref.store' that writes it
// CHECK-NOT: error

func.func @fine(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  scf.for %i = %c0 to %c16 step %c1 {
    %a = memref.load %A[%i] : memref<16xf32>
    memref.store %a, %C[%i] : memref<16xf32>
  } {async_pipe.stage = [0, 1]}
  return
}

func.func @writes_what_it_reads(%A : memref<16xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c15 = arith.constant 15 : index
  scf.for %i = %c0 to %c15 step %c1 {
    // expected-error @below {{cannot pipeline: 'memref.load' in stage 0 reads what 'memref.store' in stage 1 writes 1 iteration before, and would run before it [dependence-violated]}}
    %a = memref.load %A[%i] : memref<16xf32>
    %next = arith.addi %i, %c1 : index
    // expected-note @below {{the 'memref.store' that writes it}}
    memref.store %a, %A[%next] : memref<16xf32>
  } {async_pipe.stage = [0, 1]}
  return
}
