// triton-lang/triton#3106: The product of a warpgroup is left in flight over the end of an iteration, since
// one of its operands has two buffers. The other operand has one, which the next iteration copies into
// while the product still reads it.
// async-pipe-opt FILE --target=nvvm:sm_90a --run=dot --arg=64x256xf16:1 --arg=256x64xf16:2 --arg=zeros:64x64xf32 --arg=4
#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg, num_barriers = 2>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64x64xf16, 3>, swizzle = swizzle_128b, l2promo = none, oob = zero, interleave = none>
!tile = memref<64x64xf16, #wg>
!operand = !nvgpu.warpgroup.descriptor<tensor = memref<64x64xf16, #wg>>
!sums = !nvgpu.warpgroup.accumulator<fragmented = vector<64x64xf32>>
gpu.module @kernels {
  gpu.func @dot(%a_: !llvm.ptr, %b_: !llvm.ptr, %c: memref<64x64xf32> {llvm.noalias}, %n: index)
      kernel attributes {known_block_size = array<i32: 128, 1, 1>, async_pipe.dynamic_shared_bytes = 24576 : i64} {
    %a = builtin.unrealized_conversion_cast %a_ : !llvm.ptr to !map
    %b = builtin.unrealized_conversion_cast %b_ : !llvm.ptr to !map
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c64 = arith.constant 64 : index
    %c8192 = arith.constant 8192 : index
    %in_b = arith.constant 16384 : index
    %bytes = arith.constant 16384 : index
    %ticks = arith.constant 10000000 : index
    %false = arith.constant false
    %t = gpu.thread_id x
    %leader = arith.cmpi eq, %t, %c0 : index
    %memory = gpu.dynamic_shared_memory : memref<?xi8, #wg>
    %full = nvgpu.mbarrier.create -> !bars
    scf.for %s = %c0 to %c2 step %c1 {
      nvgpu.mbarrier.init %full[%s], %c1, predicate = %leader : !bars
    }
    nvvm.fence.mbarrier.init
    gpu.barrier
    %zero = nvgpu.warpgroup.mma.init.accumulator -> !sums
    %r:3 = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero, %slot = %c0, %phase = %false) -> (!sums, index, i1) {
      %k = arith.muli %i, %c64 : index
      %in_a = arith.muli %slot, %c8192 : index
      %tile_a = memref.view %memory[%in_a][] : memref<?xi8, #wg> to !tile
      %tile_b = memref.view %memory[%in_b][] : memref<?xi8, #wg> to !tile
      nvgpu.mbarrier.arrive.expect_tx %full[%slot], %bytes, predicate = %leader : !bars
      nvgpu.tma.async.load %a[%k, %c0], %full[%slot] to %tile_a, predicate = %leader : !map, !bars -> !tile
      nvgpu.tma.async.load %b[%c0, %k], %full[%slot] to %tile_b, predicate = %leader : !map, !bars -> !tile
      nvgpu.mbarrier.try_wait.parity %full[%slot], %phase, %ticks : !bars
      %left = nvgpu.warpgroup.generate.descriptor %tile_a, %a : !tile, !map -> !operand
      %right = nvgpu.warpgroup.generate.descriptor %tile_b, %b : !tile, !map -> !operand
      %sums = nvgpu.warpgroup.mma %left, %right, %acc {transposeB, waitGroup = 1 : i64} : !operand, !operand, !sums -> !sums
      gpu.barrier
      %next = arith.addi %slot, %c1 : index
      %wraps = arith.cmpi eq, %next, %c2 : index
      %slot_ = arith.select %wraps, %c0, %next : index
      %phase_ = arith.xori %phase, %wraps : i1
      scf.yield %sums, %slot_, %phase_ : !sums, index, i1
    }
    nvvm.wgmma.wait.group.sync.aligned 0
    nvgpu.warpgroup.mma.store %r#0, %c : !sums to memref<64x64xf32>
    gpu.return
  }
}
