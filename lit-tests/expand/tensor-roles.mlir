// `async_pipe.roles = "specialised"` and products in tensor memory: of two warps that are added one copies and
// one multiplies. The commit of an iteration gives its slot back; sums have two versions of 128 columns.
// RUN: async-pipe-opt %s --async-pipe="check=none" --canonicalize --split-input-file | FileCheck %s

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg>
!map = !nvgpu.tensormap.descriptor<tensor = memref<128x64xf16, 3>, swizzle = swizzle_128b, l2promo = none, oob = zero, interleave = none>
// CHECK-LABEL: func.func @sums
// CHECK-SAME:    known_block_size = array<i32: 192, 1, 1>
// CHECK:         %[[TILE:.*]] = memref.alloc() : memref<2x128x64xf16, #gpu.address_space<workgroup>>
// CHECK:         %[[FILLED:.*]] = nvgpu.mbarrier.create -> <{{.*}}, num_barriers = 2>
// CHECK:         %[[DRAINED:.*]] = nvgpu.mbarrier.create -> <{{.*}}, num_barriers = 2>
// CHECK:         %[[FULL:.*]] = nvgpu.mbarrier.create -> <{{.*}}, num_barriers = 2>
// CHECK:         %[[EMPTY:.*]] = nvgpu.mbarrier.create -> <{{.*}}, num_barriers = 2>
// A commit says that sums are there, one arrival of each of four warps that they are loaded.
// CHECK-COUNT-2: nvgpu.mbarrier.init %[[FILLED]][%{{.*}}], %c1,
// CHECK-COUNT-2: nvgpu.mbarrier.init %[[DRAINED]][%{{.*}}], %c4,
// CHECK-COUNT-2: nvgpu.mbarrier.init %[[FULL]][%{{.*}}], %c1,
// CHECK-COUNT-2: nvgpu.mbarrier.init %[[EMPTY]][%{{.*}}], %c1,
// CHECK:         nvvm.tcgen05.alloc %{{.*}}, %c256_i32
// CHECK:         %[[BASE:.*]] = memref.load
// CHECK:         %[[THREAD:.*]] = gpu.thread_id x
// CHECK-NEXT:    %[[MINE:.*]] = arith.cmpi ult, %[[THREAD]], %c128
// CHECK-NEXT:    scf.if %[[MINE]] {
// CHECK:           scf.for {{.*}} iter_args(%[[SUMS:.*]] = %c0, %[[PHASE:.*]] = %false) -> (index, i1)
// CHECK-NEXT:        nvgpu.mbarrier.try_wait.parity %[[FILLED]][%[[SUMS]]], %[[PHASE]],
// CHECK:             nvvm.tcgen05.fence <after>
// CHECK-NOT:         nvvm.tcgen05.fence
// CHECK:             %[[AT:.*]] = arith.addi %[[BASE]], %{{.*}} : i32
// CHECK-NEXT:        %[[COLUMNS:.*]] = llvm.inttoptr %[[AT]]
// CHECK-NEXT:        nvvm.tcgen05.ld %[[COLUMNS]]
// CHECK-NEXT:        nvvm.tcgen05.wait <load>
// CHECK-NEXT:        nvvm.tcgen05.fence <before>
// CHECK-NEXT:        nvvm.bar.warp.sync
// CHECK-NEXT:        scf.if
// CHECK-NEXT:          nvgpu.mbarrier.arrive %[[DRAINED]][%[[SUMS]]]
// CHECK-NOT:         nvvm.tcgen05.fence
// CHECK:             nvvm.barrier id = %c1_i32 number_of_threads = %c128_i32
// CHECK:           nvvm.tcgen05.dealloc %{{.*}}, %c256_i32
// CHECK:         } else {
// CHECK-NEXT:      %[[COPIES:.*]] = arith.cmpi ult, %[[THREAD]], %c160
// CHECK-NEXT:      scf.if %[[COPIES]] {
// CHECK-NEXT:        scf.for {{.*}} iter_args(%{{.*}} = %c0, %{{.*}} = %true) -> (index, i1)
// CHECK-NEXT:          scf.for {{.*}} iter_args(%[[SLOT:.*]] = %{{.*}}, %[[PHASE:.*]] = %{{.*}}) -> (index, i1)
// CHECK-NEXT:            nvgpu.mbarrier.try_wait.parity %[[EMPTY]][%[[SLOT]]], %[[PHASE]],
// CHECK:                 nvgpu.mbarrier.arrive.expect_tx %[[FULL]][%[[SLOT]]]
// CHECK:                 nvgpu.tma.async.load {{.*}} %[[FULL]][%[[SLOT]]]
// CHECK:           } else {
// CHECK-NEXT:        scf.for {{.*}} iter_args(%{{.*}} = %c0, %{{.*}} = %false, %[[SUMS:.*]] = %c0, %[[PHASE:.*]] = %true)
// CHECK-NEXT:          nvgpu.mbarrier.try_wait.parity %[[DRAINED]][%[[SUMS]]], %[[PHASE]],
// CHECK-NEXT:          nvvm.tcgen05.fence <after>
// CHECK:               scf.for {{.*}} iter_args(%[[SLOT:.*]] = %{{.*}}, %[[OWN:.*]] = %{{.*}}) -> (index, i1)
// CHECK-NEXT:            nvgpu.mbarrier.try_wait.parity %[[FULL]][%[[SLOT]]], %[[OWN]],
// CHECK:                 %[[GO:.*]] = nvvm.elect.sync
// CHECK-NEXT:            scf.if %[[GO]] {
// CHECK-NEXT:              %[[AT:.*]] = arith.addi %[[BASE]], %{{.*}} : i32
// CHECK-NEXT:              %[[COLUMNS:.*]] = llvm.inttoptr %[[AT]]
// CHECK-NEXT:              nvvm.tcgen05.mma %[[COLUMNS]]
// CHECK:                   nvgpu.mbarrier.get %[[EMPTY]][%[[SLOT]]]
// CHECK:                   nvvm.tcgen05.commit
// CHECK:               nvgpu.mbarrier.get %[[FILLED]][%[[SUMS]]]
// CHECK:               nvvm.tcgen05.commit
func.func @sums(%map_: !llvm.ptr, %out: memref<?x128xi32> {llvm.noalias}, %n: index, %tiles: index)
    attributes {gpu.known_block_size = array<i32: 128, 1, 1>} {
  %map = builtin.unrealized_conversion_cast %map_ : !llvm.ptr to !map
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %columns = arith.constant 128 : i32
  %bytes = arith.constant 16384 : index
  %ticks = arith.constant 10000000 : index
  %bits = arith.constant 4611756662049538048 : i64
  %form = arith.constant 136314896 : i32
  %false = arith.constant false
  %true = arith.constant true
  %t = gpu.thread_id x
  %first = arith.cmpi eq, %t, %c0 : index
  %warp = arith.cmpi ult, %t, %c32 : index
  %tile = memref.alloc() : memref<128x64xf16, #wg>
  %place = memref.alloc() : memref<1xi32, #wg>
  %full = nvgpu.mbarrier.create -> !bars
  %done = nvgpu.mbarrier.create -> !bars
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %first : !bars
  nvgpu.mbarrier.init %done[%c0], %c1, predicate = %first : !bars
  nvvm.fence.mbarrier.init
  scf.if %warp {
    %where = memref.extract_aligned_pointer_as_index %place : memref<1xi32, #wg> -> index
    %where32 = arith.index_cast %where : index to i32
    %pointer = llvm.inttoptr %where32 : i32 to !llvm.ptr<3>
    nvvm.tcgen05.alloc %pointer, %columns : !llvm.ptr<3>, i32
  }
  gpu.barrier
  %sums_at = memref.load %place[%c0] : memref<1xi32, #wg>
  %sums = llvm.inttoptr %sums_at : i32 to !llvm.ptr<6>
  %last = scf.for %c = %c0 to %tiles step %c1 iter_args(%before = %false) -> (i1) {
    %end = scf.for %i = %c0 to %n step %c1 iter_args(%phase = %before) -> (i1) {
      nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %first : !bars
      nvgpu.tma.async.load %map[%c, %i], %full[%c0] to %tile, predicate = %first : !map, !bars -> memref<128x64xf16, #wg>
      nvgpu.mbarrier.try_wait.parity %full[%c0], %phase, %ticks : !bars
      %at = memref.extract_aligned_pointer_as_index %tile : memref<128x64xf16, #wg> -> index
      %wide = arith.index_cast %at : index to i64
      %four = arith.constant 4 : i64
      %place_ = arith.shrui %wide, %four : i64
      %operand = arith.ori %place_, %bits : i64
      %later = arith.cmpi ne, %i, %c0 : index
      scf.if %first {
        nvvm.tcgen05.mma %sums, %operand, %operand, %form, %later {kind = #nvvm.tcgen05_mma_kind<f16>, ctaGroup = #nvvm.cta_group<cta_1>} : (!llvm.ptr<6>, i64, i64, i32, i1)
        %get = nvgpu.mbarrier.get %done[%c0] : !bars -> i32
        %to = llvm.inttoptr %get : i32 to !llvm.ptr<3>
        nvvm.tcgen05.commit %to : !llvm.ptr<3>
      }
      nvgpu.mbarrier.try_wait.parity %done[%c0], %phase, %ticks : !bars
      gpu.barrier
      %flip = arith.xori %phase, %true : i1
      scf.yield %flip : i1
    } {async_pipe.num_stages = 2 : i64, async_pipe.roles = "specialised"}
    nvvm.tcgen05.fence <after>
    %one = nvvm.tcgen05.ld %sums {shape = #nvvm.tcgen05_ldst_shape<shape_32x32b>} : i32
    nvvm.tcgen05.wait <load>
    nvvm.tcgen05.fence <before>
    gpu.barrier
    memref.store %one, %out[%c, %t] : memref<?x128xi32>
    scf.yield %end : i1
  }
  scf.if %warp {
    nvvm.tcgen05.dealloc %sums, %columns : !llvm.ptr<6>, i32
  }
  return
}
