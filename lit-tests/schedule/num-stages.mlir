// num_stages = S: copies and what they depend on first in order and in stage 0, or a stage after the
// load of their index, the rest in stage
// S - 1, one wait an iteration. One stage leaves the loop as it is.
// RUN: async-pipe-opt %s --async-pipe-schedule | FileCheck %s
// RUN: async-pipe-opt %s --verify-diagnostics --async-pipe-schedule

#wg = #gpu.address_space<workgroup>
// CHECK-LABEL: func.func @copy_after_its_consumer
// CHECK:         memref.store %{{.*}} {async_pipe.order = 2 : i64, async_pipe.stage = 2 : i64}
// CHECK:         memref.load %{{.*}} {async_pipe.order = 0 : i64, async_pipe.stage = 0 : i64}
// CHECK-NEXT:    nvgpu.device_async_copy %{{.*}} {async_pipe.async, async_pipe.order = 1 : i64, async_pipe.stage = 1 : i64}
// CHECK:       } {async_pipe.else_registers = 3 : i64, async_pipe.wait_at = "iteration"}
func.func @copy_after_its_consumer(%A : memref<64xf32>, %rows : memref<16xindex>,
                                    %C : memref<16xf32> {llvm.noalias}, %x : f32) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %tile = memref.alloca() : memref<4xf32, #wg>
  scf.for %i = %c0 to %c16 step %c1 {
    memref.store %x, %C[%i] : memref<16xf32>
    %row = memref.load %rows[%i] : memref<16xindex>
    %copy = nvgpu.device_async_copy %A[%row], %tile[%c0], 4 : memref<64xf32> to memref<4xf32, #wg>
    %group = nvgpu.device_async_create_group %copy
    nvgpu.device_async_wait %group
    %t = memref.load %tile[%c0] : memref<4xf32, #wg>
    memref.store %t, %C[%i] : memref<16xf32>
  } {async_pipe.num_stages = 3}
  return
}

// CHECK-LABEL: func.func @one_stage
// CHECK-NOT:     async_pipe
func.func @one_stage(%A : memref<64xf32>, %C : memref<16xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %tile = memref.alloca() : memref<4xf32, #wg>
  // expected-remark @below {{one stage needs no pipelining; the loop stays as it is [one-stage]}}
  scf.for %i = %c0 to %c16 step %c1 {
    %copy = nvgpu.device_async_copy %A[%i], %tile[%c0], 4 : memref<64xf32> to memref<4xf32, #wg>
    %group = nvgpu.device_async_create_group %copy
    nvgpu.device_async_wait %group
    %t = memref.load %tile[%c0] : memref<4xf32, #wg>
    memref.store %t, %C[%i] : memref<16xf32>
  } {async_pipe.num_stages = 1}
  return
}
