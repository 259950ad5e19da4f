gpu.module @kernels {
  gpu.func @add_one(%from: memref<8192xf32> {llvm.noalias}, %to: memref<8192xf32> {llvm.noalias})
      workgroup(%tile: memref<512xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64})
      kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c4 = arith.constant 4 : index
    %c512 = arith.constant 512 : index
    %c8192 = arith.constant 8192 : index
    %one = arith.constant dense<1.0> : vector<4xf32>
    %tid = gpu.thread_id x
    %mine = arith.muli %tid, %c4 : index
    scf.for %i = %c0 to %c8192 step %c512 {
      %at = arith.addi %i, %mine : index
      %copy = nvgpu.device_async_copy %from[%at], %tile[%mine], 4 : memref<8192xf32> to memref<512xf32, #gpu.address_space<workgroup>>
      %group = nvgpu.device_async_create_group %copy
      nvgpu.device_async_wait %group
      gpu.barrier
      %v = vector.load %tile[%mine] : memref<512xf32, #gpu.address_space<workgroup>>, vector<4xf32>
      %w = arith.addf %v, %one : vector<4xf32>
      vector.store %w, %to[%at] : memref<8192xf32>, vector<4xf32>
      gpu.barrier
    } {async_pipe.num_stages = 3 : i64}
    gpu.return
  }
}
