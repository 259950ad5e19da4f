// tile-ai/tilelang#2674: A persistent kernel runs the pipelined loop once for each of its tiles, and each
// time slot and phase begin at 0. Unless the loop runs a multiple of twice the slots, the mbarriers are in
// the other phase by then: waits pass too early, or never.
// async-pipe-opt FILE --target=nvvm:sm_90a --run=persistent --arg=512xf32:1 --arg=zeros:64x8xf32 --arg=3 --arg=2
#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg, num_barriers = 2>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>
!view = memref<64xf32, strided<[1], offset: ?>, #wg>
gpu.module @kernels {
  gpu.func @persistent(%x_: !llvm.ptr, %out: memref<64x?xf32> {llvm.noalias}, %n: index, %works: index)
      workgroup(%tiles: memref<2x64xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 96, 1, 1>} {
    %x = builtin.unrealized_conversion_cast %x_ : !llvm.ptr to !map
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c32 = arith.constant 32 : index
    %c64 = arith.constant 64 : index
    %c95 = arith.constant 95 : index
    %bytes = arith.constant 256 : index
    %ticks = arith.constant 10000000 : index
    %false = arith.constant false
    %true = arith.constant true
    %zero = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    %leader = arith.cmpi eq, %t, %c0 : index
    %full = nvgpu.mbarrier.create -> !bars
    %empty = nvgpu.mbarrier.create -> !bars
    scf.for %s = %c0 to %c2 step %c1 {
      nvgpu.mbarrier.init %full[%s], %c1, predicate = %leader : !bars
      nvgpu.mbarrier.init %empty[%s], %c64, predicate = %leader : !bars
    }
    nvvm.fence.mbarrier.init
    gpu.barrier
    %produces = arith.cmpi ult, %t, %c32 : index
    scf.if %produces {
      scf.if %leader {
        scf.for %w = %c0 to %works step %c1 {
          scf.for %i = %c0 to %n step %c1 iter_args(%slot = %c0, %phase = %true) -> (index, i1) {
            %from = arith.muli %i, %c64 : index
            %tile = memref.subview %tiles[%slot, 0] [1, 64] [1, 1] : memref<2x64xf32, #wg> to !view
            nvgpu.mbarrier.try_wait.parity %empty[%slot], %phase, %ticks : !bars
            nvgpu.mbarrier.arrive.expect_tx %full[%slot], %bytes : !bars
            nvgpu.tma.async.load %x[%from], %full[%slot] to %tile : !map, !bars -> !view
            %next = arith.addi %slot, %c1 : index
            %wraps = arith.cmpi eq, %next, %c2 : index
            %slot_ = arith.select %wraps, %c0, %next : index
            %phase_ = arith.xori %phase, %wraps : i1
            scf.yield %slot_, %phase_ : index, i1
          }
        }
      }
    } else {
      %mirror = arith.subi %c95, %t : index
      %row = arith.subi %t, %c32 : index
      scf.for %w = %c0 to %works step %c1 {
        %r:3 = scf.for %i = %c0 to %n step %c1 iter_args(%slot = %c0, %phase = %false, %s = %zero) -> (index, i1, f32) {
          nvgpu.mbarrier.try_wait.parity %full[%slot], %phase, %ticks : !bars
          %v = memref.load %tiles[%slot, %mirror] : memref<2x64xf32, #wg>
          %s1 = arith.addf %s, %v : f32
          %token = nvgpu.mbarrier.arrive %empty[%slot] : !bars -> !nvgpu.mbarrier.token
          %next = arith.addi %slot, %c1 : index
          %wraps = arith.cmpi eq, %next, %c2 : index
          %slot_ = arith.select %wraps, %c0, %next : index
          %phase_ = arith.xori %phase, %wraps : i1
          scf.yield %slot_, %phase_, %s1 : index, i1, f32
        }
        memref.store %r#2, %out[%row, %w] : memref<64x?xf32>
      }
    }
    gpu.return
  }
}
