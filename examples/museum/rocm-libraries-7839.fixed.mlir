// ROCm/rocm-libraries#7839, mended: each iteration begins with a wait for the copy and a barrier.
// async-pipe-opt FILE --target=rocdl:gfx1250 --run=swapped --arg=16x128xf32:1 --arg=zeros:128xf32 --arg=5
#wg = #gpu.address_space<workgroup>
#global = #gpu.address_space<global>
gpu.module @kernels {
  gpu.func @swapped(%a: memref<16x128xf32, #global> {llvm.noalias}, %out: memref<128xf32, #global> {llvm.noalias}, %n: index)
      workgroup(%tiles: memref<2x128xf32, #wg>) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c32 = arith.constant 32 : index
    %c127 = arith.constant 127 : index
    %zero = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    %mirror = arith.subi %c127, %t : index
    %first_wave = arith.cmpi ult, %t, %c32 : index
    %base0 = amdgpu.make_dma_base %a[%c0, %c0], %tiles[%c0, %c0] : memref<16x128xf32, #global>, memref<2x128xf32, #wg> -> !amdgpu.tdm_base<f32>
    %tile0 = amdgpu.make_dma_descriptor %base0 globalSize [128] globalStride [1] sharedSize [128] : !amdgpu.tdm_base<f32> -> !amdgpu.tdm_descriptor
    scf.if %first_wave {
      amdgpu.tensor_load_to_lds %tile0 : !amdgpu.tdm_descriptor
    }
    %sum = scf.for %k = %c0 to %n step %c1 iter_args(%s = %zero) -> (f32) {
      %slot = arith.remui %k, %c2 : index
      rocdl.s.wait.tensorcnt 0
      gpu.barrier
      %x = memref.load %tiles[%slot, %mirror] : memref<2x128xf32, #wg>
      %s1 = arith.addf %s, %x : f32
      %next = arith.addi %k, %c1 : index
      %other = arith.remui %next, %c2 : index
      %base = amdgpu.make_dma_base %a[%next, %c0], %tiles[%other, %c0] : memref<16x128xf32, #global>, memref<2x128xf32, #wg> -> !amdgpu.tdm_base<f32>
      %tile = amdgpu.make_dma_descriptor %base globalSize [128] globalStride [1] sharedSize [128] : !amdgpu.tdm_base<f32> -> !amdgpu.tdm_descriptor
      scf.if %first_wave {
        amdgpu.tensor_load_to_lds %tile : !amdgpu.tdm_descriptor
      }
      scf.yield %s1 : f32
    }
    rocdl.s.wait.tensorcnt 0
    memref.store %sum, %out[%t] : memref<128xf32, #global>
    gpu.return
  }
}
