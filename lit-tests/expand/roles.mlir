// `async_pipe.roles = "specialised"`: warps that are added to the block copy into slots that the others
// give back, by an mbarrier each way.
// RUN: async-pipe-opt %s --async-pipe="check=none" --canonicalize --split-input-file | FileCheck %s

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>
// CHECK-LABEL: func.func @loads
// CHECK-SAME:    known_block_size = array<i32: 96, 1, 1>
// CHECK:         %[[TILE:.*]] = memref.alloc() : memref<2x64xf32, #gpu.address_space<workgroup>>
// CHECK:         %[[EMPTY:.*]] = nvgpu.mbarrier.create -> <{{.*}}, num_barriers = 2>
// CHECK:         %[[FULL:.*]] = nvgpu.mbarrier.create -> <{{.*}}, num_barriers = 2>
// One arrival of each of the two warps that read, one of the thread that copies.
// CHECK-COUNT-2: nvgpu.mbarrier.init %[[EMPTY]][%{{.*}}], %c2,
// CHECK-COUNT-2: nvgpu.mbarrier.init %[[FULL]][%{{.*}}], %c1,
// CHECK-NEXT:    nvvm.fence.mbarrier.init
// CHECK-NEXT:    nvvm.fence.proxy
// CHECK-NEXT:    gpu.barrier
// CHECK:         %[[THREAD:.*]] = gpu.thread_id x
// CHECK:         %[[MINE:.*]] = arith.cmpi ult, %[[THREAD]], %c64
// CHECK:         scf.if %[[MINE]] {
// CHECK:           %[[LANE:.*]] = arith.remui %[[THREAD]], %c32
// CHECK:           %[[LANE0:.*]] = arith.cmpi eq, %[[LANE]], %c0
// CHECK:           scf.for {{.*}} iter_args(%[[SLOT:.*]] = %c0, %[[PHASE:.*]] = %false) -> (index, i1)
// CHECK-NEXT:        nvgpu.mbarrier.try_wait.parity %[[FULL]][%[[SLOT]]], %[[PHASE]],
// CHECK:             %[[SEEN:.*]] = memref.subview %[[TILE]][%[[SLOT]], 0] [1, 64]
// CHECK:             memref.load %[[SEEN]]
// CHECK:             nvvm.barrier id = %c1_i32 number_of_threads = %c64_i32
// CHECK-NEXT:        nvvm.bar.warp.sync %c-1_i32
// CHECK-NEXT:        scf.if %[[LANE0]] {
// CHECK-NEXT:          nvgpu.mbarrier.arrive %[[EMPTY]][%[[SLOT]]]
// CHECK:         } else {
// CHECK-NEXT:      scf.for %[[I:.*]] = {{.*}} iter_args(%[[SLOT:.*]] = %c0, %[[PHASE:.*]] = %true) -> (index, i1)
// CHECK-NEXT:        nvgpu.mbarrier.try_wait.parity %[[EMPTY]][%[[SLOT]]], %[[PHASE]],
// CHECK-NEXT:        %[[GO:.*]] = nvvm.elect.sync
// CHECK-NEXT:        %[[AT:.*]] = arith.muli %[[I]], %c64
// CHECK-NEXT:        nvgpu.mbarrier.arrive.expect_tx %[[FULL]][%[[SLOT]]], %{{.*}}, predicate = %[[GO]]
// CHECK-NEXT:        %[[TO:.*]] = memref.subview %[[TILE]][%[[SLOT]], 0] [1, 64]
// CHECK-NEXT:        nvgpu.tma.async.load %{{.*}}[%[[AT]]], %[[FULL]][%[[SLOT]]] to %[[TO]], predicate = %[[GO]]
// CHECK:             %[[WRAPS:.*]] = arith.cmpi eq, %[[NEXT:.*]], %c0
// CHECK-NEXT:        %[[FLIP:.*]] = arith.xori %[[PHASE]], %[[WRAPS]]
// CHECK-NEXT:        scf.yield %[[NEXT]], %[[FLIP]]
// CHECK-NOT:     gpu.barrier
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
  } {async_pipe.num_stages = 2 : i64, async_pipe.roles = "specialised"}
  return
}

