// tile-ai/tilelang#2927, mended: the parity is that of the first phase.
// async-pipe-opt FILE --target=nvvm:sm_90a --run=copy_cluster --arg=256xf32:1 --arg=zeros:64x4xf32
#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg, num_barriers = 4>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>
!view = memref<64xf32, strided<[1], offset: ?>, #wg>
gpu.module @kernels {
  gpu.func @copy_cluster(%x_: !llvm.ptr, %out: memref<64x4xf32> {llvm.noalias})
      workgroup(%tiles: memref<4x64xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %x = builtin.unrealized_conversion_cast %x_ : !llvm.ptr to !map
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c63 = arith.constant 63 : index
    %c64 = arith.constant 64 : index
    %bytes = arith.constant 256 : index
    %ticks = arith.constant 10000000 : index
    %false = arith.constant false
    %c4 = arith.constant 4 : index
    %t = gpu.thread_id x
    %leader = arith.cmpi eq, %t, %c0 : index
    %mirror = arith.subi %c63, %t : index
    %full = nvgpu.mbarrier.create -> !bars
    scf.for %s = %c0 to %c4 step %c1 {
      nvgpu.mbarrier.init %full[%s], %c1, predicate = %leader : !bars
    }
    nvvm.fence.mbarrier.init
    gpu.barrier
    scf.for %s = %c0 to %c4 step %c1 {
      %from = arith.muli %s, %c64 : index
      %tile = memref.subview %tiles[%s, 0] [1, 64] [1, 1] : memref<4x64xf32, #wg> to !view
      nvgpu.mbarrier.arrive.expect_tx %full[%s], %bytes, predicate = %leader : !bars
      nvgpu.tma.async.load %x[%from], %full[%s] to %tile, predicate = %leader : !map, !bars -> !view
      nvgpu.mbarrier.try_wait.parity %full[%s], %false, %ticks : !bars
      %v = memref.load %tiles[%s, %mirror] : memref<4x64xf32, #wg>
      memref.store %v, %out[%t, %s] : memref<64x4xf32>
    }
    gpu.return
  }
}
