// ROCm/rocm-libraries#4713: The tiles of K and of V of an attention kernel take turns in one buffer of LDS.
// The first tile of V is stored where slower waves may still read the last tile of K.
// async-pipe-opt FILE --target=rocdl:gfx950 --run=attention --arg=16x128xf32:1 --arg=128xf32:2 --arg=zeros:128xf32
#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  gpu.func @attention(%k: memref<16x128xf32> {llvm.noalias}, %v: memref<128xf32> {llvm.noalias},
                      %out: memref<128xf32> {llvm.noalias})
      workgroup(%tiles: memref<2x128xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    %c127 = arith.constant 127 : index
    %t = gpu.thread_id x
    %mirror = arith.subi %c127, %t : index
    %wave = arith.divui %t, %c64 : index
    %first = arith.muli %wave, %c64 : index
    amdgpu.gather_to_lds async %k[%c0, %t], %tiles[%c0, %first] : f32, memref<16x128xf32>, memref<2x128xf32, #wg>
    rocdl.asyncmark
    %later = memref.load %v[%t] : memref<128xf32>
    rocdl.wait.asyncmark 0
    amdgpu.lds_barrier
    %x = memref.load %tiles[%c0, %mirror] : memref<2x128xf32, #wg>
    memref.store %later, %tiles[%c0, %t] : memref<2x128xf32, #wg>
    amdgpu.lds_barrier
    %y = memref.load %tiles[%c0, %mirror] : memref<2x128xf32, #wg>
    %xy = arith.mulf %x, %y : f32
    memref.store %xy, %out[%t] : memref<128xf32>
    gpu.return
  }
}
