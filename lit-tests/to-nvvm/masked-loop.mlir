// RUN: async-pipe-opt %s --async-pipe --target=nvvm:sm_80 --emit=ptx | FileCheck %s
// REQUIRES: bindings-numba-cuda-mlir

// A pipelined loop over a ragged row: its last copies read what is left of A. `num_stages` sees
// that the masked load and the store are one copy.

// CHECK-LABEL: .entry ragged(
// CHECK:         cp.async.cg.shared.global [{{.*}}], [{{.*}}], 16, %r
// CHECK:         cp.async.commit_group
// CHECK:         cp.async.wait_group 1
// CHECK:         cp.async.wait_group 0
#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  gpu.func @ragged(%A : memref<?xf32> {llvm.noalias, llvm.align = 16 : i32},
                   %C : memref<?xf32> {llvm.noalias}, %n : index)
      workgroup(%tile : memref<128xf32, #wg> {llvm.align = 16 : i64})
      kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c4 = arith.constant 4 : index
    %c31 = arith.constant 31 : index
    %c128 = arith.constant 128 : index
    %zero = arith.constant 0.0 : f32
    %tid = gpu.thread_id x
    %at = arith.muli %tid, %c4 : index
    %other = arith.subi %c31, %tid : index
    scf.for %i = %c0 to %n step %c128 {
      %here = arith.addi %i, %at : index
      %left = arith.subi %n, %here : index
      %m = vector.create_mask %left : vector<4xi1>
      %v = vector.transfer_read %A[%here], %zero, %m {in_bounds = [true]} : memref<?xf32>, vector<4xf32>
      vector.store %v, %tile[%at] : memref<128xf32, #wg>, vector<4xf32>
      gpu.barrier
      %x = memref.load %tile[%other] : memref<128xf32, #wg>
      %y = arith.addi %i, %tid : index
      memref.store %x, %C[%y] : memref<?xf32>
      gpu.barrier
    } {async_pipe.num_stages = 3 : i64}
    gpu.return
  }
}
