// ROCm/aiter#4851, mended: as there; nothing speaks against four buffers.
// async-pipe-opt FILE --target=rocdl:gfx1250 --run=compute_bound --arg=16x128xf32:1 --arg=zeros:128xf32 --arg=5
#wg = #gpu.address_space<workgroup>
#global = #gpu.address_space<global>
gpu.module @kernels {
  gpu.func @compute_bound(%a: memref<16x128xf32, #global> {llvm.noalias}, %out: memref<128xf32, #global> {llvm.noalias}, %n: index)
      workgroup(%tiles: memref<4x128xf32, #wg>) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c4 = arith.constant 4 : index
    %c32 = arith.constant 32 : index
    %c127 = arith.constant 127 : index
    %zero = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    %mirror = arith.subi %c127, %t : index
    %wave = arith.divui %t, %c32 : index
    %first = arith.muli %wave, %c32 : index
    %base0 = amdgpu.make_dma_base %a[%c0, %first], %tiles[%c0, %first] : memref<16x128xf32, #global>, memref<4x128xf32, #wg> -> !amdgpu.tdm_base<f32>
    %tile0 = amdgpu.make_dma_descriptor %base0 globalSize [32] globalStride [1] sharedSize [32] : !amdgpu.tdm_base<f32> -> !amdgpu.tdm_descriptor
    amdgpu.tensor_load_to_lds %tile0 : !amdgpu.tdm_descriptor
    %base1 = amdgpu.make_dma_base %a[%c1, %first], %tiles[%c1, %first] : memref<16x128xf32, #global>, memref<4x128xf32, #wg> -> !amdgpu.tdm_base<f32>
    %tile1 = amdgpu.make_dma_descriptor %base1 globalSize [32] globalStride [1] sharedSize [32] : !amdgpu.tdm_base<f32> -> !amdgpu.tdm_descriptor
    amdgpu.tensor_load_to_lds %tile1 : !amdgpu.tdm_descriptor
    %base2 = amdgpu.make_dma_base %a[%c2, %first], %tiles[%c2, %first] : memref<16x128xf32, #global>, memref<4x128xf32, #wg> -> !amdgpu.tdm_base<f32>
    %tile2 = amdgpu.make_dma_descriptor %base2 globalSize [32] globalStride [1] sharedSize [32] : !amdgpu.tdm_base<f32> -> !amdgpu.tdm_descriptor
    amdgpu.tensor_load_to_lds %tile2 : !amdgpu.tdm_descriptor
    rocdl.s.wait.tensorcnt 2
    gpu.barrier
    %begin = memref.load %tiles[%c0, %mirror] : memref<4x128xf32, #wg>
    %sum, %last = scf.for %k = %c0 to %n step %c1 iter_args(%s = %zero, %x = %begin) -> (f32, f32) {
      %ahead = arith.addi %k, %c3 : index
      %slot = arith.remui %ahead, %c4 : index
      %base = amdgpu.make_dma_base %a[%ahead, %first], %tiles[%slot, %first] : memref<16x128xf32, #global>, memref<4x128xf32, #wg> -> !amdgpu.tdm_base<f32>
      %tile = amdgpu.make_dma_descriptor %base globalSize [32] globalStride [1] sharedSize [32] : !amdgpu.tdm_base<f32> -> !amdgpu.tdm_descriptor
      amdgpu.tensor_load_to_lds %tile : !amdgpu.tdm_descriptor
      %s1 = arith.addf %s, %x : f32
      rocdl.s.wait.tensorcnt 2
      gpu.barrier
      %next = arith.addi %k, %c1 : index
      %now = arith.remui %next, %c4 : index
      %y = memref.load %tiles[%now, %mirror] : memref<4x128xf32, #wg>
      scf.yield %s1, %y : f32, f32
    }
    rocdl.s.wait.tensorcnt 0
    memref.store %sum, %out[%t] : memref<128xf32, #global>
    gpu.return
  }
}
