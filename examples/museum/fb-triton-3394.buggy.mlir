// facebookexperimental/triton#3394: Waves read a slot, copy a later tile into it, and wait at the end of
// the iteration. Nothing keeps the leading waves from that copy while the trailing ones still read.
// async-pipe-opt FILE --target=rocdl:gfx950 --run=flat_pipe --arg=16x128xf32:1 --arg=zeros:128xf32 --arg=3
#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  gpu.func @flat_pipe(%a: memref<16x128xf32> {llvm.noalias}, %out: memref<128xf32> {llvm.noalias}, %n: index)
      workgroup(%tiles: memref<2x128xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c64 = arith.constant 64 : index
    %c127 = arith.constant 127 : index
    %zero = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    %mirror = arith.subi %c127, %t : index
    %wave = arith.divui %t, %c64 : index
    %first = arith.muli %wave, %c64 : index
    amdgpu.gather_to_lds async %a[%c0, %t], %tiles[%c0, %first] : f32, memref<16x128xf32>, memref<2x128xf32, #wg>
    rocdl.asyncmark
    amdgpu.gather_to_lds async %a[%c1, %t], %tiles[%c1, %first] : f32, memref<16x128xf32>, memref<2x128xf32, #wg>
    rocdl.asyncmark
    rocdl.wait.asyncmark 1
    amdgpu.lds_barrier
    %sum = scf.for %k = %c0 to %n step %c1 iter_args(%s = %zero) -> (f32) {
      %slot = arith.remui %k, %c2 : index
      %later = arith.addi %k, %c2 : index
      %x = memref.load %tiles[%slot, %mirror] : memref<2x128xf32, #wg>
      amdgpu.gather_to_lds async %a[%later, %t], %tiles[%slot, %first] : f32, memref<16x128xf32>, memref<2x128xf32, #wg>
      rocdl.asyncmark
      %s1 = arith.addf %s, %x : f32
      rocdl.wait.asyncmark 1
      amdgpu.lds_barrier
      scf.yield %s1 : f32
    }
    rocdl.wait.asyncmark 0
    memref.store %sum, %out[%t] : memref<128xf32>
    gpu.return
  }
}
