// Two copies of one stage with their consumer between them: five groups may stay in flight.
// RUN: async-pipe-opt %s --async-pipe | FileCheck %s

// The prologue commits the same groups in the same order as the kernel, one a copy. With one
// joint group an iteration there, only 3 + 1 groups are committed when the kernel first waits,
// and a count of 5 waits for nothing.
// CHECK-LABEL: func.func @interleaved_producers
// CHECK-COUNT-6: nvgpu.device_async_create_group
// CHECK:         %[[LOOP:.*]]:6 = scf.for
// CHECK:           nvgpu.device_async_copy %arg0
// CHECK-NEXT:      nvgpu.device_async_create_group
// CHECK-NEXT:      nvgpu.device_async_wait %{{.*}} {numGroups = 5 : i32}
// CHECK-NEXT:      memref.load
// CHECK:           nvgpu.device_async_copy %arg1
// CHECK-NEXT:      nvgpu.device_async_create_group
// CHECK:           scf.yield
// CHECK:         nvgpu.device_async_wait %[[LOOP]]#2 {numGroups = 4 : i32}
// CHECK:         nvgpu.device_async_wait %[[LOOP]]#1 {numGroups = 2 : i32}
// CHECK:         nvgpu.device_async_wait %[[LOOP]]#0 {numGroups = 0 : i32}
// CHECK-NOT:     device_async_wait
// CHECK:         return
#shared = #gpu.address_space<workgroup>
func.func @interleaved_producers(%A : memref<16xf32> {llvm.noalias},
                                 %B : memref<16xf32> {llvm.noalias},
                                 %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %A_shared = memref.alloca() : memref<1xf32, #shared>
  %B_shared = memref.alloca() : memref<1xf32, #shared>
  scf.for %i = %c0 to %c16 step %c1 {
    %copy_a = nvgpu.device_async_copy %A[%i], %A_shared[%c0], 1
      : memref<16xf32> to memref<1xf32, #shared>
    %copy_b = nvgpu.device_async_copy %B[%i], %B_shared[%c0], 1
      : memref<16xf32> to memref<1xf32, #shared>
    scf.execute_region no_inline {
      %a = memref.load %A_shared[%c0] : memref<1xf32, #shared>
      %b = memref.load %B_shared[%c0] : memref<1xf32, #shared>
      %c = arith.mulf %a, %b : f32
      memref.store %c, %C[%i] : memref<16xf32>
      scf.yield
    }
  } {async_pipe.stage = array<i64: 0, 0, 3>, async_pipe.order = array<i64: 0, 2, 1>,
     async_pipe.async_stages = array<i64: 0>}
  return
}
