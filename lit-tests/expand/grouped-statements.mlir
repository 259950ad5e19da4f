// An scf.execute_region makes several ops one statement; after the expansion it is gone.
// RUN: async-pipe-opt %s --async-pipe-schedule --async-pipe-expand | FileCheck %s

// CHECK-LABEL: func.func @grouped
// CHECK-NOT:   scf.execute_region
// CHECK:       "async_pipe.scope"
// CHECK-NEXT:    memref.load
// CHECK-NEXT:    arith.addf
// CHECK-NEXT:    memref.store
// CHECK:       scf.for
// CHECK:         "async_pipe.wait_queue"
// CHECK-NEXT:    %[[B:.*]] = memref.load
// CHECK-NEXT:    %[[SUM:.*]] = arith.addf %[[B]]
// CHECK-NEXT:    memref.store %[[SUM]]
// CHECK-NOT:   scf.execute_region
// CHECK:       return
func.func @grouped(%A: memref<16xf32> {llvm.noalias}, %D: memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %one = arith.constant 1.0 : f32
  %B = memref.alloca() : memref<1xf32>
  scf.for %i = %c0 to %c16 step %c1 {
    scf.execute_region no_inline {
      %a = memref.load %A[%i] : memref<16xf32>
      %a1 = arith.addf %a, %one : f32
      memref.store %a1, %B[%c0] : memref<1xf32>
      scf.yield
    }
    %v = scf.execute_region -> f32 no_inline {
      %b = memref.load %B[%c0] : memref<1xf32>
      %b1 = arith.addf %b, %one : f32
      scf.yield %b1 : f32
    }
    memref.store %v, %D[%i] : memref<16xf32>
  } {async_pipe.stage = [0, 1, 1], async_pipe.async_stages = [0]}
  return
}
