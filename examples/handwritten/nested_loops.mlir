// A pipelined loop inside another one. Each outer iteration drains the queue and starts anew; the
// barrier at its end keeps the next prologue off rows that are still being read.
gpu.module @kernels {
  gpu.func @nested_loops(%A: memref<4x16x32xf32> {llvm.noalias}, %C: memref<4x32xf32> {llvm.noalias},
                         %m: index, %n: index)
      workgroup(%ring: memref<2x32xf32, #gpu.address_space<workgroup>>)
      kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c31 = arith.constant 31 : index
    %zero = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    %other = arith.subi %c31, %t : index
    scf.for %o = %c0 to %m step %c1 {
      %first = nvgpu.device_async_copy %A[%o, %c0, %t], %ring[%c0, %t], 1 : memref<4x16x32xf32> to memref<2x32xf32, #gpu.address_space<workgroup>>
      nvvm.cp.async.commit.group
      %r = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %zero) -> (f32) {
        nvvm.cp.async.wait.group 0
        gpu.barrier
        %ahead = arith.addi %i, %c1 : index
        %to = arith.remui %ahead, %c2 : index
        %from = arith.remui %i, %c2 : index
        %copy = nvgpu.device_async_copy %A[%o, %ahead, %t], %ring[%to, %t], 1 : memref<4x16x32xf32> to memref<2x32xf32, #gpu.address_space<workgroup>>
        nvvm.cp.async.commit.group
        %x = memref.load %ring[%from, %other] : memref<2x32xf32, #gpu.address_space<workgroup>>
        %sum1 = arith.addf %sum, %x : f32
        scf.yield %sum1 : f32
      }
      memref.store %r, %C[%o, %t] : memref<4x32xf32>
      nvvm.cp.async.wait.group 0
      gpu.barrier
    }
    gpu.return
  }
}
