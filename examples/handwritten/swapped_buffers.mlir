// Two buffers that change places: the memrefs themselves are carried by the loop.
gpu.module @kernels {
  gpu.func @swapped_buffers(%A: memref<16x32xf32> {llvm.noalias}, %C: memref<32xf32> {llvm.noalias},
                            %n: index)
      workgroup(%ping: memref<32xf32, #gpu.address_space<workgroup>>,
                %pong: memref<32xf32, #gpu.address_space<workgroup>>)
      kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c31 = arith.constant 31 : index
    %zero = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    %other = arith.subi %c31, %t : index
    %first = nvgpu.device_async_copy %A[%c0, %t], %ping[%t], 1 : memref<16x32xf32> to memref<32xf32, #gpu.address_space<workgroup>>
    %group = nvgpu.device_async_create_group %first
    %r:3 = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %zero, %use = %ping, %fill = %pong)
        -> (f32, memref<32xf32, #gpu.address_space<workgroup>>, memref<32xf32, #gpu.address_space<workgroup>>) {
      nvvm.cp.async.wait.group 0
      gpu.barrier
      %ahead = arith.addi %i, %c1 : index
      %copy = nvgpu.device_async_copy %A[%ahead, %t], %fill[%t], 1 : memref<16x32xf32> to memref<32xf32, #gpu.address_space<workgroup>>
      %g = nvgpu.device_async_create_group %copy
      %x = memref.load %use[%other] : memref<32xf32, #gpu.address_space<workgroup>>
      %sum1 = arith.addf %sum, %x : f32
      scf.yield %sum1, %fill, %use : f32, memref<32xf32, #gpu.address_space<workgroup>>, memref<32xf32, #gpu.address_space<workgroup>>
    }
    nvvm.cp.async.wait.group 0
    memref.store %r#0, %C[%t] : memref<32xf32>
    gpu.return
  }
}
