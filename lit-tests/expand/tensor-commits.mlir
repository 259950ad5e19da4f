// Products in tensor memory: commits on an mbarrier of the tile's slot, and the wait is for the tile before,
// whose slot is the one that the copies fill next. Its phase is another one where its slot is higher.
// RUN: async-pipe-opt %s --async-pipe="check=none" --canonicalize | FileCheck %s

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg>
!map = !nvgpu.tensormap.descriptor<tensor = memref<128x64xf16, 3>, swizzle = swizzle_128b, l2promo = none, oob = zero, interleave = none>
// CHECK-LABEL: func.func @products
// CHECK:         %[[FULL:.*]] = nvgpu.mbarrier.create -> <{{.*}}, num_barriers = 3>
// CHECK:         %[[DONE:.*]] = nvgpu.mbarrier.create -> <{{.*}}, num_barriers = 3>
// CHECK:         scf.for {{.*}} iter_args(%[[SLOT:.*]] = %{{.*}}, %[[AHEAD:.*]] = %{{.*}}, %[[PHASE:.*]] = %{{.*}}) -> (index, index, i1)
// CHECK:           nvgpu.mbarrier.try_wait.parity %[[FULL]][%[[SLOT]]], %[[PHASE]],
// CHECK:           scf.if
// CHECK:             nvvm.tcgen05.mma
// CHECK:             %[[AT:.*]] = nvgpu.mbarrier.get %[[DONE]][%[[SLOT]]]
// CHECK:             %[[TO:.*]] = llvm.inttoptr %[[AT]]
// CHECK:             nvvm.tcgen05.commit %[[TO]]
// CHECK:           %[[WRAPPED:.*]] = arith.cmpi ugt, %[[AHEAD]], %[[SLOT]]
// CHECK:           %[[ITS:.*]] = arith.xori %[[PHASE]], %[[WRAPPED]]
// CHECK:           nvgpu.mbarrier.try_wait.parity %[[DONE]][%[[AHEAD]]], %[[ITS]],
// CHECK:           gpu.barrier
// CHECK:           nvgpu.mbarrier.arrive.expect_tx %[[FULL]][%[[AHEAD]]]
// CHECK:           nvgpu.tma.async.load {{.*}} %[[FULL]][%[[AHEAD]]]
// CHECK:           scf.yield
// CHECK:         nvgpu.mbarrier.try_wait.parity %[[DONE]]
// CHECK-NOT:     nvgpu.mbarrier
func.func @products(%map_: !llvm.ptr, %sums: !llvm.ptr<6>, %n: index)
    attributes {gpu.known_block_size = array<i32: 128, 1, 1>} {
  %map = builtin.unrealized_conversion_cast %map_ : !llvm.ptr to !map
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %bytes = arith.constant 16384 : index
  %ticks = arith.constant 10000000 : index
  %bits = arith.constant 4611756662049538048 : i64
  %form = arith.constant 136314896 : i32
  %false = arith.constant false
  %true = arith.constant true
  %t = gpu.thread_id x
  %first = arith.cmpi eq, %t, %c0 : index
  %tile = memref.alloc() : memref<128x64xf16, #wg>
  %full = nvgpu.mbarrier.create -> !bars
  %done = nvgpu.mbarrier.create -> !bars
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %first : !bars
  nvgpu.mbarrier.init %done[%c0], %c1, predicate = %first : !bars
  gpu.barrier
  %end = scf.for %i = %c0 to %n step %c1 iter_args(%phase = %false) -> (i1) {
    nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %first : !bars
    nvgpu.tma.async.load %map[%c0, %i], %full[%c0] to %tile, predicate = %first : !map, !bars -> memref<128x64xf16, #wg>
    nvgpu.mbarrier.try_wait.parity %full[%c0], %phase, %ticks : !bars
    %at = memref.extract_aligned_pointer_as_index %tile : memref<128x64xf16, #wg> -> index
    %wide = arith.index_cast %at : index to i64
    %four = arith.constant 4 : i64
    %place = arith.shrui %wide, %four : i64
    %operand = arith.ori %place, %bits : i64
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
  } {async_pipe.num_stages = 3 : i64}
  return
}
