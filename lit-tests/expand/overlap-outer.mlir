// A persistent kernel: all steps of all tiles are one pipeline, so that the copies of the next tile start while this one
// still computes. The last three steps of a tile are written by themselves: the first copies for this tile, the others for
// the next one, if there is one. What stands after the inner loop happens in the last step, and the sum begins again.
// Nothing is drained between tiles: the counts are those of one long loop, and three buffers stay three.
// RUN: async-pipe-opt %s --async-pipe=overlap-outer=true | FileCheck %s
// RUN: async-pipe-opt %s --async-pipe | FileCheck %s --check-prefix=APART

#wg = #gpu.address_space<workgroup>
// CHECK-LABEL: func.func @tiles
// CHECK:         memref.alloc() : memref<3x4xf32
// CHECK:         nvgpu.device_async_copy
// CHECK:         nvgpu.device_async_copy
// CHECK:         scf.for %[[TILE:.*]] = %c0 to %c3 step %c1
// CHECK:           scf.for %{{.*}} = %c0 to %c2
// CHECK:             nvgpu.device_async_wait %{{.*}} {numGroups = 1 : i32}
// CHECK:             gpu.barrier
// CHECK:             nvgpu.device_async_copy %{{.*}}, 1 : memref
// CHECK:           %[[LEFT:.*]] = arith.subi %c3{{.*}}, %[[TILE]]
// CHECK:           %[[MORE:.*]] = arith.cmpi ugt, %[[LEFT]], %c1
// CHECK:           nvgpu.device_async_wait %{{.*}} {numGroups = 1 : i32}
// CHECK:           gpu.barrier
// CHECK:           nvgpu.device_async_copy %{{.*}}, 1 : memref
// CHECK:           nvgpu.device_async_wait %{{.*}} {numGroups = 1 : i32}
// CHECK:           gpu.barrier
// CHECK:           %[[SIZE:.*]] = arith.select %[[MORE]], %c1, %c0
// CHECK:           nvgpu.device_async_copy %{{.*}}, 1, %[[SIZE]] : memref
// CHECK:           nvgpu.device_async_wait %{{.*}} {numGroups = 1 : i32}
// CHECK:           gpu.barrier
// CHECK:           nvgpu.device_async_copy %{{.*}}, 1, %[[SIZE]] : memref
// CHECK:           memref.store %{{.*}}, %arg1[%[[TILE]]
// CHECK:           scf.yield %c2{{.*}}, %cst
// CHECK:         nvgpu.device_async_wait %{{.*}} {numGroups = 0 : i32}
// CHECK-NOT:     scf.for
// CHECK:         return

// APART-LABEL: func.func @tiles
// APART:         scf.for
// APART:           nvgpu.device_async_copy
// APART:           nvgpu.device_async_copy
// APART:           scf.for
// APART:           nvgpu.device_async_wait %{{.*}} {numGroups = 1 : i32}
// APART:           nvgpu.device_async_wait %{{.*}} {numGroups = 0 : i32}
func.func @tiles(%A: memref<32x4xf32> {llvm.noalias}, %O: memref<32x4xf32> {llvm.noalias})
    attributes {known_block_size = array<i32: 4, 1, 1>} {
  %B = memref.alloc() : memref<4xf32, #wg>
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c5 = arith.constant 5 : index
  %t = gpu.thread_id x
  %other = arith.subi %c3, %t : index
  scf.for %tile = %c0 to %c3 step %c1 {
    %base = arith.muli %tile, %c5 : index
    %total = scf.for %i = %c0 to %c5 step %c1 iter_args(%acc = %zero) -> f32 {
      %row = arith.addi %i, %base : index
      %tk = nvgpu.device_async_copy %A[%row, %t], %B[%t], 1 : memref<32x4xf32> to memref<4xf32, #wg>
      %g = nvgpu.device_async_create_group %tk
      nvgpu.device_async_wait %g
      gpu.barrier
      %sum = scf.execute_region -> f32 no_inline {
        %v = memref.load %B[%other] : memref<4xf32, #wg>
        %w = arith.addf %v, %acc : f32
        scf.yield %w : f32
      }
      gpu.barrier
      scf.yield %sum : f32
    } {async_pipe.num_stages = 3 : i64}
    memref.store %total, %O[%tile, %t] : memref<32x4xf32>
  }
  return
}
