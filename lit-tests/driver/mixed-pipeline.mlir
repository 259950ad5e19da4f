// Our passes stand between MLIR's at any nesting; the loop is scheduled after cse ran on its function.
// RUN: async-pipe-opt %s --pass-pipeline='builtin.module(func.func(cse, async-pipe-schedule, canonicalize), symbol-dce)' | FileCheck %s

// CHECK-LABEL: func.func @plain
// CHECK-NOT:     arith.addi
// CHECK:         return
func.func @plain(%a: index) {
  %0 = arith.addi %a, %a : index
  return
}

// CHECK-NOT: @unused
func.func private @unused() {
  return
}
