// Three blocks ahead of the loop, one a trip: the loop waits until two are outstanding, uses the
// oldest, and issues the next; after it the waits count down 2, 1, 0. A ring of four rows.
gpu.module @kernels {
  gpu.func @amd_software_pipeline(%G: memref<16x64xf32> {llvm.noalias},
                                  %C: memref<16x64xf32> {llvm.noalias}, %n: index)
      workgroup(%L: memref<4x64xf32, #gpu.address_space<workgroup>>)
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %t = gpu.thread_id x
    amdgpu.gather_to_lds async %G[%c0, %t], %L[%c0, %c0] : f32, memref<16x64xf32>, memref<4x64xf32, #gpu.address_space<workgroup>>
    rocdl.asyncmark
    amdgpu.gather_to_lds async %G[%c1, %t], %L[%c1, %c0] : f32, memref<16x64xf32>, memref<4x64xf32, #gpu.address_space<workgroup>>
    rocdl.asyncmark
    amdgpu.gather_to_lds async %G[%c2, %t], %L[%c2, %c0] : f32, memref<16x64xf32>, memref<4x64xf32, #gpu.address_space<workgroup>>
    rocdl.asyncmark
    scf.for %i = %c0 to %n step %c1 {
      rocdl.wait.asyncmark 2
      %from = arith.andi %i, %c3 : index
      %x = memref.load %L[%from, %t] : memref<4x64xf32, #gpu.address_space<workgroup>>
      memref.store %x, %C[%i, %t] : memref<16x64xf32>
      %ahead = arith.addi %i, %c3 : index
      %to = arith.andi %ahead, %c3 : index
      amdgpu.gather_to_lds async %G[%ahead, %t], %L[%to, %c0] : f32, memref<16x64xf32>, memref<4x64xf32, #gpu.address_space<workgroup>>
      rocdl.asyncmark
    }
    rocdl.wait.asyncmark 2
    %i0 = arith.andi %n, %c3 : index
    %x0 = memref.load %L[%i0, %t] : memref<4x64xf32, #gpu.address_space<workgroup>>
    memref.store %x0, %C[%n, %t] : memref<16x64xf32>
    rocdl.wait.asyncmark 1
    %n1 = arith.addi %n, %c1 : index
    %i1 = arith.andi %n1, %c3 : index
    %x1 = memref.load %L[%i1, %t] : memref<4x64xf32, #gpu.address_space<workgroup>>
    memref.store %x1, %C[%n1, %t] : memref<16x64xf32>
    rocdl.wait.asyncmark 0
    %n2 = arith.addi %n, %c2 : index
    %i2 = arith.andi %n2, %c3 : index
    %x2 = memref.load %L[%i2, %t] : memref<4x64xf32, #gpu.address_space<workgroup>>
    memref.store %x2, %C[%n2, %t] : memref<16x64xf32>
    gpu.return
  }
}