// -----

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64x64xf16, 3>, swizzle = swizzle_128b, l2promo = none, oob = zero, interleave = none>
!tile = !nvgpu.warpgroup.descriptor<tensor = memref<64x64xf16, 3>>
!sums = !nvgpu.warpgroup.accumulator<fragmented = vector<64x64xf32>>
// Both roles go through the loop around; registers go to those that multiply; one product stays in
// flight, so that a slot goes back an iteration later, and the last one after the loop.
// CHECK-LABEL: func.func @persistent
// CHECK-SAME:    known_block_size = array<i32: 256, 1, 1>, nvvm.maxnreg = 136
// CHECK:         %[[EMPTY:.*]] = nvgpu.mbarrier.create
// CHECK:         %[[FULL:.*]] = nvgpu.mbarrier.create
// CHECK-COUNT-3: nvgpu.mbarrier.init %[[EMPTY]][%{{.*}}], %c4,
// CHECK:         scf.if
// CHECK-NEXT:      nvvm.setmaxregister increase 232
// CHECK:           scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}, %[[SLOT0:.*]] = %c0, %[[PHASE0:.*]] = %false) -> (i1, index, i1)
// CHECK:             %[[R:.*]]:5 = scf.for %[[K:[a-z0-9]+]] = {{.*}} %[[SLOT:[a-z0-9]+]] = %[[SLOT0]], %[[PHASE:.*]] = %[[PHASE0]], %[[BEFORE:.*]] = %[[SLOT0]])
// CHECK-NEXT:          nvgpu.mbarrier.try_wait.parity %[[FULL]][%[[SLOT]]], %[[PHASE]],
// CHECK:               nvgpu.warpgroup.mma %{{.*}} {transposeB} :
// CHECK:               %[[SOME:.*]] = arith.cmpi ne, %[[K]], %c0
// CHECK-NEXT:          %[[GIVES:.*]] = arith.andi %[[SOME]], %[[LANE0:.*]] : i1
// CHECK-NEXT:          scf.if %[[GIVES]] {
// CHECK-NEXT:            nvgpu.mbarrier.arrive %[[EMPTY]][%[[BEFORE]]]
// CHECK:               scf.yield %{{.*}}, %{{.*}}, %{{.*}}, %[[SLOT]]
// CHECK:             nvvm.wgmma.wait.group.sync.aligned 0
// CHECK-NEXT:        %[[BACK:.*]] = arith.subi %[[R]]#2, %c1
// CHECK-NEXT:        %[[FIRST:.*]] = arith.cmpi eq, %[[R]]#2, %c0
// CHECK-NEXT:        %[[LAST:.*]] = arith.select %[[FIRST]], %c2, %[[BACK]]
// CHECK-NEXT:        %[[ANY:.*]] = arith.cmpi sgt, %{{.*}}, %c0
// CHECK-NEXT:        %[[GIVES:.*]] = arith.andi %[[ANY]], %[[LANE0]]
// CHECK-NEXT:        scf.if %[[GIVES]] {
// CHECK-NEXT:          nvgpu.mbarrier.arrive %[[EMPTY]][%[[LAST]]]
// CHECK:             nvgpu.warpgroup.mma.store %[[R]]#0
// CHECK:             scf.yield %[[R]]#1, %[[R]]#2, %[[R]]#3
// CHECK:         } else {
// CHECK-NEXT:      nvvm.setmaxregister decrease 40
// CHECK-NEXT:      %[[WARP:.*]] = arith.cmpi ult, %{{.*}}, %c160
// CHECK-NEXT:      scf.if %[[WARP]] {
// CHECK-NEXT:        scf.for %[[TILE:[a-z0-9]+]] = {{.*}} iter_args(%[[SLOT0:.*]] = %c0, %[[PHASE0:.*]] = %true) -> (index, i1)
// CHECK-NEXT:          %[[ROW:.*]] = arith.muli %[[TILE]], %c64
// CHECK-NEXT:          %[[R:.*]]:2 = scf.for {{.*}} iter_args(%[[SLOT:.*]] = %[[SLOT0]], %[[PHASE:.*]] = %[[PHASE0]])
// CHECK-NEXT:            nvgpu.mbarrier.try_wait.parity %[[EMPTY]][%[[SLOT]]], %[[PHASE]],
// CHECK-COUNT-2:         nvgpu.tma.async.load
// CHECK-NOT:             nvgpu.warpgroup
// CHECK:               scf.yield %[[R]]#0, %[[R]]#1
func.func @persistent(%a_: !llvm.ptr, %b_: !llvm.ptr, %out: memref<?x64xf32> {llvm.noalias}, %n: index, %k: index)
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
    } {async_pipe.num_stages = 3 : i64, async_pipe.roles = "specialised"}
    %part = memref.subview %out[%row, 0][64, 64][1, 1] : memref<?x64xf32> to memref<64x64xf32, strided<[64, 1], offset: ?>>
    nvgpu.warpgroup.mma.store %sums, %part : !sums to memref<64x64xf32, strided<[64, 1], offset: ?>>
    scf.yield %end : i1
  }
  return
}

