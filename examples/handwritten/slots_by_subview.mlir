// Each slot is named by a subview, and the copies of a row are two: each thread moves two halves.
gpu.module @kernels {
  gpu.func @slots_by_subview(%A: memref<16x64xf32> {llvm.noalias}, %C: memref<64xf32> {llvm.noalias},
                             %n: index)
      workgroup(%ring: memref<2x64xf32, #gpu.address_space<workgroup>>)
      kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c31 = arith.constant 31 : index
    %c32 = arith.constant 32 : index
    %zero = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    %t2 = arith.addi %t, %c32 : index
    %other = arith.subi %c31, %t : index
    %slot0 = memref.subview %ring[0, 0] [1, 64] [1, 1] : memref<2x64xf32, #gpu.address_space<workgroup>> to memref<64xf32, strided<[1]>, #gpu.address_space<workgroup>>
    %low0 = nvgpu.device_async_copy %A[%c0, %t], %slot0[%t], 1 : memref<16x64xf32> to memref<64xf32, strided<[1]>, #gpu.address_space<workgroup>>
    %high0 = nvgpu.device_async_copy %A[%c0, %t2], %slot0[%t2], 1 : memref<16x64xf32> to memref<64xf32, strided<[1]>, #gpu.address_space<workgroup>>
    %group0 = nvgpu.device_async_create_group %low0, %high0
    %r = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %zero) -> (f32) {
      nvgpu.device_async_wait %group0 {numGroups = 0 : i32}
      gpu.barrier
      %ahead = arith.addi %i, %c1 : index
      %to = arith.remui %ahead, %c2 : index
      %from = arith.remui %i, %c2 : index
      %fill = memref.subview %ring[%to, 0] [1, 64] [1, 1] : memref<2x64xf32, #gpu.address_space<workgroup>> to memref<64xf32, strided<[1], offset: ?>, #gpu.address_space<workgroup>>
      %use = memref.subview %ring[%from, 0] [1, 64] [1, 1] : memref<2x64xf32, #gpu.address_space<workgroup>> to memref<64xf32, strided<[1], offset: ?>, #gpu.address_space<workgroup>>
      %low = nvgpu.device_async_copy %A[%ahead, %t], %fill[%t], 1 : memref<16x64xf32> to memref<64xf32, strided<[1], offset: ?>, #gpu.address_space<workgroup>>
      %high = nvgpu.device_async_copy %A[%ahead, %t2], %fill[%t2], 1 : memref<16x64xf32> to memref<64xf32, strided<[1], offset: ?>, #gpu.address_space<workgroup>>
      %group = nvgpu.device_async_create_group %low, %high
      %x = memref.load %use[%other] : memref<64xf32, strided<[1], offset: ?>, #gpu.address_space<workgroup>>
      %sum1 = arith.addf %sum, %x : f32
      scf.yield %sum1 : f32
    }
    nvvm.cp.async.wait.group 0
    memref.store %r, %C[%t] : memref<64xf32>
    gpu.return
  }
}
