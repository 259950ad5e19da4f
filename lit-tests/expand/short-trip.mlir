// A loop that runs less often than the pipeline has stages in flight stays as it is.
// RUN: async-pipe-opt %s --verify-diagnostics --async-pipe-schedule --async-pipe-expand
// RUN: async-pipe-opt %s --async-pipe-schedule --async-pipe-expand | FileCheck %s

// CHECK-LABEL: func.func @too_short
// CHECK:         scf.for
// CHECK-NEXT:      memref.load
// CHECK-NEXT:      memref.store
// CHECK-NEXT:    }{{$}}
// CHECK-NEXT:    return
func.func @too_short(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // expected-warning @below {{the loop runs 1 times, fewer than the 2 iterations that the pipeline keeps in flight; it stays as it is [short-trip]}}
  scf.for %i = %c0 to %c1 step %c1 {
    %a = memref.load %A[%i] : memref<16xf32>
    memref.store %a, %C[%i] : memref<16xf32>
  } {async_pipe.stage = [0, 2]}
  return
}

// Exactly as many iterations as are in flight: the kernel runs zero times.
// CHECK-LABEL: func.func @just_enough
// CHECK:         scf.for %{{.*}} = %[[LB:.*]] to %[[LB]] step
func.func @just_enough(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %c1 step %c1 {
    %a = memref.load %A[%i] : memref<16xf32>
    memref.store %a, %C[%i] : memref<16xf32>
  } {async_pipe.stage = [0, 1]}
  return
}
