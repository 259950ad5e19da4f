// RUN: async-pipe-opt %s --async-pipe-normalise-swizzle=chip=sm_80 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t
// RUN: async-pipe-opt %s --async-pipe-normalise-swizzle=chip=sm_80 --async-pipe-normalise-swizzle=chip=sm_80 2>/dev/null | FileCheck %s

#wg = #gpu.address_space<workgroup>

// Rows of 64 bytes: two of them fill the banks, so the key changes with every second row.
// REMARK: remark: 'memref<32x32xf16, #gpu.address_space<workgroup>>' is laid out anew, the number of each 16-byte chunk xor (row / 2) mod 4: its accesses take 8 wavefronts, not 20; 8 are the least [swizzled]
// CHECK-LABEL: gpu.func @by_rows
// CHECK-SAME:    workgroup(%[[TILE:.*]] : memref<32x32xf16
// CHECK:       scf.for
// CHECK:         %[[HALF:.*]] = arith.divui %[[ROW:.*]], %{{.*}} : index
// CHECK:         %[[REST:.*]] = arith.remui %[[HALF]], %{{.*}} : index
// CHECK:         %[[KEY:.*]] = arith.muli %[[REST]], %{{.*}} : index
// CHECK:         %[[AT:.*]] = arith.xori %[[COLUMN:.*]], %[[KEY]] : index
// CHECK:         nvgpu.device_async_copy %{{.*}}[%{{.*}}, %{{.*}}], %[[TILE]][%[[ROW]], %[[AT]]], 8
// CHECK:         %[[AT2:.*]] = arith.xori
// CHECK:         nvgpu.ldmatrix %[[TILE]][%[[LANE:.*]], %[[AT2]]]
// CHECK-NOT:     async_pipe.swizzle
gpu.module @one {
  gpu.func @by_rows(%from: memref<?x?xf16> {llvm.noalias}, %to: memref<32x8xvector<2xf16>> {llvm.noalias}, %n: index)
      workgroup(%tile: memref<32x32xf16, #wg>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %c32 = arith.constant 32 : index
    %t = gpu.thread_id x
    %row = arith.divui %t, %c4 : index
    %piece = arith.remui %t, %c4 : index
    %column = arith.muli %piece, %c8 : index
    scf.for %k = %c0 to %n step %c32 {
      %at = arith.addi %k, %column : index
      %copy = nvgpu.device_async_copy %from[%row, %at], %tile[%row, %column], 8 : memref<?x?xf16> to memref<32x32xf16, #wg>
      %x = nvgpu.ldmatrix %tile[%t, %c0] {numTiles = 4 : i32, transpose = false} : memref<32x32xf16, #wg> -> vector<4x2xf16>
    } {async_pipe.num_stages = 3 : i64, async_pipe.swizzle = "auto"}
    gpu.return
  }
}

// A column of floats is read: words are no chunks that a xor could spread over all banks, a longer row does.
// REMARK: remark: 'memref<32x32xf32, #gpu.address_space<workgroup>>' is laid out anew, rows 4 bytes longer: its accesses take 2 wavefronts, not 33; 2 are the least [swizzled]
// CHECK-LABEL: gpu.func @transposed
// CHECK-SAME:    workgroup(%[[TILE:.*]] : memref<32x33xf32
// CHECK-NOT:   arith.xori
// CHECK:       memref.store %{{.*}}, %[[TILE]][%[[I:.*]], %[[T:.*]]] : memref<32x33xf32
// CHECK:       memref.load %[[TILE]][%[[T]], %[[I]]] : memref<32x33xf32
gpu.module @two {
  gpu.func @transposed(%from: memref<?x32xf32> {llvm.noalias}, %to: memref<?x32xf32> {llvm.noalias}, %n: index)
      workgroup(%tile: memref<32x32xf32, #wg>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %t = gpu.thread_id x
    scf.for %i = %c0 to %n step %c1 {
      %v = memref.load %from[%i, %t] : memref<?x32xf32>
      memref.store %v, %tile[%i, %t] : memref<32x32xf32, #wg>
      gpu.barrier
      %w = memref.load %tile[%t, %i] : memref<32x32xf32, #wg>
      memref.store %w, %to[%i, %t] : memref<?x32xf32>
      gpu.barrier
    } {async_pipe.num_stages = 2 : i64, async_pipe.swizzle = "auto"}
    gpu.return
  }
}
