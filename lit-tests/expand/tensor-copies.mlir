// Tensor copies run ahead in slots with an mbarrier each: the phase of tile t on V slots is t div V
// modulo 2, one thread issues, and a condition ends the copies instead of an epilogue.
// RUN: async-pipe-opt %s --async-pipe="check=none" --canonicalize --split-input-file | FileCheck %s

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>
// CHECK-LABEL: func.func @loads
// CHECK-DAG:     %[[C0:.*]] = arith.constant 0 : index
// CHECK-DAG:     %[[C1:.*]] = arith.constant 1 : index
// CHECK-DAG:     %[[FALSE:.*]] = arith.constant false
// CHECK-DAG:     %[[TILE:.*]] = memref.alloc() : memref<2x64xf32, #gpu.address_space<workgroup>>
// CHECK:         %[[FULL:.*]] = nvgpu.mbarrier.create -> <{{.*}}, num_barriers = 2>
// CHECK:         nvgpu.mbarrier.init %[[FULL]][%[[C0]]]
// CHECK:         nvgpu.mbarrier.init %[[FULL]][%[[C1]]]
// CHECK-NEXT:    nvvm.fence.mbarrier.init
// CHECK-NEXT:    nvvm.fence.proxy
// CHECK-NEXT:    gpu.barrier
// CHECK:         nvgpu.mbarrier.arrive.expect_tx %[[FULL]][%[[C0]]]
// CHECK:         nvgpu.tma.async.load %{{.*}}[%[[C0]]], %[[FULL]][%[[C0]]]
// CHECK:         %{{.*}}:3 = scf.for %[[I:.*]] = %{{.*}} iter_args(%[[AHEAD:.*]] = %[[C1]], %[[SLOT:.*]] = %[[C0]], %[[PHASE:.*]] = %[[FALSE]])
// CHECK-NEXT:      nvgpu.mbarrier.try_wait.parity %[[FULL]][%[[SLOT]]], %[[PHASE]],
// The barrier that ends the iteration before is the one that the copies need.
// CHECK-NOT:       gpu.barrier
// CHECK:           %[[IN:.*]] = arith.cmpi slt, %[[I]], %{{.*}}
// CHECK:           nvvm.elect.sync
// CHECK:           %[[GO:.*]] = arith.andi %[[IN]],
// CHECK:           nvgpu.mbarrier.arrive.expect_tx %[[FULL]][%[[AHEAD]]], %{{.*}}, predicate = %[[GO]]
// CHECK:           nvgpu.tma.async.load %{{.*}}, %[[FULL]][%[[AHEAD]]] to %{{.*}}, predicate = %[[GO]]
// CHECK:           %[[SEEN:.*]] = memref.subview %[[TILE]][%[[SLOT]], 0] [1, 64]
// CHECK:           memref.load %[[SEEN]]
// CHECK:           gpu.barrier
// CHECK-NOT:       gpu.barrier
// CHECK:           %[[SUM:.*]] = arith.addi %[[AHEAD]], %[[C1]]
// CHECK:           %[[AFTER:.*]] = arith.andi %[[SUM]], %[[C1]]
// CHECK:           %[[WRAPS:.*]] = arith.cmpi eq, %[[AHEAD]], %[[C0]]
// CHECK:           %[[FLIP:.*]] = arith.xori %[[PHASE]], %[[WRAPS]]
// CHECK:           scf.yield %[[AFTER]], %[[AHEAD]], %[[FLIP]]
// CHECK-NOT:     nvgpu
func.func @loads(%map_: !llvm.ptr, %out: memref<?x64xf32> {llvm.noalias}, %n: index)
    attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %map = builtin.unrealized_conversion_cast %map_ : !llvm.ptr to !map
  %tile = memref.alloc() : memref<64xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %bytes = arith.constant 256 : index
  %false = arith.constant false
  %true = arith.constant true
  %t = gpu.thread_id x
  %first = arith.cmpi eq, %t, %c0 : index
  %full = nvgpu.mbarrier.create -> !bars
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %first : !bars
  gpu.barrier
  %last = scf.for %i = %c0 to %n step %c1 iter_args(%phase = %false) -> (i1) {
    %at = arith.muli %i, %c64 : index
    nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %first : !bars
    nvgpu.tma.async.load %map[%at], %full[%c0] to %tile, predicate = %first : !map, !bars -> memref<64xf32, #wg>
    nvgpu.mbarrier.try_wait.parity %full[%c0], %phase, %c64 : !bars
    %v = memref.load %tile[%t] : memref<64xf32, #wg>
    memref.store %v, %out[%i, %t] : memref<?x64xf32>
    gpu.barrier
    %flip = arith.xori %phase, %true : i1
    scf.yield %flip : i1
  } {async_pipe.num_stages = 2 : i64}
  return
}

