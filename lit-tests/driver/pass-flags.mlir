// Passes given as flags run in order; a pass that insists on another op is nested into it.
// RUN: async-pipe-opt %s --cse | FileCheck %s --check-prefix=CSE
// RUN: async-pipe-opt %s -canonicalize="top-down=false" -cse | FileCheck %s --check-prefix=BOTH
// RUN: async-pipe-opt %s --convert-gpu-to-nvvm | FileCheck %s --check-prefix=NESTED

// CSE-LABEL: func.func @twice
// CSE:         arith.addi
// CSE-NOT:     arith.addi
// CSE:         arith.constant 0
// BOTH-LABEL: func.func @twice
// BOTH:         %[[SUM:.*]] = arith.addi %[[A:.*]], %[[A]]
// BOTH-NEXT:    return %[[SUM]], %[[SUM]]
func.func @twice(%a: index) -> (index, index) {
  %0 = arith.addi %a, %a : index
  %1 = arith.addi %a, %a : index
  %zero = arith.constant 0 : index
  %2 = arith.addi %1, %zero : index
  return %0, %2 : index, index
}

gpu.module @kernels {
  // NESTED-LABEL: gpu.module @kernels
  // NESTED:         llvm.func @nothing
  gpu.func @nothing() kernel {
    gpu.return
  }
}
