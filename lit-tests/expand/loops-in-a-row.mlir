// Two pipelined loops over one buffer share its versions, as many as the deeper one needs; one
// barrier stands between the reads of the first and the copies of the second. Who reads the
// buffer after a loop finds the last iteration in slot 0: slots are counted so that it ends there.
// RUN: async-pipe-opt %s --async-pipe | FileCheck %s

#wg = #gpu.address_space<workgroup>
// CHECK-LABEL: func.func @two_loops
// CHECK:         %[[B:.*]] = memref.alloc() : memref<4x4xf32, #gpu.address_space<workgroup>>
// CHECK:         scf.for
// CHECK:           nvgpu.device_async_wait %{{.*}} {numGroups = 1 : i32}
// CHECK:           nvgpu.device_async_copy %{{.*}}, %[[B]][
// CHECK:         nvgpu.device_async_wait %{{.*}} {numGroups = 1 : i32}
// CHECK:         nvgpu.device_async_wait %{{.*}} {numGroups = 0 : i32}
// CHECK:         memref.store
// CHECK-NEXT:    gpu.barrier
// CHECK-NOT:     gpu.barrier
// CHECK:         scf.for
// CHECK:           nvgpu.device_async_wait %{{.*}} {numGroups = 2 : i32}
// CHECK:           nvgpu.device_async_copy %{{.*}}, %[[B]][
// CHECK:         return
func.func @two_loops(%A: memref<32x4xf32> {llvm.noalias}, %O: memref<32x4xf32> {llvm.noalias})
    attributes {known_block_size = array<i32: 4, 1, 1>} {
  %B = memref.alloc() : memref<4xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c9 = arith.constant 9 : index
  %c16 = arith.constant 16 : index
  %t = gpu.thread_id x
  %other = arith.subi %c3, %t : index
  scf.for %i = %c0 to %c9 step %c1 {
    %tk = nvgpu.device_async_copy %A[%i, %t], %B[%t], 1 : memref<32x4xf32> to memref<4xf32, #wg>
    %g = nvgpu.device_async_create_group %tk
    nvgpu.device_async_wait %g
    gpu.barrier
    scf.execute_region no_inline {
      %v = memref.load %B[%other] : memref<4xf32, #wg>
      memref.store %v, %O[%i, %t] : memref<32x4xf32>
      scf.yield
    }
    gpu.barrier
  } {async_pipe.num_stages = 3 : i64}
  scf.for %i = %c0 to %c9 step %c1 {
    %row = arith.addi %i, %c16 : index
    %tk = nvgpu.device_async_copy %A[%row, %t], %B[%t], 1 : memref<32x4xf32> to memref<4xf32, #wg>
    %g = nvgpu.device_async_create_group %tk
    nvgpu.device_async_wait %g
    gpu.barrier
    scf.execute_region no_inline {
      %v = memref.load %B[%other] : memref<4xf32, #wg>
      memref.store %v, %O[%row, %t] : memref<32x4xf32>
      scf.yield
    }
    gpu.barrier
  } {async_pipe.num_stages = 4 : i64}
  return
}

// Ten iterations in three slots: the first takes slot 0, so that the last has it too.
// CHECK-LABEL: func.func @read_after
// CHECK:         %[[C:.*]] = memref.alloc() : memref<3x4xf32, #gpu.address_space<workgroup>>
// CHECK:         %[[ZERO:.*]] = memref.subview %[[C]][0, 0]
// CHECK:         nvgpu.device_async_copy %{{.*}}, %[[C]][%c0{{.*}}, %
// CHECK:         nvgpu.device_async_copy %{{.*}}, %[[C]][%c1{{.*}}, %
// CHECK:         scf.for
// CHECK:         memref.load %[[ZERO]]
func.func @read_after(%A: memref<32x4xf32> {llvm.noalias}, %O: memref<32x4xf32> {llvm.noalias})
    attributes {known_block_size = array<i32: 4, 1, 1>} {
  %B = memref.alloc() : memref<4xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %c10 = arith.constant 10 : index
  %t = gpu.thread_id x
  scf.for %i = %c0 to %c10 step %c1 {
    %tk = nvgpu.device_async_copy %A[%i, %t], %B[%t], 1 : memref<32x4xf32> to memref<4xf32, #wg>
    %g = nvgpu.device_async_create_group %tk
    nvgpu.device_async_wait %g
    scf.execute_region no_inline {
      %v = memref.load %B[%t] : memref<4xf32, #wg>
      memref.store %v, %O[%i, %t] : memref<32x4xf32>
      scf.yield
    }
  } {async_pipe.num_stages = 3 : i64}
  %last = memref.load %B[%t] : memref<4xf32, #wg>
  memref.store %last, %O[%c10, %t] : memref<32x4xf32>
  return
}
