// llvm/llvm-project, mlir/test/Examples/NVGPU, chapter 3, mended: a fence and a barrier after the
// initialisation.
// async-pipe-opt FILE --target=nvvm:sm_90a --run=gemm --arg=64x64xf16:1 --arg=64x64xf16:2 --arg=zeros:64x64xf32
#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64x64xf16, 3>, swizzle = swizzle_128b, l2promo = none, oob = zero, interleave = none>
!tile = memref<64x64xf16, #wg>
!operand = !nvgpu.warpgroup.descriptor<tensor = memref<64x64xf16, #wg>>
!sums = !nvgpu.warpgroup.accumulator<fragmented = vector<64x64xf32>>
gpu.module @kernels {
  gpu.func @gemm(%a_: !llvm.ptr, %b_: !llvm.ptr, %c: memref<64x64xf32> {llvm.noalias})
      kernel attributes {known_block_size = array<i32: 128, 1, 1>, async_pipe.dynamic_shared_bytes = 16384 : i64} {
    %a = builtin.unrealized_conversion_cast %a_ : !llvm.ptr to !map
    %b = builtin.unrealized_conversion_cast %b_ : !llvm.ptr to !map
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8192 = arith.constant 8192 : index
    %bytes = arith.constant 16384 : index
    %ticks = arith.constant 10000000 : index
    %false = arith.constant false
    %t = gpu.thread_id x
    %leader = arith.cmpi eq, %t, %c0 : index
    %memory = gpu.dynamic_shared_memory : memref<?xi8, #wg>
    %tile_a = memref.view %memory[%c0][] : memref<?xi8, #wg> to !tile
    %tile_b = memref.view %memory[%c8192][] : memref<?xi8, #wg> to !tile
    %full = nvgpu.mbarrier.create -> !bars
    nvgpu.mbarrier.init %full[%c0], %c1, predicate = %leader : !bars
    nvvm.fence.mbarrier.init
    gpu.barrier
    nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %leader : !bars
    nvgpu.tma.async.load %a[%c0, %c0], %full[%c0] to %tile_a, predicate = %leader : !map, !bars -> !tile
    nvgpu.tma.async.load %b[%c0, %c0], %full[%c0] to %tile_b, predicate = %leader : !map, !bars -> !tile
    nvgpu.mbarrier.try_wait.parity %full[%c0], %false, %ticks : !bars
    %zero = nvgpu.warpgroup.mma.init.accumulator -> !sums
    %left = nvgpu.warpgroup.generate.descriptor %tile_a, %a : !tile, !map -> !operand
    %right = nvgpu.warpgroup.generate.descriptor %tile_b, %b : !tile, !map -> !operand
    %sums = nvgpu.warpgroup.mma %left, %right, %zero {transposeB, waitGroup = 0 : i64} : !operand, !operand, !sums -> !sums
    nvgpu.warpgroup.mma.store %sums, %c : !sums to memref<64x64xf32>
    gpu.return
  }
}
