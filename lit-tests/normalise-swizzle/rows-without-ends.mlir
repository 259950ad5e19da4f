// RUN: async-pipe-opt %s --async-pipe-normalise-swizzle=chip=gfx950 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t
// RUN: async-pipe-opt %s --async-pipe-normalise-swizzle=chip=sm_80 2>/dev/null | FileCheck %s --check-prefix=LANES

#wg = #gpu.address_space<workgroup>

// A wave copies to one stretch of 1024 bytes: the 8 bytes at the end of each row stand between.
// REMARK: remark: 'memref<64x68xf16, #gpu.address_space<workgroup>>' is laid out anew, rows 8 bytes shorter, the number of each 16-byte chunk xor (row / 2) mod 4: its accesses take 12 wavefronts, not 12; 8 are the least [swizzled]
// CHECK-LABEL: gpu.func @padded
// CHECK:         %[[TILE:.*]] = memref.alloc() : memref<64x64xf16
// CHECK-NOT:     memref.subview
// CHECK:         %[[TO:.*]] = arith.xori
// CHECK:         vector.store %{{.*}}, %[[TILE]][%{{.*}}, %[[TO]]] : memref<64x64xf16
// CHECK:         %[[KEY:.*]] = arith.muli
// CHECK:         %[[AT:.*]] = arith.xori %{{.*}}, %[[KEY]]
// CHECK:         vector.load %[[TILE]][%{{.*}}, %[[AT]]] : memref<64x64xf16
// CHECK-NOT:     memref.dealloc
// LANES-LABEL: gpu.func @padded
// LANES:         memref.alloc() : memref<64x68xf16
gpu.module @one {
  gpu.func @padded(%from: memref<?x64xf16> {llvm.noalias, llvm.align = 16 : i64}, %to: memref<?x64xf16> {llvm.noalias}, %n: index)
      kernel attributes {known_block_size = array<i32: 512, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c8 = arith.constant 8 : index
    %c64 = arith.constant 64 : index
    %t = gpu.thread_id x
    %tile = memref.alloc() : memref<64x68xf16, #wg>
    %whole = memref.subview %tile[0, 0] [64, 64] [1, 1] : memref<64x68xf16, #wg> to memref<64x64xf16, strided<[68, 1]>, #wg>
    %row = arith.divui %t, %c8 : index
    %piece = arith.remui %t, %c8 : index
    %column = arith.muli %piece, %c8 : index
    %other_piece = arith.divui %t, %c64 : index
    %other_row = arith.remui %t, %c64 : index
    %other_column = arith.muli %other_piece, %c8 : index
    scf.for %k = %c0 to %n step %c64 {
      %at = arith.addi %k, %row : index
      %v = vector.load %from[%at, %column] {alignment = 16 : i64} : memref<?x64xf16>, vector<8xf16>
      vector.store %v, %tile[%row, %column] : memref<64x68xf16, #wg>, vector<8xf16>
      gpu.barrier
      %w = vector.load %tile[%other_row, %other_column] : memref<64x68xf16, #wg>, vector<8xf16>
      vector.store %w, %to[%at, %column] : memref<?x64xf16>, vector<8xf16>
      gpu.barrier
    } {async_pipe.num_stages = 3 : i64, async_pipe.swizzle = "auto"}
    memref.dealloc %whole : memref<64x64xf16, strided<[68, 1]>, #wg>
    gpu.return
  }
}

// The last elements of a row are read.
// REMARK: remark: a tile keeps its layout: 'vector.store' may cross the ends of a row or of 16 bytes in it [swizzle-refused]
// CHECK-LABEL: gpu.func @used
// CHECK:         memref.alloc() : memref<64x68xf16
gpu.module @two {
  gpu.func @used(%from: memref<?x64xf16> {llvm.noalias, llvm.align = 16 : i64}, %to: memref<?x64xf16> {llvm.noalias}, %n: index)
      kernel attributes {known_block_size = array<i32: 512, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c8 = arith.constant 8 : index
    %c64 = arith.constant 64 : index
    %c67 = arith.constant 67 : index
    %t = gpu.thread_id x
    %tile = memref.alloc() : memref<64x68xf16, #wg>
    %row = arith.divui %t, %c8 : index
    %piece = arith.remui %t, %c8 : index
    %column = arith.muli %piece, %c8 : index
    scf.for %k = %c0 to %n step %c64 {
      %at = arith.addi %k, %row : index
      %v = vector.load %from[%at, %column] {alignment = 16 : i64} : memref<?x64xf16>, vector<8xf16>
      vector.store %v, %tile[%row, %column] : memref<64x68xf16, #wg>, vector<8xf16>
      gpu.barrier
      %w = memref.load %tile[%row, %c67] : memref<64x68xf16, #wg>
      memref.store %w, %to[%at, %piece] : memref<?x64xf16>
      gpu.barrier
    } {async_pipe.num_stages = 3 : i64, async_pipe.swizzle = "auto"}
    gpu.return
  }
}

// Lanes of a wave that do not copy to one stretch without the ends of rows either: every second row.
// REMARK: remark: a tile keeps its layout: a wave could not copy to it without the ends of its rows either [swizzle-refused]
// CHECK-LABEL: gpu.func @every_second
// CHECK:         memref.alloc() : memref<128x68xf16
// CHECK-NOT:     arith.xori
// CHECK:         memref.subview
gpu.module @three {
  gpu.func @every_second(%from: memref<?x64xf16> {llvm.noalias, llvm.align = 16 : i64}, %to: memref<?x64xf16> {llvm.noalias}, %n: index)
      kernel attributes {known_block_size = array<i32: 512, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c2 = arith.constant 2 : index
    %c8 = arith.constant 8 : index
    %c64 = arith.constant 64 : index
    %t = gpu.thread_id x
    %tile = memref.alloc() : memref<128x68xf16, #wg>
    %whole = memref.subview %tile[0, 0] [128, 64] [1, 1] : memref<128x68xf16, #wg> to memref<128x64xf16, strided<[68, 1]>, #wg>
    %row = arith.divui %t, %c8 : index
    %twice = arith.muli %row, %c2 : index
    %piece = arith.remui %t, %c8 : index
    %column = arith.muli %piece, %c8 : index
    scf.for %k = %c0 to %n step %c64 {
      %at = arith.addi %k, %row : index
      %v = vector.load %from[%at, %column] {alignment = 16 : i64} : memref<?x64xf16>, vector<8xf16>
      vector.store %v, %tile[%twice, %column] : memref<128x68xf16, #wg>, vector<8xf16>
      gpu.barrier
      %w = vector.load %tile[%twice, %column] : memref<128x68xf16, #wg>, vector<8xf16>
      vector.store %w, %to[%at, %column] : memref<?x64xf16>, vector<8xf16>
      gpu.barrier
    } {async_pipe.num_stages = 3 : i64, async_pipe.swizzle = "auto"}
    memref.dealloc %whole : memref<128x64xf16, strided<[68, 1]>, #wg>
    gpu.return
  }
}
