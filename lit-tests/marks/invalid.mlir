// RUN: async-pipe-opt %s --split-input-file --verify-diagnostics --async-pipe-check=chip=gfx950

// Uneven blocks: the wait must leave 2 marks outstanding; with 3 the first block is.
#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  gpu.func @uneven(%G: memref<8x64xf32> {llvm.noalias}, %C: memref<64xf32> {llvm.noalias})
      workgroup(%L: memref<8x64xf32, #wg>) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %t = gpu.thread_id x
    // expected-note @below {{this op is in flight there, with 2 younger groups on queue async-lds}}
    amdgpu.gather_to_lds async %G[%c0, %t], %L[%c0, %c0] : f32, memref<8x64xf32>, memref<8x64xf32, #wg>
    rocdl.asyncmark
    amdgpu.gather_to_lds async %G[%c1, %t], %L[%c1, %c0] : f32, memref<8x64xf32>, memref<8x64xf32, #wg>
    amdgpu.gather_to_lds async %G[%c2, %t], %L[%c2, %c0] : f32, memref<8x64xf32>, memref<8x64xf32, #wg>
    rocdl.asyncmark
    amdgpu.gather_to_lds async %G[%c3, %t], %L[%c3, %c0] : f32, memref<8x64xf32>, memref<8x64xf32, #wg>
    rocdl.asyncmark
    // expected-note @below {{this wait lets 3 groups stay in flight; at most 2 would do}}
    rocdl.wait.asyncmark 3
    // expected-error @below {{'memref.load' reads what 'amdgpu.gather_to_lds' may still be writing}}
    %x = memref.load %L[%c0, %t] : memref<8x64xf32, #wg>
    memref.store %x, %C[%t] : memref<64xf32>
    rocdl.wait.asyncmark 0
    gpu.return
  }
}

// -----

// A callee's marks do not count in its caller, so nothing makes a wait for 2 enough.
func.func @call(%G: memref<8x64xf32> {llvm.noalias}, %C: memref<64xf32> {llvm.noalias})
    attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %L = memref.alloc() : memref<8x64xf32, #gpu.address_space<workgroup>>
  %t = gpu.thread_id x
  // expected-note @below {{this op is in flight there, with 1 younger group on queue async-lds}}
  amdgpu.gather_to_lds async %G[%c0, %t], %L[%c0, %c0] : f32, memref<8x64xf32>, memref<8x64xf32, #gpu.address_space<workgroup>>
  rocdl.asyncmark
  func.call @mark_only() : () -> ()
  amdgpu.gather_to_lds async %G[%c1, %t], %L[%c1, %c0] : f32, memref<8x64xf32>, memref<8x64xf32, #gpu.address_space<workgroup>>
  rocdl.asyncmark
  // expected-note @below {{this wait lets 2 groups stay in flight; at most 1 would do}}
  rocdl.wait.asyncmark 2
  // expected-error @below {{'memref.load' reads what 'amdgpu.gather_to_lds' may still be writing}}
  %x = memref.load %L[%c0, %t] : memref<8x64xf32, #gpu.address_space<workgroup>>
  memref.store %x, %C[%t] : memref<64xf32>
  rocdl.wait.asyncmark 0
  return
}
func.func @mark_only() {
  rocdl.asyncmark
  return
}