// -----

// Slot and phase go on through the loop around: the mbarriers do not start again.
#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64x64xf16, 3>, swizzle = swizzle_128b, l2promo = none, oob = zero, interleave = none>
!tile = !nvgpu.warpgroup.descriptor<tensor = memref<64x64xf16, 3>>
!sums = !nvgpu.warpgroup.accumulator<fragmented = vector<64x64xf32>>
// CHECK-LABEL: func.func @persistent
// CHECK:         scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}, %[[SLOT0:.*]] = %{{.*}}, %[[PHASE0:.*]] = %{{.*}}) -> (i1, index, i1)
// CHECK:           nvgpu.mbarrier.arrive.expect_tx %{{.*}}[%[[SLOT0]]]
// CHECK:           %[[R:.*]]:5 = scf.for {{.*}} %[[SLOT:.*]] = %[[SLOT0]], %[[AHEAD:.*]] = %{{.*}}, %[[PHASE:.*]] = %[[PHASE0]])
// CHECK-NEXT:        nvgpu.mbarrier.try_wait.parity %{{.*}}[%[[SLOT]]], %[[PHASE]],
// One product stays in flight, which is what the op says without an attribute.
// CHECK:             nvgpu.warpgroup.mma %{{.*}} {transposeB} :
// CHECK:             gpu.barrier
// CHECK-NOT:         gpu.barrier
// CHECK:             nvgpu.mbarrier.arrive.expect_tx %{{.*}}[%[[AHEAD]]]
// CHECK:           }
// CHECK-NEXT:      nvvm.wgmma.wait.group.sync.aligned 0
// CHECK:           nvgpu.warpgroup.mma.store %[[R]]#0
// CHECK:           scf.yield %[[R]]#1, %[[R]]#2, %[[R]]#4 : i1, index, i1
func.func @persistent(%a_: !llvm.ptr, %b_: !llvm.ptr, %out: memref<?x64xf32>, %n: index, %k: index)
    attributes {gpu.known_block_size = array<i32: 128, 1, 1>} {
  %a = builtin.unrealized_conversion_cast %a_ : !llvm.ptr to !map
  %b = builtin.unrealized_conversion_cast %b_ : !llvm.ptr to !map
  %left = memref.alloc() : memref<64x64xf16, #wg>
  %right = memref.alloc() : memref<64x64xf16, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %bytes = arith.constant 16384 : index
  %false = arith.constant false
  %true = arith.constant true
  %t = gpu.thread_id x
  %first = arith.cmpi eq, %t, %c0 : index
  %full = nvgpu.mbarrier.create -> !bars
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %first : !bars
  gpu.barrier
  %last = scf.for %tile = %c0 to %n step %c1 iter_args(%start = %false) -> (i1) {
    %row = arith.muli %tile, %c64 : index
    %zero = nvgpu.warpgroup.mma.init.accumulator -> !sums
    %sums, %end = scf.for %i = %c0 to %k step %c64 iter_args(%sum = %zero, %phase = %start) -> (!sums, i1) {
      nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %first : !bars
      nvgpu.tma.async.load %a[%i, %row], %full[%c0] to %left, predicate = %first : !map, !bars -> memref<64x64xf16, #wg>
      nvgpu.tma.async.load %b[%c0, %i], %full[%c0] to %right, predicate = %first : !map, !bars -> memref<64x64xf16, #wg>
      nvgpu.mbarrier.try_wait.parity %full[%c0], %phase, %c64 : !bars
      %l = nvgpu.warpgroup.generate.descriptor %left, %a : memref<64x64xf16, #wg>, !map -> !tile
      %r = nvgpu.warpgroup.generate.descriptor %right, %b : memref<64x64xf16, #wg>, !map -> !tile
      %next = nvgpu.warpgroup.mma %l, %r, %sum {transposeB, waitGroup = 0 : i64} : !tile, !tile, !sums -> !sums
      gpu.barrier
      %flip = arith.xori %phase, %true : i1
      scf.yield %next, %flip : !sums, i1
    } {async_pipe.num_stages = 3 : i64}
    %part = memref.subview %out[%row, 0][64, 64][1, 1] : memref<?x64xf32> to memref<64x64xf32, strided<[64, 1], offset: ?>>
    nvgpu.warpgroup.mma.store %sums, %part : !sums to memref<64x64xf32, strided<[64, 1], offset: ?>>
    scf.yield %end : i1
  }
  return
}
