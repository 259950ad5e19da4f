// out[i] = in[i] + in[i+1] + in[i+2] over rows, two barriers an iteration. Three rows are in use
// and one arrives: a ring of four, slots counted by an iter_arg that wraps.
gpu.module @kernels {
  gpu.func @stencil(%A: memref<16x32xf32> {llvm.noalias}, %C: memref<16x32xf32> {llvm.noalias},
                    %n: index)
      workgroup(%ring: memref<4x32xf32, #gpu.address_space<workgroup>>)
      kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c4 = arith.constant 4 : index
    %c31 = arith.constant 31 : index
    %t = gpu.thread_id x
    %other = arith.subi %c31, %t : index
    %row0 = nvgpu.device_async_copy %A[%c0, %t], %ring[%c0, %t], 1 : memref<16x32xf32> to memref<4x32xf32, #gpu.address_space<workgroup>>
    %row1 = nvgpu.device_async_copy %A[%c1, %t], %ring[%c1, %t], 1 : memref<16x32xf32> to memref<4x32xf32, #gpu.address_space<workgroup>>
    %row2 = nvgpu.device_async_copy %A[%c2, %t], %ring[%c2, %t], 1 : memref<16x32xf32> to memref<4x32xf32, #gpu.address_space<workgroup>>
    nvvm.cp.async.commit.group
    %last:4 = scf.for %i = %c0 to %n step %c1
        iter_args(%s0 = %c0, %s1 = %c1, %s2 = %c2, %s3 = %c3) -> (index, index, index, index) {
      %ahead = arith.addi %i, %c3 : index
      %row = nvgpu.device_async_copy %A[%ahead, %t], %ring[%s3, %t], 1 : memref<16x32xf32> to memref<4x32xf32, #gpu.address_space<workgroup>>
      nvvm.cp.async.commit.group
      nvvm.cp.async.wait.group 1
      gpu.barrier
      %x0 = memref.load %ring[%s0, %other] : memref<4x32xf32, #gpu.address_space<workgroup>>
      %x1 = memref.load %ring[%s1, %other] : memref<4x32xf32, #gpu.address_space<workgroup>>
      %x2 = memref.load %ring[%s2, %other] : memref<4x32xf32, #gpu.address_space<workgroup>>
      %y = arith.addf %x0, %x1 : f32
      %z = arith.addf %y, %x2 : f32
      memref.store %z, %C[%i, %t] : memref<16x32xf32>
      gpu.barrier
      scf.yield %s1, %s2, %s3, %s0 : index, index, index, index
    }
    nvvm.cp.async.wait.group 0
    gpu.return
  }
}
