// ROCm/rocm-libraries#10653, mended: the reads are over before the barrier.
// async-pipe-opt FILE --target=rocdl:gfx1250 --run=mx_pipeline --arg=16x128xf32:1 --arg=zeros:128xf32 --arg=5
#wg = #gpu.address_space<workgroup>
#global = #gpu.address_space<global>
gpu.module @kernels {
  gpu.func @mx_pipeline(%a: memref<16x128xf32, #global> {llvm.noalias}, %out: memref<128xf32, #global> {llvm.noalias}, %n: index)
      workgroup(%tiles: memref<2x128xf32, #wg>) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c127 = arith.constant 127 : index
    %zero = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    %mirror = arith.subi %c127, %t : index
    amdgpu.global_load_async_to_lds %a[%c0, %t], %tiles[%c0, %t] : f32, memref<16x128xf32, #global>, memref<2x128xf32, #wg>
    amdgpu.global_load_async_to_lds %a[%c1, %t], %tiles[%c1, %t] : f32, memref<16x128xf32, #global>, memref<2x128xf32, #wg>
    rocdl.s.wait.asynccnt 0
    gpu.barrier
    %sum = scf.for %k = %c0 to %n step %c1 iter_args(%s = %zero) -> (f32) {
      %slot = arith.remui %k, %c2 : index
      %x = memref.load %tiles[%slot, %mirror] : memref<2x128xf32, #wg>
      rocdl.s.wait.asynccnt 0
      gpu.barrier
      %ahead = arith.addi %k, %c2 : index
      amdgpu.global_load_async_to_lds %a[%ahead, %t], %tiles[%slot, %t] : f32, memref<16x128xf32, #global>, memref<2x128xf32, #wg>
      %s1 = arith.addf %s, %x : f32
      scf.yield %s1 : f32
    }
    rocdl.s.wait.asynccnt 0
    memref.store %sum, %out[%t] : memref<128xf32, #global>
    gpu.return
  }
}
