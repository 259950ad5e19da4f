// Three blocks of 3, 5 and 2 copies, each closed by a mark. Waiting for the first block leaves two
// marks; then its three rows may be read.
gpu.module @kernels {
  gpu.func @amd_uneven_blocks(%G: memref<10x64xf32> {llvm.noalias}, %C: memref<64xf32> {llvm.noalias})
      workgroup(%L: memref<10x64xf32, #gpu.address_space<workgroup>>)
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c8 = arith.constant 8 : index
    %c10 = arith.constant 10 : index
    %t = gpu.thread_id x
    scf.for %i = %c0 to %c3 step %c1 {
      amdgpu.gather_to_lds async %G[%i, %t], %L[%i, %c0] : f32, memref<10x64xf32>, memref<10x64xf32, #gpu.address_space<workgroup>>
    }
    rocdl.asyncmark
    scf.for %i = %c3 to %c8 step %c1 {
      amdgpu.gather_to_lds async %G[%i, %t], %L[%i, %c0] : f32, memref<10x64xf32>, memref<10x64xf32, #gpu.address_space<workgroup>>
    }
    rocdl.asyncmark
    scf.for %i = %c8 to %c10 step %c1 {
      amdgpu.gather_to_lds async %G[%i, %t], %L[%i, %c0] : f32, memref<10x64xf32>, memref<10x64xf32, #gpu.address_space<workgroup>>
    }
    rocdl.asyncmark
    rocdl.wait.asyncmark 2
    %x0 = memref.load %L[%c0, %t] : memref<10x64xf32, #gpu.address_space<workgroup>>
    %x1 = memref.load %L[%c1, %t] : memref<10x64xf32, #gpu.address_space<workgroup>>
    %x2 = memref.load %L[%c2, %t] : memref<10x64xf32, #gpu.address_space<workgroup>>
    %y = arith.addf %x0, %x1 : f32
    %z = arith.addf %y, %x2 : f32
    memref.store %z, %C[%t] : memref<64xf32>
    rocdl.wait.asyncmark 0
    gpu.return
  }
}
