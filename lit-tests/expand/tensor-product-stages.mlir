// Products of a loop of tensor copies in two stages (nvvm.wgmma): the scores of the next tile are issued beside the
// product that adds to the output, and each part of the pipeline leaves the groups in flight that come after those that a
// wait is for. The loop has an iteration at least where it is peeled. A slot more than for one stage, and with warps of
// their own that copy the slot of the tile before goes back.
// RUN: async-pipe-opt %s "--async-pipe=check=error" --canonicalize --cse | FileCheck %s
// RUN: async-pipe-opt %s "--async-pipe=check=error roles=specialised" --canonicalize --cse | FileCheck %s --check-prefix=ROLES

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg>
!amap = !nvgpu.tensormap.descriptor<tensor = memref<64x128xf8E4M3FN, 3>, swizzle = swizzle_128b, l2promo = none, oob = zero, interleave = none>
!bmap = !nvgpu.tensormap.descriptor<tensor = memref<8x128xf8E4M3FN, 3>, swizzle = swizzle_128b, l2promo = none, oob = zero, interleave = none>
!sums = !llvm.struct<(f32, f32, f32, f32)>
// CHECK-LABEL: func.func @scores_ahead
// CHECK-DAG:     memref.alloc() : memref<3x64x128xf8E4M3FN, #gpu.address_space<workgroup>>
// CHECK-DAG:     %[[NONE:.*]] = llvm.mlir.undef
// CHECK-DAG:     %[[ZERO:.*]] = llvm.mlir.zero : !llvm.struct
// CHECK-DAG:     %[[C0:.*]] = arith.constant 0 : index
// CHECK-DAG:     %[[C128:.*]] = arith.constant 128 : index
// CHECK:         %[[SOME:.*]] = arith.cmpi sgt, %[[K:.*]], %[[C0]] : index
// CHECK:         scf.if %[[SOME]] -> (!llvm.struct<(f32, f32, f32, f32)>) {
// CHECK:           nvgpu.mbarrier.try_wait.parity
// CHECK:           nvvm.wgmma.fence.aligned
// CHECK-NEXT:      %[[SCORES:.*]] = nvvm.wgmma.mma_async %[[A:.*]], %[[B:.*]], %[[NONE]],
// CHECK-NEXT:      nvvm.wgmma.commit.group.sync.aligned
// CHECK-NEXT:      nvvm.wgmma.wait.group.sync.aligned 0
// CHECK-NEXT:      llvm.extractvalue %[[SCORES]][0]
// CHECK:           %[[SCALED:.*]] = llvm.insertvalue %{{.*}}[3]
// CHECK:           %[[R:.*]]:6 = scf.for %{{.*}} = %[[C128]] to %[[K]] step %[[C128]] iter_args(%[[LEFT:.*]] = %[[A]], %[[RIGHT:.*]] = %[[B]], %[[SUM:.*]] = %[[SCALED]],
// CHECK-NEXT:        nvgpu.mbarrier.try_wait.parity
// CHECK-NEXT:        gpu.barrier
// CHECK:             nvgpu.tma.async.load
// CHECK:             nvgpu.tma.async.load
// CHECK:             nvvm.wgmma.fence.aligned
// CHECK-NEXT:        %[[NEXT:.*]] = nvvm.wgmma.mma_async %[[A2:.*]], %[[B2:.*]], %[[NONE]],
// CHECK-NEXT:        nvvm.wgmma.commit.group.sync.aligned
// CHECK-NEXT:        nvvm.wgmma.fence.aligned
// CHECK-NEXT:        %[[OUT:.*]] = nvvm.wgmma.mma_async %[[LEFT]], %[[RIGHT]], %[[SUM]],
// CHECK-NEXT:        nvvm.wgmma.commit.group.sync.aligned
// CHECK-NEXT:        nvvm.wgmma.wait.group.sync.aligned 1
// CHECK-NEXT:        llvm.extractvalue %[[NEXT]][0]
// CHECK-NEXT:        math.exp2
// CHECK-NEXT:        nvvm.wgmma.wait.group.sync.aligned 0
// CHECK-NEXT:        llvm.extractvalue %[[OUT]][0]
// CHECK:             %[[SCALED2:.*]] = llvm.insertvalue %{{.*}}[3]
// CHECK-NOT:         gpu.barrier
// CHECK:             scf.yield %[[A2]], %[[B2]], %[[SCALED2]],
// CHECK-NEXT:      }
// CHECK-NEXT:      nvvm.wgmma.fence.aligned
// CHECK-NEXT:      %[[LAST:.*]] = nvvm.wgmma.mma_async %[[R]]#0, %[[R]]#1, %[[R]]#2,
// CHECK-NEXT:      nvvm.wgmma.commit.group.sync.aligned
// CHECK-NEXT:      nvvm.wgmma.wait.group.sync.aligned 0
// CHECK-NEXT:      scf.yield %[[LAST]]
// CHECK-NEXT:    } else {
// CHECK-NEXT:      scf.yield %[[ZERO]]
//
// ROLES-LABEL: func.func @scores_ahead
// ROLES-DAG:     memref.alloc() : memref<2x64x128xf8E4M3FN, #gpu.address_space<workgroup>>
// ROLES:         %[[R:.*]]:6 = scf.for %{{.*}} iter_args({{.*}}, %[[SLOT:.*]] = %{{.*}}, %[[BEFORE:.*]] = %{{.*}}, %[[PHASE:.*]] = %{{[^,]*}}) ->
// ROLES-NEXT:      nvgpu.mbarrier.try_wait.parity %{{.*}}[%[[SLOT]]], %[[PHASE]],
// ROLES:           nvvm.wgmma.wait.group.sync.aligned 1
// ROLES:           nvvm.wgmma.wait.group.sync.aligned 0
// ROLES:           nvgpu.mbarrier.arrive %[[EMPTY:.*]][%[[BEFORE]]]
// ROLES:         }
// ROLES:         nvvm.wgmma.wait.group.sync.aligned 0
// ROLES:         nvgpu.mbarrier.arrive %[[EMPTY]][%[[R]]#4]
// ROLES:         scf.for %{{.*}} = %{{.*}} to
// ROLES-NEXT:      nvgpu.mbarrier.try_wait.parity %[[EMPTY]]
func.func @scores_ahead(%a_: !llvm.ptr, %b_: !llvm.ptr, %out: memref<128xf32>, %k: index)
    attributes {gpu.known_block_size = array<i32: 128, 1, 1>} {
  %a = builtin.unrealized_conversion_cast %a_ : !llvm.ptr to !amap
  %b = builtin.unrealized_conversion_cast %b_ : !llvm.ptr to !bmap
  %left = memref.alloc() : memref<64x128xf8E4M3FN, #wg>
  %right = memref.alloc() : memref<8x128xf8E4M3FN, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %bytes = arith.constant 9216 : index
  %false = arith.constant false
  %true = arith.constant true
  %four = arith.constant 4 : i64
  %low = arith.constant 16383 : i64
  // Stride 1024 bytes, swizzle of 128.
  %bits = arith.constant 4611686293305360384 : i64
  %t = gpu.thread_id x
  %first = arith.cmpi eq, %t, %c0 : index
  %full = nvgpu.mbarrier.create -> !bars
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %first : !bars
  gpu.barrier
  %zero = llvm.mlir.zero : !sums
  %none = llvm.mlir.undef : !sums
  %total:2 = scf.for %i = %c0 to %k step %c128 iter_args(%sum = %zero, %phase = %false) -> (!sums, i1) {
    nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %first : !bars
    nvgpu.tma.async.load %a[%i, %c0], %full[%c0] to %left, predicate = %first : !amap, !bars -> memref<64x128xf8E4M3FN, #wg>
    nvgpu.tma.async.load %b[%i, %c0], %full[%c0] to %right, predicate = %first : !bmap, !bars -> memref<8x128xf8E4M3FN, #wg>
    nvgpu.mbarrier.try_wait.parity %full[%c0], %phase, %c128 : !bars
    %ap = memref.extract_aligned_pointer_as_index %left : memref<64x128xf8E4M3FN, #wg> -> index
    %ai = arith.index_cast %ap : index to i64
    %as = arith.shrui %ai, %four : i64
    %al = arith.andi %as, %low : i64
    %ad = arith.ori %al, %bits : i64
    %bp = memref.extract_aligned_pointer_as_index %right : memref<8x128xf8E4M3FN, #wg> -> index
    %bi = arith.index_cast %bp : index to i64
    %bs = arith.shrui %bi, %four : i64
    %bl = arith.andi %bs, %low : i64
    %bd = arith.ori %bl, %bits : i64
    nvvm.wgmma.fence.aligned
    %scores = nvvm.wgmma.mma_async %ad, %bd, %none, <m = 64, n = 8, k = 32>, D[<f32>, <zero>], A[<e4m3>, <one>, <row>], B[<e4m3>, <one>, <col>] : !sums -> !sums
    nvvm.wgmma.commit.group.sync.aligned
    nvvm.wgmma.wait.group.sync.aligned 0
    %s = llvm.extractvalue %scores[0] : !sums
    %w = math.exp2 %s : f32
    %x0 = llvm.extractvalue %sum[0] : !sums
    %x1 = llvm.extractvalue %sum[1] : !sums
    %x2 = llvm.extractvalue %sum[2] : !sums
    %x3 = llvm.extractvalue %sum[3] : !sums
    %y0 = arith.mulf %x0, %w : f32
    %y1 = arith.mulf %x1, %w : f32
    %y2 = arith.mulf %x2, %w : f32
    %y3 = arith.mulf %x3, %w : f32
    %z0 = llvm.insertvalue %y0, %none[0] : !sums
    %z1 = llvm.insertvalue %y1, %z0[1] : !sums
    %z2 = llvm.insertvalue %y2, %z1[2] : !sums
    %z3 = llvm.insertvalue %y3, %z2[3] : !sums
    nvvm.wgmma.fence.aligned
    %next = nvvm.wgmma.mma_async %ad, %bd, %z3, <m = 64, n = 8, k = 32>, D[<f32>, <one>], A[<e4m3>, <one>, <row>], B[<e4m3>, <one>, <col>] : !sums -> !sums
    nvvm.wgmma.commit.group.sync.aligned
    nvvm.wgmma.wait.group.sync.aligned 0
    gpu.barrier
    %flip = arith.xori %phase, %true : i1
    scf.yield %next, %flip : !sums, i1
  } {async_pipe.stage = [0, 0, 1, 1, 2, 2], async_pipe.order = [0, 1, 2, 3, 4, 5]}
  %v = llvm.extractvalue %total#0[0] : !sums
  memref.store %v, %out[%t] : memref<128xf32>
  return
}
