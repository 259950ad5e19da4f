// tile-ai/tilelang#3087, mended: the wait takes a parity that flips in each iteration.
// async-pipe-opt FILE --target=nvvm:sm_100a --run=gemm --arg=128x512xf16:1 --arg=zeros:128x32xf32 --arg=5
#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg, num_barriers = 3>
!bar = !nvgpu.mbarrier.group<memorySpace = #wg>
!map = !nvgpu.tensormap.descriptor<tensor = memref<128x64xf16, 3>, swizzle = swizzle_128b, l2promo = none, oob = zero, interleave = none>
!view = memref<128x64xf16, strided<[64, 1], offset: ?>, #wg>
gpu.module @kernels {
  gpu.func @gemm(%a_: !llvm.ptr, %out: memref<128x32xf32> {llvm.noalias}, %n: index)
      workgroup(%tiles: memref<3x128x64xf16, #wg> {llvm.align = 1024 : i64}, %place: memref<1xi32, #wg>)
      kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %a = builtin.unrealized_conversion_cast %a_ : !llvm.ptr to !map
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c32 = arith.constant 32 : index
    %c64 = arith.constant 64 : index
    %size = arith.constant 16384 : index
    %ticks = arith.constant 10000000 : index
    %columns = arith.constant 32 : i32
    %form = arith.constant 134742032 : i32
    %layout = arith.constant 4611756662049538048 : i64
    %four = arith.constant 4 : i64
    %false = arith.constant false
    %true = arith.constant true
    %t = gpu.thread_id x
    %leader = arith.cmpi eq, %t, %c0 : index
    %is_first_warp = arith.cmpi ult, %t, %c32 : index
    %full = nvgpu.mbarrier.create -> !bars
    %done = nvgpu.mbarrier.create -> !bar
    scf.for %s = %c0 to %c3 step %c1 {
      nvgpu.mbarrier.init %full[%s], %c1, predicate = %leader : !bars
    }
    nvgpu.mbarrier.init %done[%c0], %c1, predicate = %leader : !bar
    nvvm.fence.mbarrier.init
    scf.if %is_first_warp {
      %at = memref.extract_aligned_pointer_as_index %place : memref<1xi32, #wg> -> index
      %at_ = arith.index_cast %at : index to i32
      %to = llvm.inttoptr %at_ : i32 to !llvm.ptr<3>
      nvvm.tcgen05.alloc %to, %columns : !llvm.ptr<3>, i32
      nvvm.tcgen05.relinquish_alloc_permit
    }
    gpu.barrier
    %sums_at = memref.load %place[%c0] : memref<1xi32, #wg>
    %sums = llvm.inttoptr %sums_at : i32 to !llvm.ptr<6>
    %done_at = nvgpu.mbarrier.get %done[%c0] : !bar -> i32
    %done_ = llvm.inttoptr %done_at : i32 to !llvm.ptr<3>
    %first = memref.extract_aligned_pointer_as_index %tiles : memref<3x128x64xf16, #wg> -> index
    scf.for %i = %c0 to %c2 step %c1 {
      %is_there = arith.cmpi ult, %i, %n : index
      %copies = arith.andi %is_there, %leader : i1
      %k = arith.muli %i, %c64 : index
      %tile = memref.subview %tiles[%i, 0, 0] [1, 128, 64] [1, 1, 1] : memref<3x128x64xf16, #wg> to !view
      nvgpu.mbarrier.arrive.expect_tx %full[%i], %size, predicate = %copies : !bars
      nvgpu.tma.async.load %a[%k, %c0], %full[%i] to %tile, predicate = %copies : !map, !bars -> !view
    }
    scf.for %i = %c0 to %n step %c1 iter_args(%slot = %c0, %phase = %false, %once = %false) -> (index, i1, i1) {
      nvgpu.mbarrier.try_wait.parity %full[%slot], %phase, %ticks : !bars
      %offset = arith.muli %slot, %size : index
      %at = arith.addi %first, %offset : index
      %wide = arith.index_cast %at : index to i64
      %sixteenths = arith.shrui %wide, %four : i64
      %operand = arith.ori %sixteenths, %layout : i64
      %adds = arith.cmpi ne, %i, %c0 : index
      scf.if %leader {
        nvvm.tcgen05.mma %sums, %operand, %operand, %form, %adds {kind = #nvvm.tcgen05_mma_kind<f16>, ctaGroup = #nvvm.cta_group<cta_1>} : (!llvm.ptr<6>, i64, i64, i32, i1)
        nvvm.tcgen05.commit %done_ : !llvm.ptr<3>
      }
      nvgpu.mbarrier.try_wait.parity %done[%c0], %once, %ticks : !bar
      gpu.barrier
      %later = arith.addi %i, %c2 : index
      %is_there = arith.cmpi ult, %later, %n : index
      %copies = arith.andi %is_there, %leader : i1
      %k = arith.muli %later, %c64 : index
      %up = arith.addi %slot, %c2 : index
      %free = arith.remui %up, %c3 : index
      %tile = memref.subview %tiles[%free, 0, 0] [1, 128, 64] [1, 1, 1] : memref<3x128x64xf16, #wg> to !view
      nvgpu.mbarrier.arrive.expect_tx %full[%free], %size, predicate = %copies : !bars
      nvgpu.tma.async.load %a[%k, %c0], %full[%free] to %tile, predicate = %copies : !map, !bars -> !view
      %once_ = arith.xori %once, %true : i1
      %next = arith.addi %slot, %c1 : index
      %wraps = arith.cmpi eq, %next, %c3 : index
      %slot_ = arith.select %wraps, %c0, %next : index
      %phase_ = arith.xori %phase, %wraps : i1
      scf.yield %slot_, %phase_, %once_ : index, i1, i1
    }
    nvvm.tcgen05.fence <after>
    %lanes = arith.constant 2097152 : i32
    %warp = arith.divui %t, %c32 : index
    %warp_ = arith.index_cast %warp : index to i32
    %own = arith.muli %warp_, %lanes : i32
    %row_at = arith.addi %sums_at, %own : i32
    %row = llvm.inttoptr %row_at : i32 to !llvm.ptr<6>
    %bits = nvvm.tcgen05.ld %row {shape = #nvvm.tcgen05_ldst_shape<shape_32x32b>} : vector<32xi32>
    nvvm.tcgen05.wait <load>
    %numbers = vector.bitcast %bits : vector<32xi32> to vector<32xf32>
    vector.store %numbers, %out[%t, %c0] : memref<128x32xf32>, vector<32xf32>
    nvvm.tcgen05.fence <before>
    gpu.barrier
    scf.if %is_first_warp {
      nvvm.tcgen05.dealloc %sums, %columns : !llvm.ptr<6>, i32
    }
    gpu.return
  }
}
