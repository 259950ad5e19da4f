// Products by descriptors (nvvm.wgmma) read tiles in slots: the slot is added to the address that the
// descriptor is made of, the wait leaves the product of one iteration in flight, and the last one is
// waited for after the loop. 8-bit floats, A and B by k.
// RUN: async-pipe-opt %s --async-pipe --canonicalize --cse | FileCheck %s

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg>
!amap = !nvgpu.tensormap.descriptor<tensor = memref<64x128xf8E4M3FN, 3>, swizzle = swizzle_128b, l2promo = none, oob = zero, interleave = none>
!bmap = !nvgpu.tensormap.descriptor<tensor = memref<8x128xf8E4M3FN, 3>, swizzle = swizzle_128b, l2promo = none, oob = zero, interleave = none>
!sums = !llvm.struct<(f32, f32, f32, f32)>
// CHECK-LABEL: func.func @descriptors
// CHECK-DAG:     %[[LEFT:.*]] = memref.alloc() : memref<3x64x128xf8E4M3FN, #gpu.address_space<workgroup>>
// CHECK-DAG:     %[[RIGHT:.*]] = memref.alloc() : memref<3x8x128xf8E4M3FN, #gpu.address_space<workgroup>>
// CHECK-DAG:     %[[LEFT_BYTES:.*]] = arith.constant 8192 : index
// CHECK-DAG:     %[[RIGHT_BYTES:.*]] = arith.constant 1024 : index
// CHECK:         %{{.*}}:4 = scf.for %{{.*}} iter_args(%[[SUM:.*]] = %{{.*}}, %[[SLOT:.*]] = %{{.*}}, %[[AHEAD:.*]] = %{{.*}}, %[[PHASE:.*]] = %{{.*}})
// CHECK-NEXT:      nvgpu.mbarrier.try_wait.parity %{{.*}}[%[[SLOT]]], %[[PHASE]],
// CHECK-NEXT:      %[[A:.*]] = memref.extract_aligned_pointer_as_index %[[LEFT]]
// CHECK-NEXT:      %[[A_SLOT:.*]] = arith.muli %[[SLOT]], %[[LEFT_BYTES]] : index
// CHECK-NEXT:      %[[A64:.*]] = arith.index_cast %[[A]] : index to i64
// CHECK-NEXT:      %[[A_SLOT64:.*]] = arith.index_cast %[[A_SLOT]] : index to i64
// CHECK-NEXT:      %[[A_TILE:.*]] = arith.addi %[[A64]], %[[A_SLOT64]] : i64
// CHECK-NEXT:      %[[A_LOW:.*]] = arith.shrui %[[A_TILE]],
// CHECK-NEXT:      %[[A_PLACE:.*]] = arith.andi %[[A_LOW]],
// CHECK-NEXT:      %[[A_BITS:.*]] = arith.ori %[[A_PLACE]],
// CHECK-NEXT:      %[[B:.*]] = memref.extract_aligned_pointer_as_index %[[RIGHT]]
// CHECK-NEXT:      arith.muli %[[SLOT]], %[[RIGHT_BYTES]] : index
// CHECK:           nvvm.wgmma.fence.aligned
// CHECK-NEXT:      nvvm.wgmma.mma_async %[[A_BITS]], %{{.*}}, %[[SUM]],
// CHECK-NEXT:      nvvm.wgmma.commit.group.sync.aligned
// CHECK-NEXT:      nvvm.wgmma.wait.group.sync.aligned 1
// CHECK-NEXT:      gpu.barrier
// CHECK-NOT:       gpu.barrier
// CHECK:           nvgpu.mbarrier.arrive.expect_tx %{{.*}}[%[[AHEAD]]]
// CHECK:           scf.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    nvvm.wgmma.wait.group.sync.aligned 0
// CHECK-NEXT:    llvm.extractvalue
func.func @descriptors(%a_: !llvm.ptr, %b_: !llvm.ptr, %out: memref<128xf32>, %k: index)
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
    %next = nvvm.wgmma.mma_async %ad, %bd, %sum, <m = 64, n = 8, k = 32>, D[<f32>, <one>], A[<e4m3>, <one>, <row>], B[<e4m3>, <one>, <col>] : !sums -> !sums
    nvvm.wgmma.commit.group.sync.aligned
    nvvm.wgmma.wait.group.sync.aligned 0
    gpu.barrier
    %flip = arith.xori %phase, %true : i1
    scf.yield %next, %flip : !sums, i1
  } {async_pipe.num_stages = 3 : i64}
  %v = llvm.extractvalue %total#0[0] : !sums
  memref.store %v, %out[%t] : memref<128xf32>
  return
}
