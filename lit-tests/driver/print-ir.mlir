// Dumps go to stderr around the passes that are named, ours and MLIR's alike.
// RUN: async-pipe-opt %s --cse --canonicalize --mlir-print-ir-before=canonicalize -o %t 2>&1 | FileCheck %s --check-prefix=BEFORE
// RUN: async-pipe-opt %s --async-pipe-schedule --cse --mlir-print-ir-after-all -o %t 2>&1 | FileCheck %s --check-prefix=ALL
// RUN: async-pipe-opt %s --cse --canonicalize --mlir-print-ir-after-change -o %t 2>&1 | FileCheck %s --check-prefix=CHANGE
// RUN: async-pipe-opt %s --pass-pipeline='builtin.module(func.func(cse))' --mlir-print-ir-after=cse -o %t 2>&1 | FileCheck %s --check-prefix=NESTED
// RUN: async-pipe-opt %s --pass-pipeline='builtin.module(func.func(cse))' --mlir-print-ir-after=cse --mlir-print-ir-module-scope -o %t 2>&1 | FileCheck %s --check-prefix=SCOPE

// BEFORE-NOT: IR Dump Before cse
// BEFORE:     // -----// IR Dump Before canonicalize //----- //
// BEFORE:       func.func @twice
// BEFORE-NOT: IR Dump After

// ALL: // -----// IR Dump After async-pipe-schedule //----- //
// ALL:   arith.addi
// ALL:   arith.addi
// ALL: // -----// IR Dump After cse //----- //
// ALL:     arith.addi
// ALL-NOT: arith.addi

// CHANGE:     // -----// IR Dump After cse //----- //
// CHANGE-NOT: IR Dump

// NESTED:      // -----// IR Dump After cse ('func.func' operation: @twice) //----- //
// NESTED-NEXT: func.func @twice
// SCOPE:       // -----// IR Dump After cse ('func.func' operation: @twice) //----- //
// SCOPE-NEXT:  module
func.func @twice(%a: index, %b: index) -> (index, index) {
  %0 = arith.addi %a, %b : index
  %1 = arith.addi %a, %b : index
  return %0, %1 : index, index
}
