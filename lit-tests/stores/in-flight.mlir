// Tiles of tensor stores get q + 1 slots, the wait leaves q, and what is left is waited for.
// RUN: async-pipe-opt %s --async-pipe-stores | FileCheck %s
// RUN: async-pipe-opt %s --async-pipe-stores=smem-limit=600 2>&1 | FileCheck %s --check-prefix=LESS

#wg = #gpu.address_space<workgroup>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>

// LESS: remark: 1 tensor stores stay in flight instead of 2, to fit the workgroup memory [fewer-slots]
// LESS-LABEL: func.func @rows
// LESS: memref.alloc() : memref<2x64xf32

// CHECK-LABEL: func.func @rows
// CHECK: %[[TILE:.*]] = memref.alloc() : memref<3x64xf32, #gpu.address_space<workgroup>>
// CHECK: scf.for {{.*}} iter_args(%[[OUTER:.*]] = %[[ZERO:.*]]) -> (index)
// CHECK:   %[[INNER:.*]] = scf.for {{.*}} iter_args(%[[SLOT:.*]] = %[[OUTER]]) -> (index)
// CHECK:     memref.subview %[[TILE]][%[[SLOT]], 0]
// CHECK:     memref.store
// CHECK:     nvvm.fence.proxy
// CHECK:     gpu.barrier
// CHECK:     memref.subview %[[TILE]][%[[SLOT]], 0]
// CHECK:     nvgpu.tma.async.store
// CHECK:     nvvm.cp.async.bulk.commit.group
// CHECK:     nvvm.cp.async.bulk.wait_group 2 {read}
// CHECK:     gpu.barrier
// CHECK:     %[[NEXT:.*]] = arith.addi %[[SLOT]]
// CHECK:     %[[WRAPS:.*]] = arith.cmpi eq, %[[NEXT]]
// CHECK:     %[[THEN:.*]] = arith.select %[[WRAPS]], %{{.*}}, %[[NEXT]]
// CHECK:     scf.yield %[[THEN]]
// CHECK-NOT: stores_in_flight
// CHECK:   scf.yield %[[INNER]]
// CHECK: nvvm.cp.async.bulk.wait_group 0 {async_pipe.drain, read}
func.func @rows(%out: !map, %n: index, %value: f32)
    attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %tile = memref.alloc() : memref<64xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %t = gpu.thread_id x
  %first = arith.cmpi eq, %t, %c0 : index
  scf.for %i = %c0 to %n step %c1 {
    scf.for %j = %c0 to %n step %c1 {
      %row = arith.muli %i, %n : index
      memref.store %value, %tile[%t] : memref<64xf32, #wg>
      nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
      gpu.barrier
      nvgpu.tma.async.store %tile to %out[%row], predicate = %first : memref<64xf32, #wg> -> !map
      nvvm.cp.async.bulk.commit.group
      nvvm.cp.async.bulk.wait_group 0 {read}
      gpu.barrier
    } {async_pipe.stores_in_flight = 2 : i64}
  }
  return
}
