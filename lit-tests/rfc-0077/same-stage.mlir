// A consumer of async copies in the copies' own stage: the group is committed, then waited for, all
// in one step, and only a count of 0 is right.
// RUN: async-pipe-opt %s --async-pipe | FileCheck %s

// The array lists stages: every statement of stage 0 is async, so the reader becomes a scope with a
// group of its own, which the products wait for two steps later.
// CHECK-LABEL: func.func @by_stage
// CHECK:         scf.for
// CHECK:           %[[COPIES:.*]] = nvgpu.device_async_create_group
// CHECK:           "async_pipe.wait_queue"{{.*}}{count = 2 : i64, queue = 0 : i64}
// CHECK:           nvgpu.device_async_wait %[[COPIES]] {numGroups = 0 : i32}
// CHECK-NEXT:      "async_pipe.scope"
// CHECK:           "async_pipe.commit_queue"
// CHECK:           scf.yield
// CHECK-NOT:     nvgpu.device_async_wait
// CHECK:         return
#shared = #gpu.address_space<workgroup>
func.func @by_stage(%A : memref<128x2xf32> {llvm.noalias},
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
  } {async_pipe.stage = array<i64: 0, 0, 0, 3, 3>, async_pipe.order = array<i64: 0, 1, 3, 2, 4>,
     async_pipe.async_stages = array<i64: 0>}
  return
}

// On the ops, each is marked async by itself: the reader is synchronous, and the only count is 0.
// CHECK-LABEL: func.func @by_op
// CHECK:         scf.for
// CHECK:           %[[COPIES:.*]] = nvgpu.device_async_create_group
// CHECK-NOT:       wait
// CHECK:           memref.store %{{.*}}, %arg2[%{{.*}}, %c0]
// CHECK:           nvgpu.device_async_wait %[[COPIES]] {numGroups = 0 : i32}
// CHECK-NEXT:      memref.load
// CHECK:           scf.yield
// CHECK-NOT:     wait
// CHECK:         return
func.func @by_op(%A : memref<128x2xf32> {llvm.noalias},
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
    %copy_a = nvgpu.device_async_copy %A[%k, %c0], %A_shared[%c0], 2 {async_pipe.stage = 0 : i64, async_pipe.order = 0 : i64, async_pipe.async}
      : memref<128x2xf32> to memref<2xf32, #shared>
    %copy_b = nvgpu.device_async_copy %B[%k, %c0], %B_shared[%c0], 2 {async_pipe.stage = 0 : i64, async_pipe.order = 1 : i64, async_pipe.async}
      : memref<128x2xf32> to memref<2xf32, #shared>
    scf.execute_region no_inline {
      %a = memref.load %A_shared[%c0] : memref<2xf32, #shared>
      memref.store %a, %A_local[%c0] : memref<2xf32>
      %b = memref.load %B_shared[%c0] : memref<2xf32, #shared>
      memref.store %b, %B_local[%c0] : memref<2xf32>
      scf.yield
    } {async_pipe.stage = 0 : i64, async_pipe.order = 3 : i64}
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
    } {async_pipe.stage = 3 : i64, async_pipe.order = 2 : i64}
    scf.execute_region no_inline {
      %x = memref.load %A_local[%c1] : memref<2xf32>
      %y = memref.load %B_local[%c1] : memref<2xf32>
      %product = arith.mulf %x, %y : f32
      memref.store %product, %C[%k, %c1] : memref<128x2xf32>
      scf.yield
    } {async_pipe.stage = 3 : i64, async_pipe.order = 4 : i64}
  }
  return
}
