// facebookexperimental/triton#2153: A kernel that is pipelined by hand says how many groups of copies may
// stay in flight at its wait, by no token. A pass that makes counts from tokens found none, and wrote 0:
// the pipeline runs empty in each iteration, and takes about twice as long.
// async-pipe-opt FILE --target=rocdl:gfx950 --run=by_hand --arg=16x128xf32:1 --arg=zeros:128xf32 --arg=3
#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  gpu.func @by_hand(%a: memref<16x128xf32> {llvm.noalias}, %out: memref<128xf32> {llvm.noalias}, %n: index)
      workgroup(%tiles: memref<4x128xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c64 = arith.constant 64 : index
    %c127 = arith.constant 127 : index
    %zero = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    %mirror = arith.subi %c127, %t : index
    %wave = arith.divui %t, %c64 : index
    %first = arith.muli %wave, %c64 : index
    amdgpu.gather_to_lds async %a[%c0, %t], %tiles[%c0, %first] : f32, memref<16x128xf32>, memref<4x128xf32, #wg>
    rocdl.asyncmark
    amdgpu.gather_to_lds async %a[%c1, %t], %tiles[%c1, %first] : f32, memref<16x128xf32>, memref<4x128xf32, #wg>
    rocdl.asyncmark
    amdgpu.gather_to_lds async %a[%c2, %t], %tiles[%c2, %first] : f32, memref<16x128xf32>, memref<4x128xf32, #wg>
    rocdl.asyncmark
    %sum = scf.for %i = %c0 to %n step %c1 iter_args(%s = %zero) -> (f32) {
      rocdl.wait.asyncmark 0
      amdgpu.lds_barrier
      %slot = arith.andi %i, %c3 : index
      %later = arith.addi %i, %c3 : index
      %free = arith.andi %later, %c3 : index
      amdgpu.gather_to_lds async %a[%later, %t], %tiles[%free, %first] : f32, memref<16x128xf32>, memref<4x128xf32, #wg>
      rocdl.asyncmark
      %x = memref.load %tiles[%slot, %mirror] : memref<4x128xf32, #wg>
      %s1 = arith.addf %s, %x : f32
      scf.yield %s1 : f32
    }
    rocdl.wait.asyncmark 0
    memref.store %sum, %out[%t] : memref<128xf32>
    gpu.return
  }
}
