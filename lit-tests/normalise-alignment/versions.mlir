// RUN: async-pipe-opt %s --split-input-file --async-pipe-normalise-alignment=chip=sm_80 | FileCheck %s
// RUN: async-pipe-opt %s --split-input-file --async-pipe-normalise-alignment=chip=gfx950 | FileCheck %s --check-prefix=OTHER
// OTHER-NOT: extract_strided_metadata

// Rows of a dynamic stride may begin anywhere: what decides it is tested before the outermost loop.

#wg = #gpu.address_space<workgroup>
gpu.module @k {
  // CHECK-LABEL: gpu.func @rows
  // CHECK:         %{{.*}}, %[[OFFSET:.*]], %{{.*}}:2, %[[STRIDES:.*]]:2 = memref.extract_strided_metadata %arg0
  // CHECK:         %[[BASE:.*]] = memref.extract_aligned_pointer_as_index %arg0
  // CHECK:         %[[MORE:.*]] = arith.muli %[[OFFSET]], %c2
  // CHECK:         %[[BEGIN:.*]] = arith.addi %[[BASE]], %[[MORE]]
  // CHECK:         %[[STEP:.*]] = arith.muli %[[STRIDES]]#0, %c2
  // CHECK:         %[[BOTH:.*]] = arith.ori %[[BEGIN]], %[[STEP]]
  // CHECK:         %[[REST:.*]] = arith.andi %[[BOTH]], %c15
  // CHECK:         %[[ALIGNED:.*]] = arith.cmpi eq, %[[REST]], %c0
  // CHECK:         scf.for
  // CHECK:           scf.if %[[ALIGNED]] -> (f16) {
  // CHECK:             scf.for
  // CHECK:               vector.load %{{.*}} {alignment = 16 : i64}
  // CHECK:             } {async_pipe.num_stages = 3 : i64}
  // CHECK:           } else {
  // CHECK:             scf.for
  // CHECK:               vector.load %{{[^{]*}} : memref<?x?xf16>
  // CHECK:             } {async_pipe.num_stages = 3 : i64}
  gpu.func @rows(%A: memref<?x?xf16> {llvm.noalias}, %C: memref<?xf16> {llvm.noalias}, %n: index, %m: index)
      workgroup(%tile: memref<32x8xf16, #wg> {llvm.align = 16 : i64}) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %t = gpu.thread_id x
    %zero = arith.constant 0.0 : f16
    scf.for %row = %c0 to %m step %c1 {
      %sum = scf.for %k = %c0 to %n step %c8 iter_args(%s = %zero) -> (f16) {
        %r = arith.addi %row, %t : index
        %v = vector.load %A[%r, %k] : memref<?x?xf16>, vector<8xf16>
        vector.store %v, %tile[%t, %c0] : memref<32x8xf16, #wg>, vector<8xf16>
        gpu.barrier
        %x = memref.load %tile[%c0, %c1] : memref<32x8xf16, #wg>
        %next = arith.addf %s, %x : f16
        gpu.barrier
        scf.yield %next : f16
      } {async_pipe.num_stages = 3 : i64}
      memref.store %sum, %C[%row] : memref<?xf16>
    }
    gpu.return
  }
}

// -----

// Static strides: only the address is open. A window of an array has its strides.

#wg = #gpu.address_space<workgroup>
gpu.module @k {
  // CHECK-LABEL: gpu.func @window
  // CHECK:         memref.extract_aligned_pointer_as_index %arg0
  // CHECK:         arith.andi %{{.*}}, %c15
  // CHECK:         scf.if
  // CHECK:           vector.transfer_read %{{.*}} {alignment = 16 : i64, in_bounds = [true]}
  // CHECK:         } else {
  // CHECK:           vector.transfer_read %{{.*}} {in_bounds = [true]}
  gpu.func @window(%A: memref<64x64xf16> {llvm.noalias}, %C: memref<?xf16> {llvm.noalias})
      workgroup(%tile: memref<32x8xf16, #wg> {llvm.align = 16 : i64}) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %c64 = arith.constant 64 : index
    %t = gpu.thread_id x
    %zero = arith.constant 0.0 : f16
    %sum = scf.for %k = %c0 to %c64 step %c8 iter_args(%s = %zero) -> (f16) {
      %part = memref.subview %A[16, %k] [32, 8] [1, 1] : memref<64x64xf16> to memref<32x8xf16, strided<[64, 1], offset: ?>>
      %v = vector.transfer_read %part[%t, %c0], %zero {in_bounds = [true]} : memref<32x8xf16, strided<[64, 1], offset: ?>>, vector<8xf16>
      vector.transfer_write %v, %tile[%t, %c0] {in_bounds = [true]} : vector<8xf16>, memref<32x8xf16, #wg>
      gpu.barrier
      %x = memref.load %tile[%c0, %c1] : memref<32x8xf16, #wg>
      %next = arith.addf %s, %x : f16
      gpu.barrier
      scf.yield %next : f16
    } {async_pipe.num_stages = 3 : i64}
    memref.store %sum, %C[%t] : memref<?xf16>
    gpu.return
  }
}

