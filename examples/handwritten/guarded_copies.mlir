// No epilogue: copies past the end are guarded, commits are not, so the count holds in every
// iteration (an empty group counts and is complete at once).
gpu.module @kernels {
  gpu.func @guarded_copies(%A: memref<16x32xf32> {llvm.noalias}, %C: memref<32xf32> {llvm.noalias},
                           %n: index)
      workgroup(%ring: memref<3x32xf32, #gpu.address_space<workgroup>>)
      kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c31 = arith.constant 31 : index
    %zero = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    %other = arith.subi %c31, %t : index
    scf.for %p = %c0 to %c2 step %c1 {
      %inside = arith.cmpi slt, %p, %n : index
      scf.if %inside {
        %copy = nvgpu.device_async_copy %A[%p, %t], %ring[%p, %t], 1 : memref<16x32xf32> to memref<3x32xf32, #gpu.address_space<workgroup>>
      }
      nvvm.cp.async.commit.group
    }
    %r = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %zero) -> (f32) {
      nvvm.cp.async.wait.group 1
      gpu.barrier
      %ahead = arith.addi %i, %c2 : index
      %inside = arith.cmpi slt, %ahead, %n : index
      scf.if %inside {
        %to = arith.remui %ahead, %c3 : index
        %copy = nvgpu.device_async_copy %A[%ahead, %t], %ring[%to, %t], 1 : memref<16x32xf32> to memref<3x32xf32, #gpu.address_space<workgroup>>
      }
      nvvm.cp.async.commit.group
      %from = arith.remui %i, %c3 : index
      %x = memref.load %ring[%from, %other] : memref<3x32xf32, #gpu.address_space<workgroup>>
      %sum1 = arith.addf %sum, %x : f32
      scf.yield %sum1 : f32
    }
    memref.store %r, %C[%t] : memref<32xf32>
    gpu.return
  }
}
