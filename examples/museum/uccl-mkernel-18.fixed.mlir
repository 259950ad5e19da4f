// uccl-project/mKernel#18, mended: the wait stands before the first copy of a task, whatever slot that
// takes.
// async-pipe-opt FILE --target=nvvm:sm_90a --run=gemm --arg=512xf32:1 --arg=zeros:512xf32 --arg=3 --arg=2
#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg, num_barriers = 2>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>
!view = memref<64xf32, strided<[1], offset: ?>, #wg>
gpu.module @kernels {
  gpu.func @gemm(%x_: !llvm.ptr, %y_: !llvm.ptr, %n: index, %tasks: index)
      workgroup(%tiles: memref<2x64xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 64, 1, 1>, async_pipe.independent} {
    %x = builtin.unrealized_conversion_cast %x_ : !llvm.ptr to !map
    %y = builtin.unrealized_conversion_cast %y_ : !llvm.ptr to !map
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c63 = arith.constant 63 : index
    %c64 = arith.constant 64 : index
    %bytes = arith.constant 256 : index
    %ticks = arith.constant 10000000 : index
    %false = arith.constant false
    %zero = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    %leader = arith.cmpi eq, %t, %c0 : index
    %mirror = arith.subi %c63, %t : index
    %c = memref.subview %tiles[%c1, 0] [1, 64] [1, 1] : memref<2x64xf32, #wg> to !view
    %full = nvgpu.mbarrier.create -> !bars
    scf.for %s = %c0 to %c2 step %c1 {
      nvgpu.mbarrier.init %full[%s], %c1, predicate = %leader : !bars
    }
    nvvm.fence.mbarrier.init
    gpu.barrier
    %r:2 = scf.for %task = %c0 to %tasks step %c1 iter_args(%slot0 = %c0, %phase0 = %false) -> (index, i1) {
      nvvm.cp.async.bulk.wait_group 0 {read}
      %to = arith.muli %task, %c64 : index
      %s:3 = scf.for %i = %c0 to %n step %c1 iter_args(%slot = %slot0, %phase = %phase0, %sum = %zero) -> (index, i1, f32) {
        %from = arith.muli %i, %c64 : index
        %tile = memref.subview %tiles[%slot, 0] [1, 64] [1, 1] : memref<2x64xf32, #wg> to !view
        nvgpu.mbarrier.arrive.expect_tx %full[%slot], %bytes, predicate = %leader : !bars
        nvgpu.tma.async.load %x[%from], %full[%slot] to %tile, predicate = %leader : !map, !bars -> !view
        nvgpu.mbarrier.try_wait.parity %full[%slot], %phase, %ticks : !bars
        %v = memref.load %tiles[%slot, %mirror] : memref<2x64xf32, #wg>
        %sum_ = arith.addf %sum, %v : f32
        gpu.barrier
        %next = arith.addi %slot, %c1 : index
        %wraps = arith.cmpi eq, %next, %c2 : index
        %slot_ = arith.select %wraps, %c0, %next : index
        %phase_ = arith.xori %phase, %wraps : i1
        scf.yield %slot_, %phase_, %sum_ : index, i1, f32
      }
      nvvm.cp.async.bulk.wait_group 0 {read}
      gpu.barrier
      memref.store %s#2, %tiles[%c1, %t] : memref<2x64xf32, #wg>
      nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
      gpu.barrier
      nvgpu.tma.async.store %c to %y[%to], predicate = %leader : !view -> !map
      nvvm.cp.async.bulk.commit.group
      scf.yield %s#0, %s#1 : index, i1
    }
    nvvm.cp.async.bulk.wait_group 0
    gpu.return
  }
}