// -----

// What is aligned already, what never is (rows of 33), what another subscript decides, and what asks for registers stay.

#wg = #gpu.address_space<workgroup>
gpu.module @k {
  // CHECK-LABEL: gpu.func @aligned
  // CHECK-NOT:     extract_strided_metadata
  gpu.func @aligned(%A: memref<?x?xf16> {llvm.noalias}, %S: memref<64x64xf16> {llvm.noalias, llvm.align = 16 : i64}, %C: memref<?xf16> {llvm.noalias}, %n: index)
      workgroup(%tile: memref<32x8xf16, #wg> {llvm.align = 16 : i64}, %other: memref<32x8xf16, #wg> {llvm.align = 16 : i64}) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %t = gpu.thread_id x
    scf.for %k = %c0 to %n step %c8 {
      %v = vector.load %A[%t, %k] {alignment = 16 : i64} : memref<?x?xf16>, vector<8xf16>
      vector.store %v, %tile[%t, %c0] : memref<32x8xf16, #wg>, vector<8xf16>
      %w = vector.load %S[%t, %k] : memref<64x64xf16>, vector<8xf16>
      vector.store %w, %other[%t, %c0] : memref<32x8xf16, #wg>, vector<8xf16>
      gpu.barrier
      %x = memref.load %tile[%c0, %c1] : memref<32x8xf16, #wg>
      memref.store %x, %C[%k] : memref<?xf16>
      gpu.barrier
    } {async_pipe.num_stages = 3 : i64}
    gpu.return
  }

  // CHECK-LABEL: gpu.func @never
  // CHECK-NOT:     extract_strided_metadata
  gpu.func @never(%A: memref<64x33xf16> {llvm.noalias}, %B: memref<?x?xf16> {llvm.noalias}, %C: memref<?xf16> {llvm.noalias}, %n: index)
      workgroup(%tile: memref<32x8xf16, #wg> {llvm.align = 16 : i64}) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %t = gpu.thread_id x
    scf.for %k = %c0 to %n step %c8 {
      %v = vector.load %A[%t, %k] : memref<64x33xf16>, vector<8xf16>
      vector.store %v, %tile[%t, %c0] : memref<32x8xf16, #wg>, vector<8xf16>
      gpu.barrier
      %x = memref.load %tile[%c0, %c1] : memref<32x8xf16, #wg>
      memref.store %x, %C[%k] : memref<?xf16>
      gpu.barrier
    } {async_pipe.num_stages = 3 : i64}
    scf.for %k = %c0 to %n step %c1 {
      %v = vector.load %B[%t, %k] : memref<?x?xf16>, vector<8xf16>
      vector.store %v, %tile[%t, %c0] : memref<32x8xf16, #wg>, vector<8xf16>
      gpu.barrier
      %x = memref.load %tile[%c0, %c1] : memref<32x8xf16, #wg>
      memref.store %x, %C[%k] : memref<?xf16>
      gpu.barrier
    } {async_pipe.num_stages = 3 : i64}
    scf.for %k = %c0 to %n step %c8 {
      %v = vector.load %B[%t, %k] : memref<?x?xf16>, vector<8xf16>
      vector.store %v, %tile[%t, %c0] : memref<32x8xf16, #wg>, vector<8xf16>
      gpu.barrier
      %x = memref.load %tile[%c0, %c1] : memref<32x8xf16, #wg>
      memref.store %x, %C[%k] : memref<?xf16>
      gpu.barrier
    } {async_pipe.num_stages = 3 : i64, async_pipe.stage_through = "registers"}
    gpu.return
  }
}

