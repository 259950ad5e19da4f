// llvm/llvm-project, mlir/test/Examples/NVGPU, chapter 5: The warp-specialised GEMM gives a slot back by
// the arrival of one thread, which knows of the product of its own warp only. A barrier of the whole block
// stands where the producers never come, the sums go out through memory that is still read, and the
// mbarriers are made visible to nobody.
// async-pipe-opt FILE --target=nvvm:sm_90a --run=gemm --arg=64x256xf16:1 --arg=256x64xf16:2 --arg=zeros:64x64xf32 --arg=4
#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg, num_barriers = 3>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64x64xf16, 3>, swizzle = swizzle_128b, l2promo = none, oob = zero, interleave = none>
!tile = memref<64x64xf16, #wg>
!operand = !nvgpu.warpgroup.descriptor<tensor = memref<64x64xf16, #wg>>
!sums = !nvgpu.warpgroup.accumulator<fragmented = vector<64x64xf32>>
gpu.module @kernels {
  gpu.func @gemm(%a_: !llvm.ptr, %b_: !llvm.ptr, %c: memref<64x64xf32> {llvm.noalias}, %n: index)
      kernel attributes {known_block_size = array<i32: 256, 1, 1>, async_pipe.dynamic_shared_bytes = 49152 : i64} {
    %a = builtin.unrealized_conversion_cast %a_ : !llvm.ptr to !map
    %b = builtin.unrealized_conversion_cast %b_ : !llvm.ptr to !map
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c64 = arith.constant 64 : index
    %c128 = arith.constant 128 : index
    %c8192 = arith.constant 8192 : index
    %first_b = arith.constant 24576 : index
    %bytes = arith.constant 16384 : index
    %ticks = arith.constant 10000000 : index
    %false = arith.constant false
    %true = arith.constant true
    %t = gpu.thread_id x
    %leader = arith.cmpi eq, %t, %c0 : index
    %memory = gpu.dynamic_shared_memory : memref<?xi8, #wg>
    %full = nvgpu.mbarrier.create -> !bars
    %empty = nvgpu.mbarrier.create -> !bars
    scf.if %leader {
      scf.for %s = %c0 to %c3 step %c1 {
        nvgpu.mbarrier.init %full[%s], %c1 : !bars
        nvgpu.mbarrier.init %empty[%s], %c1 : !bars
      }
    }
    %consumes = arith.cmpi ult, %t, %c128 : index
    scf.if %consumes {
      %zero = nvgpu.warpgroup.mma.init.accumulator -> !sums
      %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero, %phase = %false) -> (!sums, i1) {
        %slot = arith.remui %i, %c3 : index
        nvgpu.mbarrier.try_wait.parity %full[%slot], %phase, %ticks : !bars
        %in_a = arith.muli %slot, %c8192 : index
        %in_b = arith.addi %in_a, %first_b : index
        %tile_a = memref.view %memory[%in_a][] : memref<?xi8, #wg> to !tile
        %tile_b = memref.view %memory[%in_b][] : memref<?xi8, #wg> to !tile
        %left = nvgpu.warpgroup.generate.descriptor %tile_a, %a : !tile, !map -> !operand
        %right = nvgpu.warpgroup.generate.descriptor %tile_b, %b : !tile, !map -> !operand
        %sums = nvgpu.warpgroup.mma %left, %right, %acc {transposeB} : !operand, !operand, !sums -> !sums
        %later = arith.cmpi ugt, %i, %c0 : index
        %arrives = arith.andi %later, %leader : i1
        scf.if %arrives {
          %up = arith.addi %slot, %c2 : index
          %before = arith.remui %up, %c3 : index
          %token = nvgpu.mbarrier.arrive %empty[%before] : !bars -> !nvgpu.mbarrier.token
        }
        %wraps = arith.cmpi eq, %slot, %c2 : index
        %phase_ = arith.xori %phase, %wraps : i1
        scf.yield %sums, %phase_ : !sums, i1
      }
      nvvm.wgmma.wait.group.sync.aligned 0
      %tile_c = memref.view %memory[%c0][] : memref<?xi8, #wg> to memref<64x64xf32, #wg>
      nvgpu.warpgroup.mma.store %r#0, %tile_c : !sums to memref<64x64xf32, #wg>
      gpu.barrier
      %column = arith.remui %t, %c64 : index
      %first = arith.divui %t, %c64 : index
      scf.for %row = %first to %c64 step %c2 {
        %v = memref.load %tile_c[%row, %column] : memref<64x64xf32, #wg>
        memref.store %v, %c[%row, %column] : memref<64x64xf32>
      }
    } else {
      %produces = arith.cmpi eq, %t, %c128 : index
      scf.if %produces {
        scf.for %i = %c0 to %n step %c1 iter_args(%phase = %true) -> (i1) {
          %slot = arith.remui %i, %c3 : index
          nvgpu.mbarrier.try_wait.parity %empty[%slot], %phase, %ticks : !bars
          %k = arith.muli %i, %c64 : index
          %in_a = arith.muli %slot, %c8192 : index
          %in_b = arith.addi %in_a, %first_b : index
          %tile_a = memref.view %memory[%in_a][] : memref<?xi8, #wg> to !tile
          %tile_b = memref.view %memory[%in_b][] : memref<?xi8, #wg> to !tile
          nvgpu.mbarrier.arrive.expect_tx %full[%slot], %bytes : !bars
          nvgpu.tma.async.load %a[%k, %c0], %full[%slot] to %tile_a : !map, !bars -> !tile
          nvgpu.tma.async.load %b[%c0, %k], %full[%slot] to %tile_b : !map, !bars -> !tile
          %wraps = arith.cmpi eq, %slot, %c2 : index
          %phase_ = arith.xori %phase, %wraps : i1
          scf.yield %phase_ : i1
        }
      }
    }
    gpu.return
  }
}
