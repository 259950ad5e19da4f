// Row by row: D[i, t] = A[i, t - 1] + 2 A[i, t] + A[i, t + 1], around the ends of a row.
#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  gpu.func @stencil(%A : memref<?x128xf32> {llvm.noalias}, %D : memref<?x128xf32> {llvm.noalias})
      workgroup(%row : memref<128xf32, #wg> {llvm.align = 16 : i64})
      kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c127 = arith.constant 127 : index
    %c128 = arith.constant 128 : index
    %t = gpu.thread_id x
    %after = arith.addi %t, %c1 : index
    %right = arith.remui %after, %c128 : index
    %before = arith.addi %t, %c127 : index
    %left = arith.remui %before, %c128 : index
    %rows = memref.dim %A, %c0 : memref<?x128xf32>
    scf.for %i = %c0 to %rows step %c1 {
      %copy = nvgpu.device_async_copy %A[%i, %t], %row[%t], 1 : memref<?x128xf32> to memref<128xf32, #wg>
      %group = nvgpu.device_async_create_group %copy
      nvgpu.device_async_wait %group
      gpu.barrier
      %x = memref.load %row[%left] : memref<128xf32, #wg>
      %y = memref.load %row[%t] : memref<128xf32, #wg>
      %z = memref.load %row[%right] : memref<128xf32, #wg>
      %twice = arith.addf %y, %y : f32
      %ends = arith.addf %x, %z : f32
      %sum = arith.addf %ends, %twice : f32
      memref.store %sum, %D[%i, %t] : memref<?x128xf32>
      gpu.barrier
    } {async_pipe.num_stages = 3 : i64}
    gpu.return
  }
}
