// RUN: async-pipe-opt %s --async-pipe-normalise-predicates | FileCheck %s

// A branch that only issues tensor copies goes, and its condition becomes their predicate.

#wg = #gpu.address_space<workgroup>

!map = !nvgpu.tensormap.descriptor<tensor = memref<8x32xf16, #wg>, swizzle = none, l2promo = none, oob = zero, interleave = none>
!full = !nvgpu.mbarrier.group<memorySpace = #wg>

// CHECK-LABEL: func.func @leader
// CHECK:       scf.for
// CHECK-NOT:     scf.if
// CHECK:         nvgpu.mbarrier.arrive.expect_tx %arg2[%c0], %{{.*}}, predicate = %arg3
// CHECK:         nvgpu.tma.async.load %arg0[%{{.*}}, %{{.*}}], %arg2[%c0] to %arg1, predicate = %arg3
func.func @leader(%map: !map, %tile: memref<8x32xf16, #wg>, %full: !full, %first: i1, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %bytes = arith.constant 512 : index
  scf.for %i = %c0 to %n step %c1 {
    scf.if %first {
      nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes : !full
      nvgpu.tma.async.load %map[%i, %c0], %full[%c0] to %tile : !map, !full -> memref<8x32xf16, #wg>
    }
  } {async_pipe.num_stages = 2 : i64}
  return
}
