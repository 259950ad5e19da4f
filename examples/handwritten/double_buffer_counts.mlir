// Two rows, count form, two barriers an iteration: the copy of row i+1 is issued before row i is
// used, and the second barrier keeps the copy of iteration i+1 off the row that is being read.
gpu.module @kernels {
  gpu.func @double_buffer_counts(%A: memref<16x64xf32> {llvm.noalias},
                                 %C: memref<64xf32> {llvm.noalias}, %n: index)
      workgroup(%rows: memref<2x64xf32, #gpu.address_space<workgroup>>)
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c63 = arith.constant 63 : index
    %zero = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    %mirror = arith.subi %c63, %t : index
    %first = nvgpu.device_async_copy %A[%c0, %t], %rows[%c0, %t], 1 : memref<16x64xf32> to memref<2x64xf32, #gpu.address_space<workgroup>>
    nvvm.cp.async.commit.group
    %r = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %zero) -> (f32) {
      %next = arith.addi %i, %c1 : index
      %to = arith.remui %next, %c2 : index
      %from = arith.remui %i, %c2 : index
      %copy = nvgpu.device_async_copy %A[%next, %t], %rows[%to, %t], 1 : memref<16x64xf32> to memref<2x64xf32, #gpu.address_space<workgroup>>
      nvvm.cp.async.commit.group
      nvvm.cp.async.wait.group 1
      gpu.barrier
      %x = memref.load %rows[%from, %mirror] : memref<2x64xf32, #gpu.address_space<workgroup>>
      %sum1 = arith.addf %sum, %x : f32
      gpu.barrier
      scf.yield %sum1 : f32
    }
    nvvm.cp.async.wait.group 0
    memref.store %r, %C[%t] : memref<64xf32>
    gpu.return
  }
}
