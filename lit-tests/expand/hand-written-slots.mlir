// Slots that the author counts himself, i mod 2: the reader of iteration k and the writer of
// iteration k + 1 use different slots, so they may change places; k + 2 is the same slot again.
// RUN: async-pipe-opt %s --split-input-file --async-pipe-schedule --async-pipe-expand --verify-diagnostics | FileCheck %s

// CHECK-LABEL: func.func @two_slots
// CHECK:       scf.for
// CHECK:         memref.store
// CHECK:         memref.load
func.func @two_slots(%A: memref<16xf32> {llvm.noalias}, %D: memref<16xf32> {llvm.noalias}, %B: memref<2xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c16 = arith.constant 16 : index
  scf.for %i = %c0 to %c16 step %c1 {
    %slot = arith.remui %i, %c2 : index
    %a = memref.load %A[%i] : memref<16xf32>
    memref.store %a, %B[%slot] : memref<2xf32>
    %b = memref.load %B[%slot] : memref<2xf32>
    memref.store %b, %D[%i] : memref<16xf32>
  } {async_pipe.stage = [0, 0, 1, 1]}
  return
}

// -----

func.func @two_slots_are_too_few(%A: memref<16xf32> {llvm.noalias}, %D: memref<16xf32> {llvm.noalias}, %B: memref<2xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c16 = arith.constant 16 : index
  scf.for %i = %c0 to %c16 step %c1 {
    %slot = arith.remui %i, %c2 : index
    %a = memref.load %A[%i] : memref<16xf32>
    // expected-error @+1 {{'memref.store' in stage 0 writes what 'memref.load' in stage 2 reads 2 iterations before, and would run before it [dependence-violated]}}
    memref.store %a, %B[%slot] : memref<2xf32>
    // expected-note @+1 {{the 'memref.load' that reads it}}
    %b = memref.load %B[%slot] : memref<2xf32>
    memref.store %b, %D[%i] : memref<16xf32>
  } {async_pipe.stage = [0, 0, 2, 2]}
  return
}
