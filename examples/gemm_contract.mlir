// A GEMM in vector.contract, the same for every vendor: C[M, N] = A[M, K] * B[N, K]^T with tiles
// of 64x64x16, M, N and K multiples of the tile. 256 threads copy 4 bytes a thread, and each
// multiplies a 4x4 piece of C.
//
//   async-pipe-opt examples/gemm_contract.mlir --async-pipe --target=nvvm:sm_80 --emit=ptx
//   async-pipe-opt examples/gemm_contract.mlir --async-pipe --target=rocdl:gfx942 --emit=isa

#wg = #gpu.address_space<workgroup>
#rows = affine_map<(m, n, k) -> (m, k)>
#columns = affine_map<(m, n, k) -> (n, k)>
#product = affine_map<(m, n, k) -> (m, n)>
gpu.module @kernels {
  gpu.func @gemm(%A : memref<?x?xf32> {llvm.noalias}, %B : memref<?x?xf32> {llvm.noalias},
                 %C : memref<?x?xf32> {llvm.noalias})
      workgroup(%a_tile : memref<64x16xf32, #wg> {llvm.align = 16 : i64},
                %b_tile : memref<64x16xf32, #wg> {llvm.align = 16 : i64})
      kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c16 = arith.constant 16 : index
    %c32 = arith.constant 32 : index
    %c48 = arith.constant 48 : index
    %c64 = arith.constant 64 : index
    %pad = arith.constant 0.0 : f32
    %zeros = arith.constant dense<0.0> : vector<4x4xf32>
    %t = gpu.thread_id x
    %row = arith.divui %t, %c16 : index
    %column = arith.remui %t, %c16 : index
    %row_1 = arith.addi %row, %c16 : index
    %row_2 = arith.addi %row, %c32 : index
    %row_3 = arith.addi %row, %c48 : index
    %my_m = arith.muli %row, %c4 : index
    %my_n = arith.muli %column, %c4 : index
    %block_m = gpu.block_id y
    %block_n = gpu.block_id x
    %m = arith.muli %block_m, %c64 : index
    %n = arith.muli %block_n, %c64 : index
    %m_0 = arith.addi %m, %row : index
    %m_1 = arith.addi %m, %row_1 : index
    %m_2 = arith.addi %m, %row_2 : index
    %m_3 = arith.addi %m, %row_3 : index
    %n_0 = arith.addi %n, %row : index
    %n_1 = arith.addi %n, %row_1 : index
    %n_2 = arith.addi %n, %row_2 : index
    %n_3 = arith.addi %n, %row_3 : index
    %K = memref.dim %A, %c1 : memref<?x?xf32>
    %total = scf.for %k = %c0 to %K step %c16 iter_args(%sum = %zeros) -> (vector<4x4xf32>) {
      %at = arith.addi %k, %column : index
      %a_0 = nvgpu.device_async_copy %A[%m_0, %at], %a_tile[%row, %column], 1 : memref<?x?xf32> to memref<64x16xf32, #wg>
      %a_1 = nvgpu.device_async_copy %A[%m_1, %at], %a_tile[%row_1, %column], 1 : memref<?x?xf32> to memref<64x16xf32, #wg>
      %a_2 = nvgpu.device_async_copy %A[%m_2, %at], %a_tile[%row_2, %column], 1 : memref<?x?xf32> to memref<64x16xf32, #wg>
      %a_3 = nvgpu.device_async_copy %A[%m_3, %at], %a_tile[%row_3, %column], 1 : memref<?x?xf32> to memref<64x16xf32, #wg>
      %b_0 = nvgpu.device_async_copy %B[%n_0, %at], %b_tile[%row, %column], 1 : memref<?x?xf32> to memref<64x16xf32, #wg>
      %b_1 = nvgpu.device_async_copy %B[%n_1, %at], %b_tile[%row_1, %column], 1 : memref<?x?xf32> to memref<64x16xf32, #wg>
      %b_2 = nvgpu.device_async_copy %B[%n_2, %at], %b_tile[%row_2, %column], 1 : memref<?x?xf32> to memref<64x16xf32, #wg>
      %b_3 = nvgpu.device_async_copy %B[%n_3, %at], %b_tile[%row_3, %column], 1 : memref<?x?xf32> to memref<64x16xf32, #wg>
      %group = nvgpu.device_async_create_group %a_0, %a_1, %a_2, %a_3, %b_0, %b_1, %b_2, %b_3
      nvgpu.device_async_wait %group
      gpu.barrier
      %a = vector.transfer_read %a_tile[%my_m, %c0], %pad {in_bounds = [true, true]} : memref<64x16xf32, #wg>, vector<4x16xf32>
      %b = vector.transfer_read %b_tile[%my_n, %c0], %pad {in_bounds = [true, true]} : memref<64x16xf32, #wg>, vector<4x16xf32>
      %next = vector.contract {indexing_maps = [#rows, #columns, #product], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %a, %b, %sum : vector<4x16xf32>, vector<4x16xf32> into vector<4x4xf32>
      gpu.barrier
      scf.yield %next : vector<4x4xf32>
    } {async_pipe.num_stages = 3 : i64}
    %at_m = arith.addi %m, %my_m : index
    %at_n = arith.addi %n, %my_n : index
    vector.transfer_write %total, %C[%at_m, %at_n] {in_bounds = [true, true]} : vector<4x4xf32>, memref<?x?xf32>
    gpu.return
  }
}
