// facebookexperimental/triton#2058: A ring of two slots commits a group for each of the two operands of a
// tile, and waits before the groups of the next tile are issued, with a count that leaves two groups in
// flight: those are the groups of the tile that it is about to read. About a third of the result was
// garbage, on large problems only.
// async-pipe-opt FILE --target=rocdl:gfx950 --run=warp_pipe --arg=16x128xf32:1 --arg=16x128xf32:2 --arg=zeros:128xf32 --arg=3
#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  gpu.func @warp_pipe(%a: memref<16x128xf32> {llvm.noalias}, %b: memref<16x128xf32> {llvm.noalias},
                      %out: memref<128xf32> {llvm.noalias}, %n: index)
      workgroup(%tiles_a: memref<2x128xf32, #wg>, %tiles_b: memref<2x128xf32, #wg>)
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
    amdgpu.gather_to_lds async %a[%c0, %t], %tiles_a[%c0, %first] : f32, memref<16x128xf32>, memref<2x128xf32, #wg>
    rocdl.asyncmark
    amdgpu.gather_to_lds async %b[%c0, %t], %tiles_b[%c0, %first] : f32, memref<16x128xf32>, memref<2x128xf32, #wg>
    rocdl.asyncmark
    %sum = scf.for %k = %c0 to %n step %c1 iter_args(%s = %zero) -> (f32) {
      %slot = arith.remui %k, %c2 : index
      %next = arith.addi %k, %c1 : index
      %other = arith.remui %next, %c2 : index
      rocdl.wait.asyncmark 2
      amdgpu.lds_barrier
      %x = memref.load %tiles_a[%slot, %mirror] : memref<2x128xf32, #wg>
      %y = memref.load %tiles_b[%slot, %mirror] : memref<2x128xf32, #wg>
      amdgpu.gather_to_lds async %a[%next, %t], %tiles_a[%other, %first] : f32, memref<16x128xf32>, memref<2x128xf32, #wg>
      rocdl.asyncmark
      amdgpu.gather_to_lds async %b[%next, %t], %tiles_b[%other, %first] : f32, memref<16x128xf32>, memref<2x128xf32, #wg>
      rocdl.asyncmark
      %s1 = math.fma %x, %y, %s : f32
      scf.yield %s1 : f32
    }
    rocdl.wait.asyncmark 0
    memref.store %sum, %out[%t] : memref<128xf32>
    gpu.return
  }
}