// -----

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>
// Two groups of 64 threads take the tiles of the loop around in turn: named barriers 3 and 4 keep their
// loops in order, 5 iterations of the other group are 1 slot and 2 rounds on 2 slots, and a thread of the second group
// has the number of one of the first.
// CHECK-LABEL: func.func @in_turn
// CHECK-SAME:    known_block_size = array<i32: 160, 1, 1>
// CHECK-COUNT-2: nvgpu.mbarrier.init %{{.*}}[%{{.*}}], %c2,
// CHECK:         %[[THREAD:.*]] = gpu.thread_id x
// CHECK:         %[[COMPUTES:.*]] = arith.cmpi ult, %{{.*}}, %c128
// CHECK:         scf.if %[[COMPUTES]] {
// CHECK:           %[[OWN:.*]] = arith.remui %{{.*}}, %c64
// CHECK:           %[[NUMBER:.*]] = arith.divui %{{.*}}, %c64
// CHECK:           %[[GROUP:.*]], %{{.*}} = gpu.shuffle idx
// CHECK:           %[[FIRST:.*]] = arith.cmpi eq, %[[GROUP]], %c0_i32
// CHECK:           %[[SECOND:.*]] = arith.cmpi eq, %[[GROUP]], %c1_i32
// CHECK:           %[[MINE:.*]] = arith.addi %[[GROUP]], %c3_i32
// CHECK:           %[[OTHER:.*]] = arith.subi %c4_i32, %[[GROUP]]
// CHECK:           scf.if %[[SECOND]] {
// CHECK-NEXT:        nvvm.barrier.arrive id = %c3_i32 number_of_threads = %c128_i32
// CHECK:           %[[END:.*]]:4 = scf.for {{.*}} iter_args(%[[SLOT0:.*]] = %c0, %[[PHASE0:.*]] = %false, %[[TURN:.*]] = %[[FIRST]], %[[COUNT:.*]] = %c0)
// CHECK:             %[[AFTER:.*]]:2 = scf.if %[[TURN]]
// CHECK:               arith.addi %{{.*}}, %[[NUMBER]]
// CHECK:               nvvm.barrier id = %[[MINE]] number_of_threads = %c128_i32
// CHECK-NEXT:          scf.for
// CHECK:                 nvgpu.mbarrier.try_wait.parity
// CHECK:                 memref.load %{{.*}}[%[[OWN]]]
// CHECK:                 nvvm.barrier id = %{{.*}} number_of_threads = %c64_i32
// CHECK:                 nvgpu.mbarrier.arrive
// CHECK:               nvvm.barrier.arrive id = %[[OTHER]] number_of_threads = %c128_i32
// CHECK:             } else {
// CHECK-NEXT:          %[[ON:.*]] = arith.addi %[[SLOT0]], %c1
// CHECK-NEXT:          %[[WRAPS:.*]] = arith.cmpi uge, %[[ON]], %c2
// CHECK:               arith.xori %[[PHASE0]], %[[WRAPS]]
// CHECK:             %[[FLIP:.*]] = arith.xori %[[TURN]], %true
// CHECK:             scf.yield %[[AFTER]]#0, %[[AFTER]]#1, %[[FLIP]]
// CHECK:           scf.if %[[END]]#2 {
// CHECK-NEXT:        nvvm.barrier id = %[[MINE]] number_of_threads = %c128_i32
// CHECK:         } else {
// CHECK-NEXT:      scf.for
func.func @in_turn(%map_: !llvm.ptr, %out: memref<?x64xf32> {llvm.noalias}, %n: index)
    attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %map = builtin.unrealized_conversion_cast %map_ : !llvm.ptr to !map
  %tile = memref.alloc() : memref<64xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %c64 = arith.constant 64 : index
  %bytes = arith.constant 256 : index
  %false = arith.constant false
  %true = arith.constant true
  %t = gpu.thread_id x
  %first = arith.cmpi eq, %t, %c0 : index
  %full = nvgpu.mbarrier.create -> !bars
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %first : !bars
  gpu.barrier
  %all = scf.for %e = %c0 to %n step %c1 iter_args(%start = %false) -> (i1) {
    %row = arith.muli %e, %c5 : index
    %last = scf.for %i = %c0 to %c5 step %c1 iter_args(%phase = %start) -> (i1) {
      %at_row = arith.addi %row, %i : index
      %at = arith.muli %at_row, %c64 : index
      nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %first : !bars
      nvgpu.tma.async.load %map[%at], %full[%c0] to %tile, predicate = %first : !map, !bars -> memref<64xf32, #wg>
      nvgpu.mbarrier.try_wait.parity %full[%c0], %phase, %c64 : !bars
      %v = memref.load %tile[%t] : memref<64xf32, #wg>
      memref.store %v, %out[%at_row, %t] : memref<?x64xf32>
      gpu.barrier
      %flip = arith.xori %phase, %true : i1
      scf.yield %flip : i1
    } {async_pipe.num_stages = 2 : i64, async_pipe.roles = "ping-pong"}
    scf.yield %last : i1
  }
  return
}
