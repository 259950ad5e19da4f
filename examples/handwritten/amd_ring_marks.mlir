// gfx9: three LDS rows, each filled by one copy a lane; marks make groups, waits count marks. One
// address names the wave's stretch of LDS: lane l writes l elements after it.
gpu.module @kernels {
  gpu.func @amd_ring_marks(%A: memref<16x64xf32> {llvm.noalias}, %C: memref<64xf32> {llvm.noalias},
                           %n: index)
      workgroup(%ring: memref<3x64xf32, #gpu.address_space<workgroup>>)
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c63 = arith.constant 63 : index
    %zero = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    %mirror = arith.subi %c63, %t : index
    amdgpu.gather_to_lds async %A[%c0, %t], %ring[%c0, %c0] : f32, memref<16x64xf32>, memref<3x64xf32, #gpu.address_space<workgroup>>
    rocdl.asyncmark
    amdgpu.gather_to_lds async %A[%c1, %t], %ring[%c1, %c0] : f32, memref<16x64xf32>, memref<3x64xf32, #gpu.address_space<workgroup>>
    rocdl.asyncmark
    %r:3 = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %zero, %read = %c0, %write = %c2)
        -> (f32, index, index) {
      rocdl.wait.asyncmark 1
      gpu.barrier memfence [#gpu.address_space<workgroup>]
      %ahead = arith.addi %i, %c2 : index
      amdgpu.gather_to_lds async %A[%ahead, %t], %ring[%write, %c0] : f32, memref<16x64xf32>, memref<3x64xf32, #gpu.address_space<workgroup>>
      rocdl.asyncmark
      %x = memref.load %ring[%read, %mirror] : memref<3x64xf32, #gpu.address_space<workgroup>>
      %sum1 = arith.addf %sum, %x : f32
      %up = arith.addi %read, %c1 : index
      %full = arith.cmpi eq, %up, %c3 : index
      %wrapped = arith.select %full, %c0, %up : index
      scf.yield %sum1, %wrapped, %read : f32, index, index
    }
    rocdl.wait.asyncmark 0
    memref.store %r#0, %C[%t] : memref<64xf32>
    gpu.return
  }
}
