// llvm/llvm-project, mlir/test/Examples/NVGPU, chapter 2, mended: a fence for the copies and a barrier for
// the threads after the initialisation.
// async-pipe-opt FILE --target=nvvm:sm_90a --run=saxpy --grid=2 --arg=128xf32:1 --arg=128xf32:2 --arg=zeros:128xf32 --arg=2.0
#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>
!tile = memref<64xf32, #wg>
gpu.module @kernels {
  gpu.func @saxpy(%x_: !llvm.ptr, %y_: !llvm.ptr, %out: memref<128xf32> {llvm.noalias}, %alpha: f32)
      workgroup(%tile_x: !tile, %tile_y: !tile)
      kernel attributes {known_block_size = array<i32: 64, 1, 1>, known_grid_size = array<i32: 2, 1, 1>} {
    %x = builtin.unrealized_conversion_cast %x_ : !llvm.ptr to !map
    %y = builtin.unrealized_conversion_cast %y_ : !llvm.ptr to !map
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %bytes = arith.constant 512 : index
    %ticks = arith.constant 10000000 : index
    %false = arith.constant false
    %t = gpu.thread_id x
    %block = gpu.block_id x
    %from = arith.muli %block, %c64 : index
    %leader = arith.cmpi eq, %t, %c0 : index
    %full = nvgpu.mbarrier.create -> !bars
    nvgpu.mbarrier.init %full[%c0], %c1, predicate = %leader : !bars
    nvvm.fence.mbarrier.init
    gpu.barrier
    nvgpu.tma.async.load %x[%from], %full[%c0] to %tile_x, predicate = %leader : !map, !bars -> !tile
    nvgpu.tma.async.load %y[%from], %full[%c0] to %tile_y, predicate = %leader : !map, !bars -> !tile
    nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %leader : !bars
    nvgpu.mbarrier.try_wait.parity %full[%c0], %false, %ticks : !bars
    %vx = memref.load %tile_x[%t] : !tile
    %vy = memref.load %tile_y[%t] : !tile
    %scaled = arith.mulf %vx, %alpha : f32
    %sum = arith.addf %scaled, %vy : f32
    %at = arith.addi %from, %t : index
    memref.store %sum, %out[%at] : memref<128xf32>
    gpu.return
  }
}