// -----

// Elements that do not lie side by side are no copies, however their rows begin.

#wg = #gpu.address_space<workgroup>
gpu.module @k {
  // CHECK-LABEL: gpu.func @apart
  // CHECK-NOT:     extract_strided_metadata
  gpu.func @apart(%A: memref<?x?xf16, strided<[?, 2]>> {llvm.noalias}, %C: memref<?xf16> {llvm.noalias}, %n: index)
      workgroup(%tile: memref<32xf16, #wg>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c8 = arith.constant 8 : index
    %t = gpu.thread_id x
    scf.for %k = %c0 to %n step %c8 {
      %v = memref.load %A[%t, %k] : memref<?x?xf16, strided<[?, 2]>>
      memref.store %v, %tile[%t] : memref<32xf16, #wg>
      gpu.barrier
      %x = memref.load %tile[%c0] : memref<32xf16, #wg>
      memref.store %x, %C[%k] : memref<?xf16>
      gpu.barrier
    } {async_pipe.num_stages = 3 : i64}
    gpu.return
  }
}

// -----

// A loop that begins anywhere: so does its first row, and that is tested too.

#wg = #gpu.address_space<workgroup>
gpu.module @k {
  // CHECK-LABEL: gpu.func @part
  // CHECK:         %[[BYTES:.*]] = arith.muli %arg2, %c2
  // CHECK:         %[[ALL:.*]] = arith.ori %{{.*}}, %[[BYTES]]
  // CHECK:         %[[REST:.*]] = arith.andi %[[ALL]], %c15
  // CHECK:         %[[ALIGNED:.*]] = arith.cmpi eq, %[[REST]], %c0
  // CHECK:         scf.if %[[ALIGNED]] -> (f16) {
  // CHECK:           vector.load %{{.*}} {alignment = 16 : i64}
  gpu.func @part(%A: memref<?x?xf16> {llvm.noalias}, %C: memref<?xf16> {llvm.noalias}, %begin: index, %end: index)
      workgroup(%tile: memref<32x8xf16, #wg> {llvm.align = 16 : i64}) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %t = gpu.thread_id x
    %zero = arith.constant 0.0 : f16
    %sum = scf.for %k = %begin to %end step %c8 iter_args(%s = %zero) -> (f16) {
      %v = vector.load %A[%t, %k] : memref<?x?xf16>, vector<8xf16>
      vector.store %v, %tile[%t, %c0] : memref<32x8xf16, #wg>, vector<8xf16>
      gpu.barrier
      %x = memref.load %tile[%c0, %c1] : memref<32x8xf16, #wg>
      %next = arith.addf %s, %x : f16
      gpu.barrier
      scf.yield %next : f16
    } {async_pipe.num_stages = 3 : i64}
    memref.store %sum, %C[%c0] : memref<?xf16>
    gpu.return
  }
}

// -----

// Steps of 4 elements are no multiple of 16 bytes wherever it begins: copies of 8 bytes.

#wg = #gpu.address_space<workgroup>
gpu.module @k {
  // CHECK-LABEL: gpu.func @narrow_steps
  // CHECK:         arith.andi %{{.*}}, %c7
  // CHECK:         vector.load %{{.*}} {alignment = 8 : i64}
  gpu.func @narrow_steps(%A: memref<?x?xf16> {llvm.noalias}, %C: memref<?xf16> {llvm.noalias}, %begin: index, %end: index)
      workgroup(%tile: memref<32x8xf16, #wg> {llvm.align = 16 : i64}) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %t = gpu.thread_id x
    %zero = arith.constant 0.0 : f16
    %sum = scf.for %k = %begin to %end step %c4 iter_args(%s = %zero) -> (f16) {
      %v = vector.load %A[%t, %k] : memref<?x?xf16>, vector<8xf16>
      vector.store %v, %tile[%t, %c0] : memref<32x8xf16, #wg>, vector<8xf16>
      gpu.barrier
      %x = memref.load %tile[%c0, %c1] : memref<32x8xf16, #wg>
      %next = arith.addf %s, %x : f16
      gpu.barrier
      scf.yield %next : f16
    } {async_pipe.num_stages = 3 : i64}
    memref.store %sum, %C[%c0] : memref<?xf16>
    gpu.return
  }
}
