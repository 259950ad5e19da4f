// What is read after a loop is copied before its last iterations, by each thread for itself: the counts of the loop
// are those that it has without, and a commit and a wait follow it. A load whose address may lie between two multiples of its
// bytes stays.
// RUN: async-pipe-opt %s --async-pipe --target=nvvm:sm_80 | FileCheck %s
// RUN: async-pipe-opt %s --async-pipe --target=nvvm:sm_80 -o /dev/null 2>&1 | FileCheck %s --check-prefix=SAID

#wg = #gpu.address_space<workgroup>
// SAID: remark: 'vector.load' after the loop is not copied ahead: its address may be no multiple of 8 bytes [residuals-as-written]
// SAID: remark: 1 load after the loop: what is read is copied during its last iterations, 16 bytes [residuals-ahead]
// CHECK-LABEL: func.func @sums
// CHECK:         %[[OWN:.*]] = memref.alloc() {alignment = 16 : i64} : memref<1x4x1xf32
// CHECK:         scf.for
// CHECK:           nvgpu.device_async_wait %{{.*}} {numGroups = 1 : i32}
// CHECK:         }
// CHECK:         %[[T:.*]] = gpu.thread_id x
// CHECK:         nvgpu.device_async_copy %arg1[%{{.*}}], %[[OWN]][%c0{{.*}}, %[[T]], %c0{{.*}}], 1 :
// CHECK-NOT:     create_group
// CHECK:         nvgpu.device_async_wait %{{.*}} {numGroups = 1 : i32}
// CHECK:         nvgpu.device_async_wait %{{.*}} {numGroups = 0 : i32}
// CHECK:         %[[G:.*]] = nvgpu.device_async_create_group
// CHECK:         nvgpu.device_async_wait %[[G]] {numGroups = 0 : i32}
// CHECK:         memref.load %[[OWN]]
// CHECK:         vector.load %arg2
func.func @sums(%A: memref<32x4xf32> {llvm.noalias}, %R: memref<4xf32> {llvm.noalias},
                %P: memref<?xf32> {llvm.noalias}, %O: memref<4xf32> {llvm.noalias})
    attributes {known_block_size = array<i32: 4, 1, 1>} {
  %B = memref.alloc() : memref<4xf32, #wg>
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c9 = arith.constant 9 : index
  %t = gpu.thread_id x
  %other = arith.subi %c3, %t : index
  %total = scf.for %i = %c0 to %c9 step %c1 iter_args(%acc = %zero) -> f32 {
    %tk = nvgpu.device_async_copy %A[%i, %t], %B[%t], 1 : memref<32x4xf32> to memref<4xf32, #wg>
    %g = nvgpu.device_async_create_group %tk
    nvgpu.device_async_wait %g
    gpu.barrier
    %v = memref.load %B[%other] : memref<4xf32, #wg>
    %w = arith.addf %v, %acc : f32
    gpu.barrier
    scf.yield %w : f32
  } {async_pipe.num_stages = 3 : i64, async_pipe.residuals = "async"}
  %r = memref.load %R[%other] : memref<4xf32>
  %s = arith.addf %total, %r : f32
  %p = vector.load %P[%t] : memref<?xf32>, vector<2xf32>
  %p0 = vector.extract %p[0] : f32 from vector<2xf32>
  %q = arith.addf %s, %p0 : f32
  memref.store %q, %O[%t] : memref<4xf32>
  return
}
