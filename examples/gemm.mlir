module attributes {gpu.container_module} {
gpu.module @kernels {
  gpu.func @gemm(%A : memref<?x?xf16> {llvm.noalias}, %B : memref<?x?xf16> {llvm.noalias}, %C : memref<?x?xf32> {llvm.noalias})
      workgroup(%a_shared : memref<128x32xf16, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}, %b_shared : memref<128x32xf16, #gpu.address_space<workgroup>> {llvm.align = 16 : i64})
      kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %c16 = arith.constant 16 : index
    %c24 = arith.constant 24 : index
    %c32 = arith.constant 32 : index
    %c40 = arith.constant 40 : index
    %c48 = arith.constant 48 : index
    %c56 = arith.constant 56 : index
    %c64 = arith.constant 64 : index
    %c96 = arith.constant 96 : index
    %c128 = arith.constant 128 : index
    %tid = gpu.thread_id x
    %lane = arith.remui %tid, %c32 : index
    %warp = arith.divui %tid, %c32 : index
    %block_m = gpu.block_id y
    %m = arith.muli %block_m, %c128 : index
    %block_n = gpu.block_id x
    %n = arith.muli %block_n, %c128 : index
    %K = memref.dim %A, %c1 : memref<?x?xf16>
    %warp_row = arith.divui %warp, %c2 : index
    %warp_m = arith.muli %warp_row, %c64 : index
    %warp_column = arith.remui %warp, %c2 : index
    %warp_n = arith.muli %warp_column, %c64 : index
    %zeros = arith.constant dense<0.0> : vector<2x2xf32>
    %total:32 = scf.for %k = %c0 to %K step %c32
        iter_args(%sum_0 = %zeros, %sum_1 = %zeros, %sum_2 = %zeros, %sum_3 = %zeros, %sum_4 = %zeros, %sum_5 = %zeros, %sum_6 = %zeros, %sum_7 = %zeros, %sum_8 = %zeros, %sum_9 = %zeros, %sum_10 = %zeros, %sum_11 = %zeros, %sum_12 = %zeros, %sum_13 = %zeros, %sum_14 = %zeros, %sum_15 = %zeros, %sum_16 = %zeros, %sum_17 = %zeros, %sum_18 = %zeros, %sum_19 = %zeros, %sum_20 = %zeros, %sum_21 = %zeros, %sum_22 = %zeros, %sum_23 = %zeros, %sum_24 = %zeros, %sum_25 = %zeros, %sum_26 = %zeros, %sum_27 = %zeros, %sum_28 = %zeros, %sum_29 = %zeros, %sum_30 = %zeros, %sum_31 = %zeros) -> (vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>) {
      %a_copy_row = arith.divui %tid, %c4 : index
      %a_copy_chunk = arith.remui %tid, %c4 : index
      %a_offset = arith.muli %a_copy_chunk, %c8 : index
      %a_column = arith.addi %k, %a_offset : index
      %turn_row = arith.divui %a_copy_row, %c2 : index
      %turn = arith.remui %turn_row, %c4 : index
      %swizzled_chunk = arith.xori %a_copy_chunk, %turn : index
      %swizzled = arith.muli %swizzled_chunk, %c8 : index
      %a_source_row = arith.addi %m, %a_copy_row : index
      %a_copy = nvgpu.device_async_copy %A[%a_source_row, %a_column], %a_shared[%a_copy_row, %swizzled], 8 {bypassL1} : memref<?x?xf16> to memref<128x32xf16, #gpu.address_space<workgroup>>
      %a_row = arith.addi %a_copy_row, %c32 : index
      %a_source_row_1 = arith.addi %m, %a_row : index
      %a_copy_1 = nvgpu.device_async_copy %A[%a_source_row_1, %a_column], %a_shared[%a_row, %swizzled], 8 {bypassL1} : memref<?x?xf16> to memref<128x32xf16, #gpu.address_space<workgroup>>
      %a_row_1 = arith.addi %a_copy_row, %c64 : index
      %a_source_row_2 = arith.addi %m, %a_row_1 : index
      %a_copy_2 = nvgpu.device_async_copy %A[%a_source_row_2, %a_column], %a_shared[%a_row_1, %swizzled], 8 {bypassL1} : memref<?x?xf16> to memref<128x32xf16, #gpu.address_space<workgroup>>
      %a_row_2 = arith.addi %a_copy_row, %c96 : index
      %a_source_row_3 = arith.addi %m, %a_row_2 : index
      %a_copy_3 = nvgpu.device_async_copy %A[%a_source_row_3, %a_column], %a_shared[%a_row_2, %swizzled], 8 {bypassL1} : memref<?x?xf16> to memref<128x32xf16, #gpu.address_space<workgroup>>
      %b_copy_row = arith.divui %tid, %c4 : index
      %b_copy_chunk = arith.remui %tid, %c4 : index
      %b_offset = arith.muli %b_copy_chunk, %c8 : index
      %b_column = arith.addi %k, %b_offset : index
      %turn_row_1 = arith.divui %b_copy_row, %c2 : index
      %turn_1 = arith.remui %turn_row_1, %c4 : index
      %swizzled_chunk_1 = arith.xori %b_copy_chunk, %turn_1 : index
      %swizzled_1 = arith.muli %swizzled_chunk_1, %c8 : index
      %b_source_row = arith.addi %n, %b_copy_row : index
      %b_copy = nvgpu.device_async_copy %B[%b_source_row, %b_column], %b_shared[%b_copy_row, %swizzled_1], 8 {bypassL1} : memref<?x?xf16> to memref<128x32xf16, #gpu.address_space<workgroup>>
      %b_row = arith.addi %b_copy_row, %c32 : index
      %b_source_row_1 = arith.addi %n, %b_row : index
      %b_copy_1 = nvgpu.device_async_copy %B[%b_source_row_1, %b_column], %b_shared[%b_row, %swizzled_1], 8 {bypassL1} : memref<?x?xf16> to memref<128x32xf16, #gpu.address_space<workgroup>>
      %b_row_1 = arith.addi %b_copy_row, %c64 : index
      %b_source_row_2 = arith.addi %n, %b_row_1 : index
      %b_copy_2 = nvgpu.device_async_copy %B[%b_source_row_2, %b_column], %b_shared[%b_row_1, %swizzled_1], 8 {bypassL1} : memref<?x?xf16> to memref<128x32xf16, #gpu.address_space<workgroup>>
      %b_row_2 = arith.addi %b_copy_row, %c96 : index
      %b_source_row_3 = arith.addi %n, %b_row_2 : index
      %b_copy_3 = nvgpu.device_async_copy %B[%b_source_row_3, %b_column], %b_shared[%b_row_2, %swizzled_1], 8 {bypassL1} : memref<?x?xf16> to memref<128x32xf16, #gpu.address_space<workgroup>>
      %group = nvgpu.device_async_create_group %a_copy, %a_copy_1, %a_copy_2, %a_copy_3, %b_copy, %b_copy_1, %b_copy_2, %b_copy_3
      nvgpu.device_async_wait %group
      gpu.barrier
      %a_lane_row = arith.remui %lane, %c16 : index
      %a_lane_chunk = arith.divui %lane, %c16 : index
      %b_lane_half = arith.divui %lane, %c16 : index
      %b_lane_high = arith.muli %b_lane_half, %c8 : index
      %b_lane_low = arith.remui %lane, %c8 : index
      %b_lane_row = arith.addi %b_lane_high, %b_lane_low : index
      %b_lane_eighth = arith.divui %lane, %c8 : index
      %b_lane_chunk = arith.remui %b_lane_eighth, %c2 : index
      %a_warp_row = arith.addi %warp_m, %a_lane_row : index
      %b_warp_row = arith.addi %warp_n, %b_lane_row : index
      // k = 0 .. 15 of the tile
      %turn_row_2 = arith.divui %a_lane_row, %c2 : index
      %turn_2 = arith.remui %turn_row_2, %c4 : index
      %swizzled_chunk_2 = arith.xori %a_lane_chunk, %turn_2 : index
      %swizzled_2 = arith.muli %swizzled_chunk_2, %c8 : index
      %turn_row_3 = arith.divui %b_lane_row, %c2 : index
      %turn_3 = arith.remui %turn_row_3, %c4 : index
      %swizzled_chunk_3 = arith.xori %b_lane_chunk, %turn_3 : index
      %swizzled_3 = arith.muli %swizzled_chunk_3, %c8 : index
      %a_part = nvgpu.ldmatrix %a_shared[%a_warp_row, %swizzled_2] {numTiles = 4 : i32, transpose = false} : memref<128x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
      %a_at_row = arith.addi %a_warp_row, %c16 : index
      %a_part_1 = nvgpu.ldmatrix %a_shared[%a_at_row, %swizzled_2] {numTiles = 4 : i32, transpose = false} : memref<128x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
      %a_at_row_1 = arith.addi %a_warp_row, %c32 : index
      %a_part_2 = nvgpu.ldmatrix %a_shared[%a_at_row_1, %swizzled_2] {numTiles = 4 : i32, transpose = false} : memref<128x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
      %a_at_row_2 = arith.addi %a_warp_row, %c48 : index
      %a_part_3 = nvgpu.ldmatrix %a_shared[%a_at_row_2, %swizzled_2] {numTiles = 4 : i32, transpose = false} : memref<128x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
      %b_part = nvgpu.ldmatrix %b_shared[%b_warp_row, %swizzled_3] {numTiles = 4 : i32, transpose = false} : memref<128x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
      %b_half = vector.extract_strided_slice %b_part {offsets = [0], sizes = [2], strides = [1]} : vector<4x2xf16> to vector<2x2xf16>
      %b_half_1 = vector.extract_strided_slice %b_part {offsets = [2], sizes = [2], strides = [1]} : vector<4x2xf16> to vector<2x2xf16>
      %b_at_row = arith.addi %b_warp_row, %c16 : index
      %b_part_1 = nvgpu.ldmatrix %b_shared[%b_at_row, %swizzled_3] {numTiles = 4 : i32, transpose = false} : memref<128x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
      %b_half_2 = vector.extract_strided_slice %b_part_1 {offsets = [0], sizes = [2], strides = [1]} : vector<4x2xf16> to vector<2x2xf16>
      %b_half_3 = vector.extract_strided_slice %b_part_1 {offsets = [2], sizes = [2], strides = [1]} : vector<4x2xf16> to vector<2x2xf16>
      %b_at_row_1 = arith.addi %b_warp_row, %c32 : index
      %b_part_2 = nvgpu.ldmatrix %b_shared[%b_at_row_1, %swizzled_3] {numTiles = 4 : i32, transpose = false} : memref<128x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
      %b_half_4 = vector.extract_strided_slice %b_part_2 {offsets = [0], sizes = [2], strides = [1]} : vector<4x2xf16> to vector<2x2xf16>
      %b_half_5 = vector.extract_strided_slice %b_part_2 {offsets = [2], sizes = [2], strides = [1]} : vector<4x2xf16> to vector<2x2xf16>
      %b_at_row_2 = arith.addi %b_warp_row, %c48 : index
      %b_part_3 = nvgpu.ldmatrix %b_shared[%b_at_row_2, %swizzled_3] {numTiles = 4 : i32, transpose = false} : memref<128x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
      %b_half_6 = vector.extract_strided_slice %b_part_3 {offsets = [0], sizes = [2], strides = [1]} : vector<4x2xf16> to vector<2x2xf16>
      %b_half_7 = vector.extract_strided_slice %b_part_3 {offsets = [2], sizes = [2], strides = [1]} : vector<4x2xf16> to vector<2x2xf16>
      %acc = nvgpu.mma.sync(%a_part, %b_half, %sum_0) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_1 = nvgpu.mma.sync(%a_part, %b_half_1, %sum_1) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_2 = nvgpu.mma.sync(%a_part, %b_half_2, %sum_2) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_3 = nvgpu.mma.sync(%a_part, %b_half_3, %sum_3) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_4 = nvgpu.mma.sync(%a_part, %b_half_4, %sum_4) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_5 = nvgpu.mma.sync(%a_part, %b_half_5, %sum_5) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_6 = nvgpu.mma.sync(%a_part, %b_half_6, %sum_6) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_7 = nvgpu.mma.sync(%a_part, %b_half_7, %sum_7) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_8 = nvgpu.mma.sync(%a_part_1, %b_half, %sum_8) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_9 = nvgpu.mma.sync(%a_part_1, %b_half_1, %sum_9) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_10 = nvgpu.mma.sync(%a_part_1, %b_half_2, %sum_10) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_11 = nvgpu.mma.sync(%a_part_1, %b_half_3, %sum_11) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_12 = nvgpu.mma.sync(%a_part_1, %b_half_4, %sum_12) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_13 = nvgpu.mma.sync(%a_part_1, %b_half_5, %sum_13) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_14 = nvgpu.mma.sync(%a_part_1, %b_half_6, %sum_14) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_15 = nvgpu.mma.sync(%a_part_1, %b_half_7, %sum_15) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_16 = nvgpu.mma.sync(%a_part_2, %b_half, %sum_16) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_17 = nvgpu.mma.sync(%a_part_2, %b_half_1, %sum_17) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_18 = nvgpu.mma.sync(%a_part_2, %b_half_2, %sum_18) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_19 = nvgpu.mma.sync(%a_part_2, %b_half_3, %sum_19) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_20 = nvgpu.mma.sync(%a_part_2, %b_half_4, %sum_20) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_21 = nvgpu.mma.sync(%a_part_2, %b_half_5, %sum_21) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_22 = nvgpu.mma.sync(%a_part_2, %b_half_6, %sum_22) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_23 = nvgpu.mma.sync(%a_part_2, %b_half_7, %sum_23) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_24 = nvgpu.mma.sync(%a_part_3, %b_half, %sum_24) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_25 = nvgpu.mma.sync(%a_part_3, %b_half_1, %sum_25) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_26 = nvgpu.mma.sync(%a_part_3, %b_half_2, %sum_26) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_27 = nvgpu.mma.sync(%a_part_3, %b_half_3, %sum_27) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_28 = nvgpu.mma.sync(%a_part_3, %b_half_4, %sum_28) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_29 = nvgpu.mma.sync(%a_part_3, %b_half_5, %sum_29) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_30 = nvgpu.mma.sync(%a_part_3, %b_half_6, %sum_30) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_31 = nvgpu.mma.sync(%a_part_3, %b_half_7, %sum_31) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      // k = 16 .. 31 of the tile
      %a_chunk = arith.addi %a_lane_chunk, %c2 : index
      %turn_row_4 = arith.divui %a_lane_row, %c2 : index
      %turn_4 = arith.remui %turn_row_4, %c4 : index
      %swizzled_chunk_4 = arith.xori %a_chunk, %turn_4 : index
      %swizzled_4 = arith.muli %swizzled_chunk_4, %c8 : index
      %b_chunk = arith.addi %b_lane_chunk, %c2 : index
      %turn_row_5 = arith.divui %b_lane_row, %c2 : index
      %turn_5 = arith.remui %turn_row_5, %c4 : index
      %swizzled_chunk_5 = arith.xori %b_chunk, %turn_5 : index
      %swizzled_5 = arith.muli %swizzled_chunk_5, %c8 : index
      %a_part_4 = nvgpu.ldmatrix %a_shared[%a_warp_row, %swizzled_4] {numTiles = 4 : i32, transpose = false} : memref<128x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
      %a_at_row_3 = arith.addi %a_warp_row, %c16 : index
      %a_part_5 = nvgpu.ldmatrix %a_shared[%a_at_row_3, %swizzled_4] {numTiles = 4 : i32, transpose = false} : memref<128x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
      %a_at_row_4 = arith.addi %a_warp_row, %c32 : index
      %a_part_6 = nvgpu.ldmatrix %a_shared[%a_at_row_4, %swizzled_4] {numTiles = 4 : i32, transpose = false} : memref<128x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
      %a_at_row_5 = arith.addi %a_warp_row, %c48 : index
      %a_part_7 = nvgpu.ldmatrix %a_shared[%a_at_row_5, %swizzled_4] {numTiles = 4 : i32, transpose = false} : memref<128x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
      %b_part_4 = nvgpu.ldmatrix %b_shared[%b_warp_row, %swizzled_5] {numTiles = 4 : i32, transpose = false} : memref<128x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
      %b_half_8 = vector.extract_strided_slice %b_part_4 {offsets = [0], sizes = [2], strides = [1]} : vector<4x2xf16> to vector<2x2xf16>
      %b_half_9 = vector.extract_strided_slice %b_part_4 {offsets = [2], sizes = [2], strides = [1]} : vector<4x2xf16> to vector<2x2xf16>
      %b_at_row_3 = arith.addi %b_warp_row, %c16 : index
      %b_part_5 = nvgpu.ldmatrix %b_shared[%b_at_row_3, %swizzled_5] {numTiles = 4 : i32, transpose = false} : memref<128x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
      %b_half_10 = vector.extract_strided_slice %b_part_5 {offsets = [0], sizes = [2], strides = [1]} : vector<4x2xf16> to vector<2x2xf16>
      %b_half_11 = vector.extract_strided_slice %b_part_5 {offsets = [2], sizes = [2], strides = [1]} : vector<4x2xf16> to vector<2x2xf16>
      %b_at_row_4 = arith.addi %b_warp_row, %c32 : index
      %b_part_6 = nvgpu.ldmatrix %b_shared[%b_at_row_4, %swizzled_5] {numTiles = 4 : i32, transpose = false} : memref<128x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
      %b_half_12 = vector.extract_strided_slice %b_part_6 {offsets = [0], sizes = [2], strides = [1]} : vector<4x2xf16> to vector<2x2xf16>
      %b_half_13 = vector.extract_strided_slice %b_part_6 {offsets = [2], sizes = [2], strides = [1]} : vector<4x2xf16> to vector<2x2xf16>
      %b_at_row_5 = arith.addi %b_warp_row, %c48 : index
      %b_part_7 = nvgpu.ldmatrix %b_shared[%b_at_row_5, %swizzled_5] {numTiles = 4 : i32, transpose = false} : memref<128x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
      %b_half_14 = vector.extract_strided_slice %b_part_7 {offsets = [0], sizes = [2], strides = [1]} : vector<4x2xf16> to vector<2x2xf16>
      %b_half_15 = vector.extract_strided_slice %b_part_7 {offsets = [2], sizes = [2], strides = [1]} : vector<4x2xf16> to vector<2x2xf16>
      %acc_32 = nvgpu.mma.sync(%a_part_4, %b_half_8, %acc) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_33 = nvgpu.mma.sync(%a_part_4, %b_half_9, %acc_1) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_34 = nvgpu.mma.sync(%a_part_4, %b_half_10, %acc_2) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_35 = nvgpu.mma.sync(%a_part_4, %b_half_11, %acc_3) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_36 = nvgpu.mma.sync(%a_part_4, %b_half_12, %acc_4) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_37 = nvgpu.mma.sync(%a_part_4, %b_half_13, %acc_5) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_38 = nvgpu.mma.sync(%a_part_4, %b_half_14, %acc_6) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_39 = nvgpu.mma.sync(%a_part_4, %b_half_15, %acc_7) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_40 = nvgpu.mma.sync(%a_part_5, %b_half_8, %acc_8) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_41 = nvgpu.mma.sync(%a_part_5, %b_half_9, %acc_9) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_42 = nvgpu.mma.sync(%a_part_5, %b_half_10, %acc_10) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_43 = nvgpu.mma.sync(%a_part_5, %b_half_11, %acc_11) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_44 = nvgpu.mma.sync(%a_part_5, %b_half_12, %acc_12) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_45 = nvgpu.mma.sync(%a_part_5, %b_half_13, %acc_13) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_46 = nvgpu.mma.sync(%a_part_5, %b_half_14, %acc_14) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_47 = nvgpu.mma.sync(%a_part_5, %b_half_15, %acc_15) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_48 = nvgpu.mma.sync(%a_part_6, %b_half_8, %acc_16) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_49 = nvgpu.mma.sync(%a_part_6, %b_half_9, %acc_17) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_50 = nvgpu.mma.sync(%a_part_6, %b_half_10, %acc_18) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_51 = nvgpu.mma.sync(%a_part_6, %b_half_11, %acc_19) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_52 = nvgpu.mma.sync(%a_part_6, %b_half_12, %acc_20) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_53 = nvgpu.mma.sync(%a_part_6, %b_half_13, %acc_21) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_54 = nvgpu.mma.sync(%a_part_6, %b_half_14, %acc_22) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_55 = nvgpu.mma.sync(%a_part_6, %b_half_15, %acc_23) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_56 = nvgpu.mma.sync(%a_part_7, %b_half_8, %acc_24) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_57 = nvgpu.mma.sync(%a_part_7, %b_half_9, %acc_25) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_58 = nvgpu.mma.sync(%a_part_7, %b_half_10, %acc_26) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_59 = nvgpu.mma.sync(%a_part_7, %b_half_11, %acc_27) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_60 = nvgpu.mma.sync(%a_part_7, %b_half_12, %acc_28) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_61 = nvgpu.mma.sync(%a_part_7, %b_half_13, %acc_29) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_62 = nvgpu.mma.sync(%a_part_7, %b_half_14, %acc_30) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %acc_63 = nvgpu.mma.sync(%a_part_7, %b_half_15, %acc_31) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      gpu.barrier
      scf.yield %acc_32, %acc_33, %acc_34, %acc_35, %acc_36, %acc_37, %acc_38, %acc_39, %acc_40, %acc_41, %acc_42, %acc_43, %acc_44, %acc_45, %acc_46, %acc_47, %acc_48, %acc_49, %acc_50, %acc_51, %acc_52, %acc_53, %acc_54, %acc_55, %acc_56, %acc_57, %acc_58, %acc_59, %acc_60, %acc_61, %acc_62, %acc_63 : vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>
    } {async_pipe.num_stages = 3 : i64}
    %c_warp_row = arith.addi %m, %warp_m : index
    %c_warp_column = arith.addi %n, %warp_n : index
    %c_lane_row = arith.divui %lane, %c4 : index
    %c_row = arith.addi %c_warp_row, %c_lane_row : index
    %c_lane_pair = arith.remui %lane, %c4 : index
    %c_lane_column = arith.muli %c_lane_pair, %c2 : index
    %c_column = arith.addi %c_warp_column, %c_lane_column : index
    %c_pair = vector.extract %total#0[0] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair, %C[%c_row, %c_column] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_row = arith.addi %c_row, %c8 : index
    %c_pair_1 = vector.extract %total#0[1] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_1, %C[%c_at_row, %c_column] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_column = arith.addi %c_column, %c8 : index
    %c_pair_2 = vector.extract %total#1[0] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_2, %C[%c_row, %c_at_column] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_row_1 = arith.addi %c_row, %c8 : index
    %c_pair_3 = vector.extract %total#1[1] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_3, %C[%c_at_row_1, %c_at_column] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_column_1 = arith.addi %c_column, %c16 : index
    %c_pair_4 = vector.extract %total#2[0] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_4, %C[%c_row, %c_at_column_1] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_row_2 = arith.addi %c_row, %c8 : index
    %c_pair_5 = vector.extract %total#2[1] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_5, %C[%c_at_row_2, %c_at_column_1] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_column_2 = arith.addi %c_column, %c24 : index
    %c_pair_6 = vector.extract %total#3[0] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_6, %C[%c_row, %c_at_column_2] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_row_3 = arith.addi %c_row, %c8 : index
    %c_pair_7 = vector.extract %total#3[1] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_7, %C[%c_at_row_3, %c_at_column_2] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_column_3 = arith.addi %c_column, %c32 : index
    %c_pair_8 = vector.extract %total#4[0] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_8, %C[%c_row, %c_at_column_3] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_row_4 = arith.addi %c_row, %c8 : index
    %c_pair_9 = vector.extract %total#4[1] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_9, %C[%c_at_row_4, %c_at_column_3] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_column_4 = arith.addi %c_column, %c40 : index
    %c_pair_10 = vector.extract %total#5[0] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_10, %C[%c_row, %c_at_column_4] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_row_5 = arith.addi %c_row, %c8 : index
    %c_pair_11 = vector.extract %total#5[1] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_11, %C[%c_at_row_5, %c_at_column_4] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_column_5 = arith.addi %c_column, %c48 : index
    %c_pair_12 = vector.extract %total#6[0] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_12, %C[%c_row, %c_at_column_5] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_row_6 = arith.addi %c_row, %c8 : index
    %c_pair_13 = vector.extract %total#6[1] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_13, %C[%c_at_row_6, %c_at_column_5] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_column_6 = arith.addi %c_column, %c56 : index
    %c_pair_14 = vector.extract %total#7[0] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_14, %C[%c_row, %c_at_column_6] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_row_7 = arith.addi %c_row, %c8 : index
    %c_pair_15 = vector.extract %total#7[1] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_15, %C[%c_at_row_7, %c_at_column_6] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_row_8 = arith.addi %c_row, %c16 : index
    %c_pair_16 = vector.extract %total#8[0] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_16, %C[%c_at_row_8, %c_column] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_row_9 = arith.addi %c_row, %c24 : index
    %c_pair_17 = vector.extract %total#8[1] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_17, %C[%c_at_row_9, %c_column] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_column_7 = arith.addi %c_column, %c8 : index
    %c_at_row_10 = arith.addi %c_row, %c16 : index
    %c_pair_18 = vector.extract %total#9[0] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_18, %C[%c_at_row_10, %c_at_column_7] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_row_11 = arith.addi %c_row, %c24 : index
    %c_pair_19 = vector.extract %total#9[1] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_19, %C[%c_at_row_11, %c_at_column_7] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_column_8 = arith.addi %c_column, %c16 : index
    %c_at_row_12 = arith.addi %c_row, %c16 : index
    %c_pair_20 = vector.extract %total#10[0] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_20, %C[%c_at_row_12, %c_at_column_8] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_row_13 = arith.addi %c_row, %c24 : index
    %c_pair_21 = vector.extract %total#10[1] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_21, %C[%c_at_row_13, %c_at_column_8] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_column_9 = arith.addi %c_column, %c24 : index
    %c_at_row_14 = arith.addi %c_row, %c16 : index
    %c_pair_22 = vector.extract %total#11[0] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_22, %C[%c_at_row_14, %c_at_column_9] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_row_15 = arith.addi %c_row, %c24 : index
    %c_pair_23 = vector.extract %total#11[1] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_23, %C[%c_at_row_15, %c_at_column_9] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_column_10 = arith.addi %c_column, %c32 : index
    %c_at_row_16 = arith.addi %c_row, %c16 : index
    %c_pair_24 = vector.extract %total#12[0] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_24, %C[%c_at_row_16, %c_at_column_10] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_row_17 = arith.addi %c_row, %c24 : index
    %c_pair_25 = vector.extract %total#12[1] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_25, %C[%c_at_row_17, %c_at_column_10] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_column_11 = arith.addi %c_column, %c40 : index
    %c_at_row_18 = arith.addi %c_row, %c16 : index
    %c_pair_26 = vector.extract %total#13[0] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_26, %C[%c_at_row_18, %c_at_column_11] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_row_19 = arith.addi %c_row, %c24 : index
    %c_pair_27 = vector.extract %total#13[1] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_27, %C[%c_at_row_19, %c_at_column_11] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_column_12 = arith.addi %c_column, %c48 : index
    %c_at_row_20 = arith.addi %c_row, %c16 : index
    %c_pair_28 = vector.extract %total#14[0] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_28, %C[%c_at_row_20, %c_at_column_12] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_row_21 = arith.addi %c_row, %c24 : index
    %c_pair_29 = vector.extract %total#14[1] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_29, %C[%c_at_row_21, %c_at_column_12] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_column_13 = arith.addi %c_column, %c56 : index
    %c_at_row_22 = arith.addi %c_row, %c16 : index
    %c_pair_30 = vector.extract %total#15[0] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_30, %C[%c_at_row_22, %c_at_column_13] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_row_23 = arith.addi %c_row, %c24 : index
    %c_pair_31 = vector.extract %total#15[1] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_31, %C[%c_at_row_23, %c_at_column_13] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_row_24 = arith.addi %c_row, %c32 : index
    %c_pair_32 = vector.extract %total#16[0] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_32, %C[%c_at_row_24, %c_column] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_row_25 = arith.addi %c_row, %c40 : index
    %c_pair_33 = vector.extract %total#16[1] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_33, %C[%c_at_row_25, %c_column] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_column_14 = arith.addi %c_column, %c8 : index
    %c_at_row_26 = arith.addi %c_row, %c32 : index
    %c_pair_34 = vector.extract %total#17[0] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_34, %C[%c_at_row_26, %c_at_column_14] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_row_27 = arith.addi %c_row, %c40 : index
    %c_pair_35 = vector.extract %total#17[1] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_35, %C[%c_at_row_27, %c_at_column_14] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_column_15 = arith.addi %c_column, %c16 : index
    %c_at_row_28 = arith.addi %c_row, %c32 : index
    %c_pair_36 = vector.extract %total#18[0] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_36, %C[%c_at_row_28, %c_at_column_15] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_row_29 = arith.addi %c_row, %c40 : index
    %c_pair_37 = vector.extract %total#18[1] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_37, %C[%c_at_row_29, %c_at_column_15] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_column_16 = arith.addi %c_column, %c24 : index
    %c_at_row_30 = arith.addi %c_row, %c32 : index
    %c_pair_38 = vector.extract %total#19[0] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_38, %C[%c_at_row_30, %c_at_column_16] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_row_31 = arith.addi %c_row, %c40 : index
    %c_pair_39 = vector.extract %total#19[1] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_39, %C[%c_at_row_31, %c_at_column_16] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_column_17 = arith.addi %c_column, %c32 : index
    %c_at_row_32 = arith.addi %c_row, %c32 : index
    %c_pair_40 = vector.extract %total#20[0] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_40, %C[%c_at_row_32, %c_at_column_17] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_row_33 = arith.addi %c_row, %c40 : index
    %c_pair_41 = vector.extract %total#20[1] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_41, %C[%c_at_row_33, %c_at_column_17] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_column_18 = arith.addi %c_column, %c40 : index
    %c_at_row_34 = arith.addi %c_row, %c32 : index
    %c_pair_42 = vector.extract %total#21[0] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_42, %C[%c_at_row_34, %c_at_column_18] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_row_35 = arith.addi %c_row, %c40 : index
    %c_pair_43 = vector.extract %total#21[1] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_43, %C[%c_at_row_35, %c_at_column_18] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_column_19 = arith.addi %c_column, %c48 : index
    %c_at_row_36 = arith.addi %c_row, %c32 : index
    %c_pair_44 = vector.extract %total#22[0] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_44, %C[%c_at_row_36, %c_at_column_19] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_row_37 = arith.addi %c_row, %c40 : index
    %c_pair_45 = vector.extract %total#22[1] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_45, %C[%c_at_row_37, %c_at_column_19] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_column_20 = arith.addi %c_column, %c56 : index
    %c_at_row_38 = arith.addi %c_row, %c32 : index
    %c_pair_46 = vector.extract %total#23[0] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_46, %C[%c_at_row_38, %c_at_column_20] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_row_39 = arith.addi %c_row, %c40 : index
    %c_pair_47 = vector.extract %total#23[1] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_47, %C[%c_at_row_39, %c_at_column_20] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_row_40 = arith.addi %c_row, %c48 : index
    %c_pair_48 = vector.extract %total#24[0] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_48, %C[%c_at_row_40, %c_column] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_row_41 = arith.addi %c_row, %c56 : index
    %c_pair_49 = vector.extract %total#24[1] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_49, %C[%c_at_row_41, %c_column] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_column_21 = arith.addi %c_column, %c8 : index
    %c_at_row_42 = arith.addi %c_row, %c48 : index
    %c_pair_50 = vector.extract %total#25[0] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_50, %C[%c_at_row_42, %c_at_column_21] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_row_43 = arith.addi %c_row, %c56 : index
    %c_pair_51 = vector.extract %total#25[1] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_51, %C[%c_at_row_43, %c_at_column_21] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_column_22 = arith.addi %c_column, %c16 : index
    %c_at_row_44 = arith.addi %c_row, %c48 : index
    %c_pair_52 = vector.extract %total#26[0] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_52, %C[%c_at_row_44, %c_at_column_22] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_row_45 = arith.addi %c_row, %c56 : index
    %c_pair_53 = vector.extract %total#26[1] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_53, %C[%c_at_row_45, %c_at_column_22] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_column_23 = arith.addi %c_column, %c24 : index
    %c_at_row_46 = arith.addi %c_row, %c48 : index
    %c_pair_54 = vector.extract %total#27[0] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_54, %C[%c_at_row_46, %c_at_column_23] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_row_47 = arith.addi %c_row, %c56 : index
    %c_pair_55 = vector.extract %total#27[1] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_55, %C[%c_at_row_47, %c_at_column_23] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_column_24 = arith.addi %c_column, %c32 : index
    %c_at_row_48 = arith.addi %c_row, %c48 : index
    %c_pair_56 = vector.extract %total#28[0] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_56, %C[%c_at_row_48, %c_at_column_24] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_row_49 = arith.addi %c_row, %c56 : index
    %c_pair_57 = vector.extract %total#28[1] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_57, %C[%c_at_row_49, %c_at_column_24] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_column_25 = arith.addi %c_column, %c40 : index
    %c_at_row_50 = arith.addi %c_row, %c48 : index
    %c_pair_58 = vector.extract %total#29[0] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_58, %C[%c_at_row_50, %c_at_column_25] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_row_51 = arith.addi %c_row, %c56 : index
    %c_pair_59 = vector.extract %total#29[1] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_59, %C[%c_at_row_51, %c_at_column_25] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_column_26 = arith.addi %c_column, %c48 : index
    %c_at_row_52 = arith.addi %c_row, %c48 : index
    %c_pair_60 = vector.extract %total#30[0] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_60, %C[%c_at_row_52, %c_at_column_26] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_row_53 = arith.addi %c_row, %c56 : index
    %c_pair_61 = vector.extract %total#30[1] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_61, %C[%c_at_row_53, %c_at_column_26] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_column_27 = arith.addi %c_column, %c56 : index
    %c_at_row_54 = arith.addi %c_row, %c48 : index
    %c_pair_62 = vector.extract %total#31[0] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_62, %C[%c_at_row_54, %c_at_column_27] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %c_at_row_55 = arith.addi %c_row, %c56 : index
    %c_pair_63 = vector.extract %total#31[1] : vector<2xf32> from vector<2x2xf32>
    vector.store %c_pair_63, %C[%c_at_row_55, %c_at_column_27] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    gpu.return
  }
}
}
