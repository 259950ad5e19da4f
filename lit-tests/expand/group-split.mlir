// Two copies of one group of the input become two groups where what stands between them reads what
// they write, and stay one group where it touches other memory only.
// RUN: async-pipe-opt %s --verify-diagnostics --async-pipe-schedule --async-pipe-expand
// RUN: async-pipe-opt %s --async-pipe-schedule --async-pipe-expand | FileCheck %s

#wg = #gpu.address_space<workgroup>
// CHECK-LABEL: func.func @split
// CHECK:         scf.for
// CHECK:           %[[FIRST:.*]] = nvgpu.device_async_copy
// CHECK-NEXT:      nvgpu.device_async_create_group %[[FIRST]]
// CHECK:           memref.store
// CHECK:           %[[SECOND:.*]] = nvgpu.device_async_copy
// CHECK-NEXT:      nvgpu.device_async_create_group %[[SECOND]]
// CHECK:           scf.yield
func.func @split(%A : memref<64xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %S = memref.alloca() : memref<4xf32, #wg>
  %T = memref.alloca() : memref<4xf32, #wg>
  scf.for %i = %c0 to %c16 step %c1 {
    // expected-remark @below {{a group of the input became 2: its copies are not in one stage, or share memory with each other or with what is between them [group-split]}}
    %s = nvgpu.device_async_copy %A[%i], %S[%c0], 4 : memref<64xf32> to memref<4xf32, #wg>
    // expected-note @below {{another part starts here}}
    %t = nvgpu.device_async_copy %A[%i], %T[%c0], 4 : memref<64xf32> to memref<4xf32, #wg>
    %group = nvgpu.device_async_create_group %s, %t
    nvgpu.device_async_wait %group
    scf.execute_region no_inline {
      %x = memref.load %S[%c0] : memref<4xf32, #wg>
      %y = memref.load %T[%c0] : memref<4xf32, #wg>
      %z = arith.addf %x, %y : f32
      memref.store %z, %C[%i] : memref<16xf32>
      scf.yield
    }
  } {async_pipe.stage = [0, 0, 2], async_pipe.order = [0, 2, 1], async_pipe.async_stages = [0]}
  return
}

// CHECK-LABEL: func.func @kept
// CHECK:         scf.for
// CHECK:           %[[FIRST:.*]] = nvgpu.device_async_copy
// CHECK:           memref.store
// CHECK:           %[[SECOND:.*]] = nvgpu.device_async_copy
// CHECK-NEXT:      nvgpu.device_async_create_group %[[FIRST]], %[[SECOND]]
// CHECK-NOT:       nvgpu.device_async_create_group
// CHECK:           scf.yield
func.func @kept(%A : memref<64xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %S = memref.alloca() : memref<4xf32, #wg>
  %T = memref.alloca() : memref<4xf32, #wg>
  %own = memref.alloca() : memref<1xf32>
  scf.for %i = %c0 to %c16 step %c1 {
    %s = nvgpu.device_async_copy %A[%i], %S[%c0], 4 : memref<64xf32> to memref<4xf32, #wg>
    %t = nvgpu.device_async_copy %A[%i], %T[%c0], 4 : memref<64xf32> to memref<4xf32, #wg>
    %group = nvgpu.device_async_create_group %s, %t
    nvgpu.device_async_wait %group
    %x = memref.load %S[%c0] : memref<4xf32, #wg>
    %y = memref.load %T[%c0] : memref<4xf32, #wg>
    %z = arith.addf %x, %y : f32
    memref.store %z, %own[%c0] : memref<1xf32>
    %w = memref.load %own[%c0] : memref<1xf32>
    memref.store %w, %C[%i] : memref<16xf32>
  } {async_pipe.stage = [0, 0, 2, 2, 2, 2, 2], async_pipe.order = [2, 4, 0, 1, 3, 5, 6],
     async_pipe.async_stages = [0]}
  return
}
