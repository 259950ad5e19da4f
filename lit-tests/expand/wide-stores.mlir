// Stores of a warp that fill rows of 64 bytes go through the buffer of the loop where they are asked to, and addresses and
// strides allow it. By themselves they do not: they fill whole sectors as they are.
// RUN: async-pipe-opt %s --target=nvvm:sm_80 --async-pipe --canonicalize | FileCheck %s
// RUN: async-pipe-opt %s --target=nvvm:sm_80 --async-pipe 2>&1 | FileCheck %s --check-prefix=ASKED
// RUN: sed 's/"tile"/"auto"/' %s | async-pipe-opt --target=nvvm:sm_80 --async-pipe 2>&1 | FileCheck %s --check-prefix=AUTO

#wg = #gpu.address_space<workgroup>

gpu.module @m {
  // CHECK-LABEL: gpu.func @k
  // CHECK-SAME: %[[C:arg[0-9]+]]: memref<?x?xf32> {llvm.noalias}) workgroup(%[[TILE:arg[0-9]+]] : memref<3x4x64xf32,
  // CHECK: memref.extract_aligned_pointer_as_index %[[C]]
  // CHECK: %[[MULTIPLES:.*]] = arith.cmpi eq, %{{.*}}, %c0
  // CHECK: scf.if %[[MULTIPLES]] {
  // CHECK-NEXT: %[[FLAT:.*]] = memref.collapse_shape %[[TILE]] {{\[}}[0, 1, 2]] : memref<3x4x64xf32, #gpu.address_space<workgroup>> into memref<768xf32,
  // CHECK: gpu.barrier memfence [#gpu.address_space<workgroup>]
  // CHECK-COUNT-4: vector.store %{{.*}}, %[[FLAT]][{{.*}}] {alignment = 8 : i64}
  // CHECK-NOT: vector.store
  // CHECK: nvvm.bar.warp.sync
  // CHECK-COUNT-2: vector.load %[[FLAT]][{{.*}}] {alignment = 16 : i64}
  // CHECK-COUNT-2: vector.store %{{.*}}, %[[C]][{{.*}}] {alignment = 16 : i64} : memref<?x?xf32>, vector<4xf32>
  // CHECK-NOT: gpu.barrier
  // CHECK: } else {
  // CHECK-COUNT-4: vector.store %{{.*}}, %[[C]][{{.*}}] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
  // CHECK: gpu.return
  // ASKED: remark: 4 stores of 8 bytes a lane become 2 of 16 bytes, by way of attribution {{.*}} in 1 round: 16 lines of 128 bytes, not 32, where addresses and strides are multiples of 16 bytes [stores-through-tile]
  // AUTO-NOT: [stores-as-written]
  // AUTO-NOT: nvvm.bar.warp.sync
  gpu.func @k(%A: memref<?x64xf32> {llvm.noalias, llvm.align = 16 : i64}, %C: memref<?x?xf32> {llvm.noalias})
      workgroup(%tile: memref<4x64xf32, #wg> {llvm.align = 16 : i64}) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %c16 = arith.constant 16 : index
    %c32 = arith.constant 32 : index
    %zero = arith.constant dense<0.0> : vector<2xf32>
    %t = gpu.thread_id x
    %copied = arith.divui %t, %c16 : index
    %piece = arith.remui %t, %c16 : index
    %column = arith.muli %piece, %c4 : index
    %warp = arith.divui %t, %c32 : index
    %lane = arith.remui %t, %c32 : index
    %rows = arith.muli %warp, %c16 : index
    %low = arith.divui %lane, %c4 : index
    %pair = arith.remui %lane, %c4 : index
    %first = arith.muli %pair, %c2 : index
    %end = memref.dim %A, %c0 : memref<?x64xf32>
    %sums:4 = scf.for %i = %c0 to %end step %c4 iter_args(%a = %zero, %b = %zero, %c = %zero, %d = %zero)
        -> (vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>) {
      %row = arith.addi %i, %copied : index
      %v = vector.load %A[%row, %column] : memref<?x64xf32>, vector<4xf32>
      vector.store %v, %tile[%copied, %column] : memref<4x64xf32, #wg>, vector<4xf32>
      gpu.barrier
      %x = vector.load %tile[%c0, %first] : memref<4x64xf32, #wg>, vector<2xf32>
      %y = vector.load %tile[%c1, %low] : memref<4x64xf32, #wg>, vector<2xf32>
      %ax = arith.addf %a, %x : vector<2xf32>
      %by = arith.addf %b, %y : vector<2xf32>
      %cx = arith.mulf %c, %x : vector<2xf32>
      %dy = arith.mulf %d, %y : vector<2xf32>
      gpu.barrier
      scf.yield %ax, %by, %cx, %dy : vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>
    } {async_pipe.num_stages = 3 : i64, async_pipe.store_through = "tile"}
    %r0 = arith.addi %rows, %low : index
    %r1 = arith.addi %r0, %c8 : index
    %q1 = arith.addi %first, %c8 : index
    vector.store %sums#0, %C[%r0, %first] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    vector.store %sums#1, %C[%r1, %first] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    vector.store %sums#2, %C[%r0, %q1] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    vector.store %sums#3, %C[%r1, %q1] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    gpu.return
  }
}
