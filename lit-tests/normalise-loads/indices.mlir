// RUN: async-pipe-opt %s --async-pipe-normalise-loads | FileCheck %s
// RUN: async-pipe-opt %s --async-pipe-normalise-loads --async-pipe-normalise-loads | FileCheck %s

// An index that is the same in all iterations is loaded before the loop, if there is one.

#wg = #gpu.address_space<workgroup>
gpu.module @k {
  // CHECK-LABEL: gpu.func @some
  // CHECK:         %[[SOME:.*]] = arith.cmpi slt, %c0, %{{.*}} : index
  // CHECK:         %[[ROW:.*]] = scf.if %[[SOME]] -> (i32) {
  // CHECK:           %[[T:.*]] = affine.apply
  // CHECK:           %[[R:.*]] = memref.load %{{.*}}[%[[T]]] : memref<?xi32>
  // CHECK:           scf.yield %[[R]]
  // CHECK:         } else {
  // CHECK:           scf.yield %{{.*}} : i32
  // CHECK:         }
  // CHECK:         scf.for
  // CHECK-NOT:       memref<?xi32>
  // CHECK:           arith.index_cast %[[ROW]] : i32 to index
  gpu.func @some(%A: memref<?x?xf32> {llvm.noalias}, %rows: memref<?xi32> {llvm.noalias}, %C: memref<?xf32> {llvm.noalias}, %n: index)
      workgroup(%tile: memref<32xf32, #wg>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %t = gpu.thread_id x
    %zero = arith.constant 0.0 : f32
    %sum = scf.for %k = %c0 to %n step %c1 iter_args(%s = %zero) -> (f32) {
      %half = affine.apply affine_map<(t) -> (t floordiv 2)>(%t)
      %row = memref.load %rows[%half] : memref<?xi32>
      %i = arith.index_cast %row : i32 to index
      %copy = nvgpu.device_async_copy %A[%i, %k], %tile[%t], 1 : memref<?x?xf32> to memref<32xf32, #wg>
      %group = nvgpu.device_async_create_group %copy
      nvgpu.device_async_wait %group
      gpu.barrier
      %x = memref.load %tile[%c0] : memref<32xf32, #wg>
      %next = arith.addf %s, %x : f32
      gpu.barrier
      scf.yield %next : f32
    } {async_pipe.num_stages = 3 : i64}
    memref.store %sum, %C[%t] : memref<?xf32>
    gpu.return
  }

  // An index of an index; four iterations are some.
  // CHECK-LABEL: gpu.func @index_of_an_index
  // CHECK-NOT:     scf.if
  // CHECK:         %[[FIRST:.*]] = memref.load
  // CHECK:         %[[CAST:.*]] = arith.index_cast %[[FIRST]]
  // CHECK:         memref.load %{{.*}}[%[[CAST]]]
  // CHECK:         scf.for
  // CHECK-NOT:       memref<?xi32>
  // CHECK:           memref.load %{{.*}} : memref<?x?xf32>
  gpu.func @index_of_an_index(%A: memref<?x?xf32> {llvm.noalias}, %rows: memref<?xi32> {llvm.noalias}, %C: memref<?xf32> {llvm.noalias}) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %t = gpu.thread_id x
    scf.for %k = %c0 to %c4 step %c1 {
      %first = memref.load %rows[%t] : memref<?xi32>
      %at = arith.index_cast %first : i32 to index
      %second = memref.load %rows[%at] : memref<?xi32>
      %i = arith.index_cast %second : i32 to index
      %x = memref.load %A[%i, %k] : memref<?x?xf32>
      memref.store %x, %C[%k] : memref<?xf32>
    } {async_pipe.num_stages = 2 : i64}
    gpu.return
  }

  // What the loop changes, floats, and loads by the counter stay.
  // CHECK-LABEL: gpu.func @stays
  // CHECK:         scf.for
  // CHECK:           memref.load %{{.*}} : memref<?xi32>
  // CHECK:           memref.load %{{.*}} : memref<?xf32>
  // CHECK:           memref.load %{{.*}} : memref<?xi64>
  gpu.func @stays(%A: memref<?x?xf32> {llvm.noalias}, %rows: memref<?xi32> {llvm.noalias}, %F: memref<?xf32> {llvm.noalias}, %W: memref<?xi64> {llvm.noalias}) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %t = gpu.thread_id x
    scf.for %k = %c0 to %c4 step %c1 {
      %by_counter = memref.load %rows[%k] : memref<?xi32>
      %float = memref.load %F[%t] : memref<?xf32>
      %written = memref.load %W[%t] : memref<?xi64>
      %wide = arith.extsi %by_counter : i32 to i64
      %both = arith.addi %wide, %written : i64
      memref.store %both, %W[%k] : memref<?xi64>
      %i = arith.index_cast %by_counter : i32 to index
      memref.store %float, %A[%i, %k] : memref<?x?xf32>
    } {async_pipe.num_stages = 2 : i64}
    gpu.return
  }

  // An argument that is not noalias may be what is written; who acquires a flag reads what others wrote.
  // CHECK-LABEL: gpu.func @may_be_written
  // CHECK:         scf.for
  // CHECK:           memref.load %{{.*}} : memref<?xi32>
  gpu.func @may_be_written(%A: memref<?xi32>, %rows: memref<?xi32>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    scf.for %k = %c0 to %c4 step %c1 {
      %row = memref.load %rows[%c0] : memref<?xi32>
      memref.store %row, %A[%k] : memref<?xi32>
    } {async_pipe.num_stages = 2 : i64}
    gpu.return
  }

  // CHECK-LABEL: gpu.func @behind_a_fence
  // CHECK:         scf.for
  // CHECK:           memref.load %{{.*}} : memref<?xi32>
  gpu.func @behind_a_fence(%A: memref<?xi32> {llvm.noalias}, %rows: memref<?xi32> {llvm.noalias}) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    scf.for %k = %c0 to %c4 step %c1 {
      llvm.fence acquire
      %row = memref.load %rows[%c0] : memref<?xi32>
      memref.store %row, %A[%k] : memref<?xi32>
    } {async_pipe.num_stages = 2 : i64}
    gpu.return
  }
}
