// The statistics of a softmax to base 2: thread t keeps the largest element m of columns
// t, t + 128, … of one long row, and the sum of 2^(x - m), both made tile by tile.
#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  gpu.func @softmax(%A : memref<?xf32> {llvm.noalias}, %M : memref<128xf32> {llvm.noalias},
                    %S : memref<128xf32> {llvm.noalias})
      workgroup(%tile : memref<512xf32, #wg> {llvm.align = 16 : i64})
      kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c4 = arith.constant 4 : index
    %c128 = arith.constant 128 : index
    %c256 = arith.constant 256 : index
    %c384 = arith.constant 384 : index
    %c512 = arith.constant 512 : index
    %low = arith.constant -1.0e+30 : f32
    %zero = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    %first = arith.muli %t, %c4 : index
    %t1 = arith.addi %t, %c128 : index
    %t2 = arith.addi %t, %c256 : index
    %t3 = arith.addi %t, %c384 : index
    %n = memref.dim %A, %c0 : memref<?xf32>
    %m, %s = scf.for %i = %c0 to %n step %c512 iter_args(%max = %low, %sum = %zero) -> (f32, f32) {
      %at = arith.addi %i, %first : index
      %copy = nvgpu.device_async_copy %A[%at], %tile[%first], 4 {bypassL1} : memref<?xf32> to memref<512xf32, #wg>
      %group = nvgpu.device_async_create_group %copy
      nvgpu.device_async_wait %group
      gpu.barrier
      %a = memref.load %tile[%t] : memref<512xf32, #wg>
      %b = memref.load %tile[%t1] : memref<512xf32, #wg>
      %c = memref.load %tile[%t2] : memref<512xf32, #wg>
      %d = memref.load %tile[%t3] : memref<512xf32, #wg>
      %ab = arith.maximumf %a, %b : f32
      %cd = arith.maximumf %c, %d : f32
      %four = arith.maximumf %ab, %cd : f32
      %largest = arith.maximumf %max, %four : f32
      %a_off = arith.subf %a, %largest : f32
      %b_off = arith.subf %b, %largest : f32
      %c_off = arith.subf %c, %largest : f32
      %d_off = arith.subf %d, %largest : f32
      %m_off = arith.subf %max, %largest : f32
      %a_exp = math.exp2 %a_off : f32
      %b_exp = math.exp2 %b_off : f32
      %c_exp = math.exp2 %c_off : f32
      %d_exp = math.exp2 %d_off : f32
      %scale = math.exp2 %m_off : f32
      %old = arith.mulf %sum, %scale : f32
      %s1 = arith.addf %old, %a_exp : f32
      %s2 = arith.addf %s1, %b_exp : f32
      %s3 = arith.addf %s2, %c_exp : f32
      %s4 = arith.addf %s3, %d_exp : f32
      gpu.barrier
      scf.yield %largest, %s4 : f32, f32
    } {async_pipe.num_stages = 3 : i64}
    memref.store %m, %M[%t] : memref<128xf32>
    memref.store %s, %S[%t] : memref<128xf32>
    gpu.return
  }
}
