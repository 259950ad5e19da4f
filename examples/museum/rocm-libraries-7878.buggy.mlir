// ROCm/rocm-libraries#7878: A wave copies the next tile over the one that it reads from LDS; no other wave
// takes part. The wait for the reads (s_wait_dscnt) was put after the copy, so that a read may find the next
// tile. A read is over where it is waited for: here it stands there.
// async-pipe-opt FILE --target=rocdl:gfx1250 --run=one_buffer --arg=16x128xf32:1 --arg=zeros:128xf32 --arg=5
#wg = #gpu.address_space<workgroup>
#global = #gpu.address_space<global>
gpu.module @kernels {
  gpu.func @one_buffer(%a: memref<16x128xf32, #global> {llvm.noalias}, %out: memref<128xf32, #global> {llvm.noalias}, %n: index)
      workgroup(%tiles: memref<1x128xf32, #wg>) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c31 = arith.constant 31 : index
    %c32 = arith.constant 32 : index
    %zero = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    %wave = arith.divui %t, %c32 : index
    %first = arith.muli %wave, %c32 : index
    %lane = arith.remui %t, %c32 : index
    %back = arith.subi %c31, %lane : index
    %mirror = arith.addi %first, %back : index
    %base0 = amdgpu.make_dma_base %a[%c0, %first], %tiles[%c0, %first] : memref<16x128xf32, #global>, memref<1x128xf32, #wg> -> !amdgpu.tdm_base<f32>
    %tile0 = amdgpu.make_dma_descriptor %base0 globalSize [32] globalStride [1] sharedSize [32] : !amdgpu.tdm_base<f32> -> !amdgpu.tdm_descriptor
    amdgpu.tensor_load_to_lds %tile0 : !amdgpu.tdm_descriptor
    %sum = scf.for %k = %c0 to %n step %c1 iter_args(%s = %zero) -> (f32) {
      rocdl.s.wait.tensorcnt 0
      %next = arith.addi %k, %c1 : index
      %base = amdgpu.make_dma_base %a[%next, %first], %tiles[%c0, %first] : memref<16x128xf32, #global>, memref<1x128xf32, #wg> -> !amdgpu.tdm_base<f32>
      %tile = amdgpu.make_dma_descriptor %base globalSize [32] globalStride [1] sharedSize [32] : !amdgpu.tdm_base<f32> -> !amdgpu.tdm_descriptor
      amdgpu.tensor_load_to_lds %tile : !amdgpu.tdm_descriptor
      %x = memref.load %tiles[%c0, %mirror] : memref<1x128xf32, #wg>
      %s1 = arith.addf %s, %x : f32
      scf.yield %s1 : f32
    }
    rocdl.s.wait.tensorcnt 0
    memref.store %sum, %out[%t] : memref<128xf32, #global>
    gpu.return
  }
}
