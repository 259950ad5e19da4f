// gfx950: 16 bytes a lane, two waves, two buffers in one group, two barriers an iteration.
gpu.module @kernels {
  gpu.func @amd_wide_copies(%A: memref<16x512xf32> {llvm.noalias}, %B: memref<16x512xf32> {llvm.noalias},
                            %C: memref<512xf32> {llvm.noalias}, %n: index)
      workgroup(%sa: memref<2x512xf32, #gpu.address_space<workgroup>>,
                %sb: memref<2x512xf32, #gpu.address_space<workgroup>>)
      kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c64 = arith.constant 64 : index
    %c256 = arith.constant 256 : index
    %c508 = arith.constant 508 : index
    %zero = arith.constant dense<0.0> : vector<4xf32>
    %t = gpu.thread_id x
    %place = arith.muli %t, %c4 : index
    %wave = arith.divui %t, %c64 : index
    %stretch = arith.muli %wave, %c256 : index
    %mirror = arith.subi %c508, %place : index
    amdgpu.gather_to_lds async %A[%c0, %place], %sa[%c0, %stretch] : vector<4xf32>, memref<16x512xf32>, memref<2x512xf32, #gpu.address_space<workgroup>>
    amdgpu.gather_to_lds async %B[%c0, %place], %sb[%c0, %stretch] : vector<4xf32>, memref<16x512xf32>, memref<2x512xf32, #gpu.address_space<workgroup>>
    rocdl.asyncmark
    %r = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %zero) -> (vector<4xf32>) {
      %ahead = arith.addi %i, %c1 : index
      %to = arith.andi %ahead, %c1 : index
      %from = arith.andi %i, %c1 : index
      amdgpu.gather_to_lds async %A[%ahead, %place], %sa[%to, %stretch] : vector<4xf32>, memref<16x512xf32>, memref<2x512xf32, #gpu.address_space<workgroup>>
      amdgpu.gather_to_lds async %B[%ahead, %place], %sb[%to, %stretch] : vector<4xf32>, memref<16x512xf32>, memref<2x512xf32, #gpu.address_space<workgroup>>
      rocdl.asyncmark
      rocdl.wait.asyncmark 1
      gpu.barrier memfence [#gpu.address_space<workgroup>]
      %x = vector.load %sa[%from, %mirror] : memref<2x512xf32, #gpu.address_space<workgroup>>, vector<4xf32>
      %y = vector.load %sb[%from, %mirror] : memref<2x512xf32, #gpu.address_space<workgroup>>, vector<4xf32>
      %sum1 = math.fma %x, %y, %sum : vector<4xf32>
      gpu.barrier memfence [#gpu.address_space<workgroup>]
      scf.yield %sum1 : vector<4xf32>
    }
    rocdl.wait.asyncmark 0
    vector.store %r, %C[%place] : memref<512xf32>, vector<4xf32>
    gpu.return
  }
}
