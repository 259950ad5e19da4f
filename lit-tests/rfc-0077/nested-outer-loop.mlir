// The outer loop of a nested pipeline: copies three iterations ahead, the first half of a tile read
// one iteration ahead of its use. The inner pipeline is written out: its first load is the third
// statement, its kernel the fourth, its last product the fifth.
// RUN: async-pipe-opt %s --async-pipe | FileCheck %s

// Both copies share a group. The fourth statement stands before the third in a step and reads
// what is one iteration older, so that the wait for the third of the step before covers it. The
// epilogue has one wait less than steps: after step 2 nothing is in flight.
// CHECK-LABEL: func.func @outer_loop
// CHECK:         memref.alloca() : memref<4x2xf32, #gpu.address_space<workgroup>>
// CHECK:         memref.alloca() : memref<4x2xf32, #gpu.address_space<workgroup>>
// CHECK-COUNT-3: nvgpu.device_async_create_group
// CHECK-NEXT:    nvgpu.device_async_wait %{{.*}} {numGroups = 2 : i32}
// CHECK:         %[[LOOP:.*]]:{{[0-9]+}} = scf.for %{{.*}} = %c0 to %c125 step %c1
// CHECK:           nvgpu.device_async_create_group
// CHECK-NOT:       device_async_wait
// CHECK:           memref.store %{{.*}}, %arg2[%{{.*}}, %c0]
// CHECK:           nvgpu.device_async_wait %{{.*}} {numGroups = 2 : i32}
// CHECK-NEXT:      memref.load
// CHECK:           memref.store %{{.*}}, %arg2[%{{.*}}, %c1]
// CHECK:         memref.store %{{.*}}, %arg2[%c125, %c0]
// CHECK:         nvgpu.device_async_wait %[[LOOP]]#1 {numGroups = 1 : i32}
// CHECK:         memref.store %{{.*}}, %arg2[%c126, %c0]
// CHECK:         nvgpu.device_async_wait %[[LOOP]]#0 {numGroups = 0 : i32}
// CHECK:         memref.store %{{.*}}, %arg2[%c127, %c0]
// CHECK-NOT:     device_async_wait
// CHECK:         return
#shared = #gpu.address_space<workgroup>
func.func @outer_loop(%A : memref<128x2xf32> {llvm.noalias},
                      %B : memref<128x2xf32> {llvm.noalias},
                      %C : memref<128x2xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %A_shared = memref.alloca() : memref<2xf32, #shared>
  %B_shared = memref.alloca() : memref<2xf32, #shared>
  %A_local = memref.alloca() : memref<2xf32>
  %B_local = memref.alloca() : memref<2xf32>
  scf.for %k = %c0 to %c128 step %c1 {
    %copy_a = nvgpu.device_async_copy %A[%k, %c0], %A_shared[%c0], 2
      : memref<128x2xf32> to memref<2xf32, #shared>
    %copy_b = nvgpu.device_async_copy %B[%k, %c0], %B_shared[%c0], 2
      : memref<128x2xf32> to memref<2xf32, #shared>
    scf.execute_region no_inline {
      %a = memref.load %A_shared[%c0] : memref<2xf32, #shared>
      memref.store %a, %A_local[%c0] : memref<2xf32>
      %b = memref.load %B_shared[%c0] : memref<2xf32, #shared>
      memref.store %b, %B_local[%c0] : memref<2xf32>
      scf.yield
    }
    scf.execute_region no_inline {
      %a = memref.load %A_shared[%c1] : memref<2xf32, #shared>
      memref.store %a, %A_local[%c1] : memref<2xf32>
      %b = memref.load %B_shared[%c1] : memref<2xf32, #shared>
      memref.store %b, %B_local[%c1] : memref<2xf32>
      %x = memref.load %A_local[%c0] : memref<2xf32>
      %y = memref.load %B_local[%c0] : memref<2xf32>
      %product = arith.mulf %x, %y : f32
      memref.store %product, %C[%k, %c0] : memref<128x2xf32>
      scf.yield
    }
    scf.execute_region no_inline {
      %x = memref.load %A_local[%c1] : memref<2xf32>
      %y = memref.load %B_local[%c1] : memref<2xf32>
      %product = arith.mulf %x, %y : f32
      memref.store %product, %C[%k, %c1] : memref<128x2xf32>
      scf.yield
    }
  } {async_pipe.stage = array<i64: 0, 0, 2, 3, 3>, async_pipe.order = array<i64: 0, 1, 3, 2, 4>,
     async_pipe.async_stages = array<i64: 0>}
  return
}
