// Two small kernels that are the same for every vendor: one copy of 4 bytes a thread and
// operand, which every chip with asynchronous copies can do.
//
//   async-pipe-opt examples/small_kernels.mlir --async-pipe --target=nvvm:sm_80 --emit=ptx
//   async-pipe-opt examples/small_kernels.mlir --async-pipe --target=rocdl:gfx942 --emit=isa

#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  // Row by row: D[i, t] = 2 A[i, 63 - t], with each row copied two rows ahead.
  gpu.func @reverse(%A : memref<?x64xf32> {llvm.noalias}, %D : memref<?x64xf32> {llvm.noalias})
      workgroup(%row : memref<64xf32, #wg> {llvm.align = 16 : i64})
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c63 = arith.constant 63 : index
    %t = gpu.thread_id x
    %other = arith.subi %c63, %t : index
    %rows = memref.dim %A, %c0 : memref<?x64xf32>
    scf.for %i = %c0 to %rows step %c1 {
      %copy = nvgpu.device_async_copy %A[%i, %t], %row[%t], 1 : memref<?x64xf32> to memref<64xf32, #wg>
      %group = nvgpu.device_async_create_group %copy
      nvgpu.device_async_wait %group
      gpu.barrier
      %a = memref.load %row[%other] : memref<64xf32, #wg>
      %twice = arith.addf %a, %a : f32
      memref.store %twice, %D[%i, %t] : memref<?x64xf32>
      gpu.barrier
    } {async_pipe.num_stages = 3 : i64}
    gpu.return
  }

  // D[t] = sum over i of A[i, 63 - t] * B[i, t], with a group for each operand.
  gpu.func @dot(%A : memref<?x64xf32> {llvm.noalias}, %B : memref<?x64xf32> {llvm.noalias},
                %D : memref<64xf32> {llvm.noalias})
      workgroup(%a_row : memref<64xf32, #wg> {llvm.align = 16 : i64},
                %b_row : memref<64xf32, #wg> {llvm.align = 16 : i64})
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c63 = arith.constant 63 : index
    %zero = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    %other = arith.subi %c63, %t : index
    %rows = memref.dim %A, %c0 : memref<?x64xf32>
    %sum = scf.for %i = %c0 to %rows step %c1 iter_args(%part = %zero) -> (f32) {
      %a_copy = nvgpu.device_async_copy %A[%i, %t], %a_row[%t], 1 : memref<?x64xf32> to memref<64xf32, #wg>
      %a_group = nvgpu.device_async_create_group %a_copy
      %b_copy = nvgpu.device_async_copy %B[%i, %t], %b_row[%t], 1 : memref<?x64xf32> to memref<64xf32, #wg>
      %b_group = nvgpu.device_async_create_group %b_copy
      nvgpu.device_async_wait %b_group
      gpu.barrier
      %a = memref.load %a_row[%other] : memref<64xf32, #wg>
      %b = memref.load %b_row[%t] : memref<64xf32, #wg>
      %product = arith.mulf %a, %b : f32
      %next = arith.addf %part, %product : f32
      gpu.barrier
      scf.yield %next : f32
    } {async_pipe.num_stages = 4 : i64}
    memref.store %sum, %D[%t] : memref<64xf32>
    gpu.return
  }
}
