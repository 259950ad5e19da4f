// A loop inside a loop, both pipelined: the prologue, kernel and epilogue of the inner one are
// one statement each of the outer one. Here the first load of the next tile stands after the
// inner kernel of this one: shared memory is four deep, registers two.
// RUN: async-pipe-opt %s --async-pipe-schedule | FileCheck %s --check-prefix=SCHEDULE
// RUN: async-pipe-opt %s --async-pipe | FileCheck %s

// SCHEDULE: {async_pipe.part_orders = array<i64: 2, 1, 3>, async_pipe.part_stages = array<i64: 2, 3, 3>

// CHECK-LABEL: gpu.func @nest
// CHECK-SAME:    memref<4x64xf32
// CHECK:       scf.for
// CHECK:         nvgpu.device_async_copy
// CHECK:         nvgpu.device_async_create_group
// CHECK-NOT:     gpu.barrier
// CHECK:         scf.for
// CHECK:         }
// CHECK:         nvgpu.device_async_wait %{{.*}} {numGroups = 2 : i32}
// CHECK-NEXT:    gpu.barrier
// CHECK:         memref.load
// CHECK:         memref.store
// CHECK:         scf.yield
// CHECK:       scf.for
// CHECK:       nvgpu.device_async_wait %{{.*}} {numGroups = 1 : i32}
// CHECK:       scf.for
// CHECK:       nvgpu.device_async_wait %{{.*}} {numGroups = 0 : i32}
// CHECK:       scf.for
// CHECK-NOT:   nvgpu.device_async_wait
// CHECK:       else
#workgroup = #gpu.address_space<workgroup>
gpu.module @kernels {
  gpu.func @nest(%A: memref<?x64xf32> {llvm.noalias}, %D: memref<?x64xf32> {llvm.noalias}, %n: index)
      workgroup(%s: memref<64xf32, #workgroup> {llvm.align = 16 : i64})
      kernel attributes {known_block_size = array<i32: 16, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c15 = arith.constant 15 : index
    %c16 = arith.constant 16 : index
    %c64 = arith.constant 64 : index
    %zero = arith.constant 0.0 : f32
    %tid = gpu.thread_id x
    %t4 = arith.muli %tid, %c4 : index
    %o = arith.subi %c15, %tid : index
    %r = scf.for %k = %c0 to %n step %c1 iter_args(%acc = %zero) -> f32 {
      %cp = nvgpu.device_async_copy %A[%k, %t4], %s[%t4], 4 {bypassL1} : memref<?x64xf32> to memref<64xf32, #workgroup>
      %g = nvgpu.device_async_create_group %cp
      nvgpu.device_async_wait %g
      gpu.barrier
      %sum = scf.for %j = %c0 to %c64 step %c16 iter_args(%in = %acc) -> f32 {
        %x = arith.addi %j, %o : index
        %v = memref.load %s[%x] : memref<64xf32, #workgroup>
        %w = arith.addf %in, %v : f32
        memref.store %w, %D[%k, %x] : memref<?x64xf32>
        scf.yield %w : f32
      } {async_pipe.stage = [0, 1]}
      gpu.barrier
      scf.yield %sum : f32
    } {async_pipe.stage = [0, 2, 3, 3], async_pipe.order = [0, 2, 1, 3], async_pipe.async_stages = [0]}
    gpu.return
  }
}
