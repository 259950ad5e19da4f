// `async_pipe.private` on a buffer that an iteration reads before it writes it: what the read sees
// is vouched for by nobody, so it waits for no write of an iteration that comes later in time.
// RUN: async-pipe-opt %s --async-pipe-schedule --async-pipe-expand --async-pipe-count-waits | FileCheck %s

// CHECK-LABEL: func.func @reads_first
// CHECK:         scf.for
// CHECK:           memref.load %[[B:.*]][%{{.*}}] : memref<1xf32>
// CHECK-NOT:       async_pipe.wait_queue
// CHECK:           memref.store
// CHECK-NEXT:      "async_pipe.wait_queue"(%{{.*}}) {count = 0 : i64, queue = 2 : i64}
// CHECK-NEXT:      "async_pipe.scope"
func.func @reads_first(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %B = memref.alloca() {async_pipe.private} : memref<1xf32>
  scf.for %i = %c0 to %c16 step %c1 {
    scf.execute_region no_inline {
      %b = memref.load %B[%c0] : memref<1xf32>
      memref.store %b, %C[%i] : memref<16xf32>
      scf.yield
    }
    scf.execute_region no_inline {
      %a = memref.load %A[%i] : memref<16xf32>
      memref.store %a, %B[%c0] : memref<1xf32>
      scf.yield
    }
  } {async_pipe.stage = [0, 2], async_pipe.async_stages = [2]}
  return
}
