// deepseek-ai/DeepEP#657: One thread moves tiles through two slots: it loads ahead, waits, stores, and
// loads the next tile into the same slot. Before that load it waits until one store at most is in flight,
// and that is the store of this slot.
// async-pipe-opt FILE --target=nvvm:sm_90a --run=tma_copy --arg=512xf32:1 --arg=zeros:512xf32 --arg=5
#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg, num_barriers = 2>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>
!view = memref<64xf32, strided<[1], offset: ?>, #wg>
gpu.module @kernels {
  gpu.func @tma_copy(%x_: !llvm.ptr, %y_: !llvm.ptr, %n: index)
      workgroup(%tiles: memref<2x64xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 32, 1, 1>, async_pipe.independent} {
    %x = builtin.unrealized_conversion_cast %x_ : !llvm.ptr to !map
    %y = builtin.unrealized_conversion_cast %y_ : !llvm.ptr to !map
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c64 = arith.constant 64 : index
    %bytes = arith.constant 256 : index
    %ticks = arith.constant 10000000 : index
    %false = arith.constant false
    %t = gpu.thread_id x
    %leader = arith.cmpi eq, %t, %c0 : index
    %full = nvgpu.mbarrier.create -> !bars
    scf.for %s = %c0 to %c2 step %c1 {
      nvgpu.mbarrier.init %full[%s], %c1, predicate = %leader : !bars
    }
    nvvm.fence.mbarrier.init
    gpu.barrier
    scf.if %leader {
      scf.for %s = %c0 to %c2 step %c1 {
        %from = arith.muli %s, %c64 : index
        %tile = memref.subview %tiles[%s, 0] [1, 64] [1, 1] : memref<2x64xf32, #wg> to !view
        nvgpu.mbarrier.arrive.expect_tx %full[%s], %bytes : !bars
        nvgpu.tma.async.load %x[%from], %full[%s] to %tile : !map, !bars -> !view
      }
      %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%slot = %c0, %phase = %false) -> (index, i1) {
        %to = arith.muli %i, %c64 : index
        %tile = memref.subview %tiles[%slot, 0] [1, 64] [1, 1] : memref<2x64xf32, #wg> to !view
        nvgpu.mbarrier.try_wait.parity %full[%slot], %phase, %ticks : !bars
        nvgpu.tma.async.store %tile to %y[%to] : !view -> !map
        nvvm.cp.async.bulk.commit.group
        %later = arith.addi %i, %c2 : index
        %from = arith.muli %later, %c64 : index
        nvvm.cp.async.bulk.wait_group 1 {read}
        nvgpu.mbarrier.arrive.expect_tx %full[%slot], %bytes : !bars
        nvgpu.tma.async.load %x[%from], %full[%slot] to %tile : !map, !bars -> !view
        %next = arith.addi %slot, %c1 : index
        %wraps = arith.cmpi eq, %next, %c2 : index
        %slot_ = arith.select %wraps, %c0, %next : index
        %phase_ = arith.xori %phase, %wraps : i1
        scf.yield %slot_, %phase_ : index, i1
      }
      nvgpu.mbarrier.try_wait.parity %full[%r#0], %r#1, %ticks : !bars
      %last = arith.subi %c1, %r#0 : index
      %flips = arith.cmpi eq, %r#0, %c1 : index
      %parity = arith.xori %r#1, %flips : i1
      nvgpu.mbarrier.try_wait.parity %full[%last], %parity, %ticks : !bars
      nvvm.cp.async.bulk.wait_group 0
    }
    gpu.return
  }
}
