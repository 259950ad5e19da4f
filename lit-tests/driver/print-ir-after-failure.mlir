// The IR that a failing pass leaves is dumped, that of the passes before it is not.
// RUN: not async-pipe-opt %s --cse --async-pipe-schedule --mlir-print-ir-after-failure 2>&1 | FileCheck %s

// CHECK-NOT:   IR Dump After cse
// CHECK:       // -----// IR Dump After async-pipe-schedule Failed //----- //
// CHECK-LABEL: func.func @negative_stage
// CHECK:       error:
func.func @negative_stage(%m: memref<8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  scf.for %i = %c0 to %c8 step %c1 {
    %v = memref.load %m[%i] : memref<8xf32>
    memref.store %v, %m[%i] : memref<8xf32>
  } {async_pipe.stage = array<i64: -1, 0>, async_pipe.order = array<i64: 0, 1>}
  return
}
