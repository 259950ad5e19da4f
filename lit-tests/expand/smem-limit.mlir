// Workgroup memory is bounded: first waits are tightened, then the loop is refused.
// RUN: async-pipe-opt %s --async-pipe-schedule --async-pipe-expand --async-pipe-count-waits | FileCheck %s --check-prefix=FREE
// RUN: async-pipe-opt %s --async-pipe-schedule --async-pipe-expand="smem_limit=16" --async-pipe-count-waits | FileCheck %s --check-prefix=TIGHT
// RUN: async-pipe-opt %s --async-pipe-schedule --async-pipe-expand="smem_limit=16" --verify-diagnostics
// RUN: not async-pipe-opt %s --async-pipe-schedule --async-pipe-expand="smem_limit=15" 2>&1 | FileCheck %s --check-prefix=REFUSED

// REFUSED: error: cannot pipeline: the versions need 16 bytes of workgroup memory, the limit is 15 [smem-limit]
// REFUSED: note: 1 versions of every buffer would fit

// B is read by an asynchronous statement, which its next writer must outlast: three versions, or
// two and a wait before the writer that leaves nothing of stage 1 in flight.
#wg = #gpu.address_space<workgroup>
// FREE-LABEL: func.func @three_stages
// FREE:         memref.alloca() : memref<3x1xf32, #gpu.address_space<workgroup>>
// FREE:         memref.alloca() : memref<2x1xf32, #gpu.address_space<workgroup>>
// FREE:         scf.for
// FREE-NEXT:      arith.addi
// FREE-NEXT:      "async_pipe.scope"()
// FREE:           "async_pipe.wait_queue"({{.*}}) {count = 1 : i64, queue = 0 : i64}
// FREE:           "async_pipe.wait_queue"({{.*}}) {count = 1 : i64, queue = 1 : i64}
// FREE:           scf.yield

// TIGHT-LABEL: func.func @three_stages
// TIGHT:         memref.alloca() : memref<2x1xf32, #gpu.address_space<workgroup>>
// TIGHT:         memref.alloca() : memref<2x1xf32, #gpu.address_space<workgroup>>
// TIGHT:         scf.for
// TIGHT:           "async_pipe.wait_queue"({{.*}}) {count = 0 : i64, queue = 1 : i64}
// TIGHT:           "async_pipe.scope"()
// TIGHT:           "async_pipe.wait_queue"({{.*}}) {count = 1 : i64, queue = 0 : i64}
// TIGHT:           scf.yield
func.func @three_stages(%A : memref<16xf32> {llvm.noalias}, %D : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %B = memref.alloca() : memref<1xf32, #wg>
  %C = memref.alloca() : memref<1xf32, #wg>
  // expected-remark @below {{gets 2 versions instead of 3 to fit 16 bytes of workgroup memory; a wait stands before its reuse [waits-tightened]}}
  scf.for %i = %c0 to %c16 step %c1 {
    scf.execute_region no_inline {
      %a = memref.load %A[%i] : memref<16xf32>
      memref.store %a, %B[%c0] : memref<1xf32, #wg>
      scf.yield
    }
    scf.execute_region no_inline {
      %b = memref.load %B[%c0] : memref<1xf32, #wg>
      memref.store %b, %C[%c0] : memref<1xf32, #wg>
      scf.yield
    }
    scf.execute_region no_inline {
      %c = memref.load %C[%c0] : memref<1xf32, #wg>
      memref.store %c, %D[%i] : memref<16xf32>
      scf.yield
    }
  } {async_pipe.stage = [0, 1, 2], async_pipe.async_stages = [0, 1]}
  return
}
