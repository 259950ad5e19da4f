// Two loops on one mbarrier: three slots for both, as the first copies two tiles ahead; slot and phase go
// from the first to the second, which copies its first tile into the slot after the last one.
// RUN: async-pipe-opt %s --async-pipe --canonicalize --cse | FileCheck %s
// With roles a warp copies for both, one after the other: each role hands slot and phase on.
// RUN: async-pipe-opt %s --async-pipe="roles=specialised" --canonicalize --cse 2> /dev/null | FileCheck %s --check-prefix=ROLES

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg>
!map = !nvgpu.tensormap.descriptor<tensor = memref<2x32xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>
!tile = memref<2x32xf32, #wg>
// CHECK-LABEL: func.func @twice
// CHECK:         memref.alloc() : memref<3x2x32xf32, #gpu.address_space<workgroup>>
// CHECK:         %[[FULL:.*]] = nvgpu.mbarrier.create -> {{.*}}num_barriers = 3>
// CHECK:         %[[FIRST:.*]]:3 = scf.for %{{.*}} iter_args(%[[SLOT:.*]] = %c0, %[[AHEAD:.*]] = %c2, %[[PHASE:.*]] = %false)
// CHECK:           nvgpu.mbarrier.try_wait.parity %[[FULL]][%[[SLOT]]], %[[PHASE]],
// CHECK:           scf.yield
// CHECK-NEXT:    }
// CHECK-NOT:     gpu.barrier
// CHECK:         nvgpu.mbarrier.arrive.expect_tx %[[FULL]][%[[FIRST]]#0]
// CHECK:         scf.for %{{.*}} iter_args(%[[AHEAD2:.*]] = %{{.*}}, %[[SLOT2:.*]] = %[[FIRST]]#0, %[[PHASE2:.*]] = %[[FIRST]]#2)
// CHECK:           nvgpu.mbarrier.try_wait.parity %[[FULL]][%[[SLOT2]]], %[[PHASE2]],
// ROLES-LABEL: func.func @twice
// ROLES-SAME:    known_block_size = array<i32: 96, 1, 1>
// ROLES:         %[[EMPTY:.*]] = nvgpu.mbarrier.create -> {{.*}}num_barriers = 3>
// ROLES:         %[[FULL:.*]] = nvgpu.mbarrier.create -> {{.*}}num_barriers = 3>
// ROLES:         scf.if
// ROLES:           %[[FIRST:.*]]:2 = scf.for %{{.*}} iter_args(%[[SLOT:.*]] = %c0, %[[PHASE:.*]] = %false)
// ROLES:             nvgpu.mbarrier.try_wait.parity %[[FULL]][%[[SLOT]]], %[[PHASE]],
// ROLES:             nvgpu.mbarrier.arrive %[[EMPTY]][%[[SLOT]]]
// ROLES:           scf.for %{{.*}} iter_args(%[[SLOT2:.*]] = %[[FIRST]]#0, %[[PHASE2:.*]] = %[[FIRST]]#1)
// ROLES:             nvgpu.mbarrier.try_wait.parity %[[FULL]][%[[SLOT2]]], %[[PHASE2]],
// ROLES:             nvgpu.mbarrier.arrive %[[EMPTY]][%[[SLOT2]]]
// ROLES:         } else {
// ROLES:           %[[COPIED:.*]]:2 = scf.for %{{.*}} iter_args(%[[TO:.*]] = %c0, %[[FREE:.*]] = %true)
// ROLES:             nvgpu.mbarrier.try_wait.parity %[[EMPTY]][%[[TO]]], %[[FREE]],
// ROLES:             nvgpu.tma.async.load
// ROLES:           scf.for %{{.*}} iter_args(%[[TO2:.*]] = %[[COPIED]]#0, %[[FREE2:.*]] = %[[COPIED]]#1)
// ROLES:             nvgpu.mbarrier.try_wait.parity %[[EMPTY]][%[[TO2]]], %[[FREE2]],
// ROLES:             nvgpu.tma.async.load
func.func @twice(%a_: !llvm.ptr, %out: memref<?x64xf32> {llvm.noalias}, %k: index)
    attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %a = builtin.unrealized_conversion_cast %a_ : !llvm.ptr to !map
  %tile = memref.alloc() : !tile
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %bytes = arith.constant 256 : index
  %ticks = arith.constant 64 : index
  %false = arith.constant false
  %true = arith.constant true
  %t = gpu.thread_id x
  %row = arith.divui %t, %c32 : index
  %column = arith.remui %t, %c32 : index
  %leader = arith.cmpi eq, %t, %c0 : index
  %full = nvgpu.mbarrier.create -> !bars
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %leader : !bars
  nvvm.fence.mbarrier.init
  gpu.barrier
  %next = scf.for %i = %c0 to %k step %c1 iter_args(%phase = %false) -> (i1) {
    %at = arith.muli %i, %c32 : index
    nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %leader : !bars
    nvgpu.tma.async.load %a[%at, %c0], %full[%c0] to %tile, predicate = %leader : !map, !bars -> !tile
    nvgpu.mbarrier.try_wait.parity %full[%c0], %phase, %ticks : !bars
    %v = memref.load %tile[%row, %column] : !tile
    memref.store %v, %out[%i, %t] : memref<?x64xf32>
    gpu.barrier
    %flip = arith.xori %phase, %true : i1
    scf.yield %flip : i1
  } {async_pipe.num_stages = 3 : i64}
  %last = scf.for %i = %c0 to %k step %c1 iter_args(%phase = %next) -> (i1) {
    %j = arith.addi %i, %k : index
    %at = arith.muli %j, %c32 : index
    nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %leader : !bars
    nvgpu.tma.async.load %a[%at, %c0], %full[%c0] to %tile, predicate = %leader : !map, !bars -> !tile
    nvgpu.mbarrier.try_wait.parity %full[%c0], %phase, %ticks : !bars
    %v = memref.load %tile[%row, %column] : !tile
    memref.store %v, %out[%j, %t] : memref<?x64xf32>
    gpu.barrier
    %flip = arith.xori %phase, %true : i1
    scf.yield %flip : i1
  } {async_pipe.num_stages = 2 : i64}
  return
}
