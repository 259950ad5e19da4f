// What the input leaves to chance between threads of one iteration is its own affair: a remark,
// and the loop is pipelined.
// RUN: async-pipe-opt %s --split-input-file --verify-diagnostics --async-pipe-schedule --async-pipe-expand | FileCheck %s

#wg = #gpu.address_space<workgroup>

// CHECK-LABEL: gpu.func @reads_its_neighbours_element
// CHECK:         scf.for
gpu.module @kernels {
  gpu.func @reads_its_neighbours_element(
      %A : memref<128x16xf32> {llvm.noalias}, %C : memref<128x16xf32> {llvm.noalias})
      workgroup(%tile : memref<128xf32, #wg>) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %c127 = arith.constant 127 : index
    %tid = gpu.thread_id x
    %other = arith.subi %c127, %tid : index
    scf.for %i = %c0 to %c16 step %c1 {
      %a = memref.load %A[%tid, %i] : memref<128x16xf32>
      // expected-note @below {{thread 127 writes it here}}
      memref.store %a, %tile[%tid] : memref<128xf32, #wg>
      // expected-remark @below {{thread 0 reads what thread 127 writes in the same iteration, and the input has no barrier between them; the pipeline has none either [input-race]}}
      %b = memref.load %tile[%other] : memref<128xf32, #wg>
      gpu.barrier
      memref.store %b, %C[%tid, %i] : memref<128x16xf32>
    } {async_pipe.stage = [0, 0, 1, 1]}
    gpu.return
  }
}

// -----

#wg = #gpu.address_space<workgroup>

// A thread that reads only what it wrote itself meets nobody.
// CHECK-LABEL: gpu.func @reads_its_own_element
// CHECK:         scf.for
gpu.module @kernels {
  gpu.func @reads_its_own_element(
      %A : memref<128x16xf32> {llvm.noalias}, %C : memref<128x16xf32> {llvm.noalias})
      workgroup(%tile : memref<128xf32, #wg>) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %tid = gpu.thread_id x
    scf.for %i = %c0 to %c16 step %c1 {
      %a = memref.load %A[%tid, %i] : memref<128x16xf32>
      memref.store %a, %tile[%tid] : memref<128xf32, #wg>
      %b = memref.load %tile[%tid] : memref<128xf32, #wg>
      memref.store %b, %C[%tid, %i] : memref<128x16xf32>
    } {async_pipe.stage = [0, 0, 1, 1]}
    gpu.return
  }
}

// -----

#wg = #gpu.address_space<workgroup>

// After a barrier the threads may meet.
// CHECK-LABEL: gpu.func @barrier_between
// CHECK:         scf.for
gpu.module @kernels {
  gpu.func @barrier_between(
      %A : memref<128x16xf32> {llvm.noalias}, %C : memref<128x16xf32> {llvm.noalias})
      workgroup(%tile : memref<128xf32, #wg>) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %c127 = arith.constant 127 : index
    %tid = gpu.thread_id x
    %other = arith.subi %c127, %tid : index
    scf.for %i = %c0 to %c16 step %c1 {
      %a = memref.load %A[%tid, %i] : memref<128x16xf32>
      memref.store %a, %tile[%tid] : memref<128xf32, #wg>
      gpu.barrier
      %b = memref.load %tile[%other] : memref<128xf32, #wg>
      gpu.barrier
      memref.store %b, %C[%tid, %i] : memref<128x16xf32>
    } {async_pipe.stage = [0, 0, 1, 1]}
    gpu.return
  }
}
