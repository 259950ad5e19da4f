// Dynamic shared memory cut into two rings by views: x at byte 0, y after it at byte 384.
gpu.module @kernels {
  gpu.func @dynamic_shared(%A: memref<16x32xf32> {llvm.noalias}, %B: memref<16x32xf32> {llvm.noalias},
                           %C: memref<32xf32> {llvm.noalias}, %n: index)
      kernel attributes {known_block_size = array<i32: 32, 1, 1>,
                         async_pipe.dynamic_shared_bytes = 768 : i64} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c31 = arith.constant 31 : index
    %c384 = arith.constant 384 : index
    %zero = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    %other = arith.subi %c31, %t : index
    %bytes = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>
    %x = memref.view %bytes[%c0][] : memref<?xi8, #gpu.address_space<workgroup>> to memref<3x32xf32, #gpu.address_space<workgroup>>
    %y = memref.view %bytes[%c384][] : memref<?xi8, #gpu.address_space<workgroup>> to memref<3x32xf32, #gpu.address_space<workgroup>>
    scf.for %p = %c0 to %c2 step %c1 {
      %a = nvgpu.device_async_copy %A[%p, %t], %x[%p, %t], 1 : memref<16x32xf32> to memref<3x32xf32, #gpu.address_space<workgroup>>
      %b = nvgpu.device_async_copy %B[%p, %t], %y[%p, %t], 1 : memref<16x32xf32> to memref<3x32xf32, #gpu.address_space<workgroup>>
      nvvm.cp.async.commit.group
    }
    %r:3 = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %zero, %read = %c0, %write = %c2)
        -> (f32, index, index) {
      nvvm.cp.async.wait.group 1
      gpu.barrier
      %ahead = arith.addi %i, %c2 : index
      %a = nvgpu.device_async_copy %A[%ahead, %t], %x[%write, %t], 1 : memref<16x32xf32> to memref<3x32xf32, #gpu.address_space<workgroup>>
      %b = nvgpu.device_async_copy %B[%ahead, %t], %y[%write, %t], 1 : memref<16x32xf32> to memref<3x32xf32, #gpu.address_space<workgroup>>
      nvvm.cp.async.commit.group
      %u = memref.load %x[%read, %other] : memref<3x32xf32, #gpu.address_space<workgroup>>
      %v = memref.load %y[%read, %other] : memref<3x32xf32, #gpu.address_space<workgroup>>
      %uv = arith.mulf %u, %v : f32
      %sum1 = arith.addf %sum, %uv : f32
      %up = arith.addi %read, %c1 : index
      %full = arith.cmpi eq, %up, %c3 : index
      %wrapped = arith.select %full, %c0, %up : index
      scf.yield %sum1, %wrapped, %read : f32, index, index
    }
    nvvm.cp.async.wait.group 0
    memref.store %r#0, %C[%t] : memref<32xf32>
    gpu.return
  }
}
