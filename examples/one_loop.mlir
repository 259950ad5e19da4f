// One loop that names no chip: a block sums a row of tiles, 32 rows by 64 columns of f16, each tile read
// by its threads across the rows that they copied. cmake-free-scripts/write_targets.py shows what it becomes
// on each chip (docs/targets.md).
//
//   async-pipe-opt examples/one_loop.mlir --async-pipe --target=nvvm:sm_80 --emit=ptx
//   async-pipe-opt examples/one_loop.mlir --async-pipe --target=rocdl:gfx950 --emit=isa

#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  gpu.func @sum(%A : memref<32x?xf16> {llvm.noalias, llvm.align = 16 : i64}, %D : memref<32x64xf32> {llvm.noalias, llvm.align = 16 : i64})
      workgroup(%tile : memref<32x64xf16, #wg> {llvm.align = 16 : i64})
      kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %c31 = arith.constant 31 : index
    %c64 = arith.constant 64 : index
    %zeros = arith.constant dense<0.0> : vector<8xf32>
    %thread = gpu.thread_id x
    %row = arith.divui %thread, %c8 : index
    %piece = arith.remui %thread, %c8 : index
    %column = arith.muli %piece, %c8 : index
    %other = arith.subi %c31, %row : index
    %columns = memref.dim %A, %c1 : memref<32x?xf16>
    %total = scf.for %k = %c0 to %columns step %c64 iter_args(%sum = %zeros) -> (vector<8xf32>) {
      %at = arith.addi %k, %column : index
      %a = vector.load %A[%row, %at] {alignment = 16 : i64} : memref<32x?xf16>, vector<8xf16>
      vector.store %a, %tile[%row, %column] : memref<32x64xf16, #wg>, vector<8xf16>
      gpu.barrier
      %b = vector.load %tile[%other, %column] : memref<32x64xf16, #wg>, vector<8xf16>
      %wide = arith.extf %b : vector<8xf16> to vector<8xf32>
      %next = arith.addf %sum, %wide : vector<8xf32>
      gpu.barrier
      scf.yield %next : vector<8xf32>
    } {async_pipe.num_stages = 4 : i64}
    vector.store %total, %D[%other, %column] : memref<32x64xf32>, vector<8xf32>
    gpu.return
  }
}
