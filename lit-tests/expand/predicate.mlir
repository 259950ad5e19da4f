// A predicated pipeline is one loop: copies of iterations that do not exist read nothing,
// commits stay unconditional, so the wait has the steady count in every step.
// RUN: async-pipe-opt %s --async-pipe | FileCheck %s

// CHECK-LABEL: func.func @predicated_epilogue
// CHECK:       scf.if
// CHECK:         scf.for
// CHECK:           nvgpu.device_async_wait %{{.*}} {numGroups = 1 : i32}
// CHECK:           %[[IN:.*]] = arith.cmpi slt
// CHECK:           %[[SIZE:.*]] = arith.select %[[IN]], %{{.*}}, %{{.*}} : index
// CHECK-NEXT:      nvgpu.device_async_copy %{{.*}}, %{{.*}}, 4, %[[SIZE]]
// CHECK-NEXT:      nvgpu.device_async_create_group
// CHECK:           scf.yield
// What says nothing about pipelines stays on the loop.
// CHECK-NEXT:    } {my.note = "kept"}
// CHECK-NOT:     memref.load
// CHECK:       } else {
func.func @predicated_epilogue(%A: memref<?xf32> {llvm.noalias}, %C: memref<?xf32> {llvm.noalias}, %n: index) {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %tile = memref.alloc() {alignment = 16 : i64} : memref<4xf32, #gpu.address_space<workgroup>>
  scf.for %i = %c0 to %n step %c4 {
    %copy = nvgpu.device_async_copy %A[%i], %tile[%c0], 4 : memref<?xf32> to memref<4xf32, #gpu.address_space<workgroup>>
    %group = nvgpu.device_async_create_group %copy
    nvgpu.device_async_wait %group
    %v = memref.load %tile[%c0] : memref<4xf32, #gpu.address_space<workgroup>>
    memref.store %v, %C[%i] : memref<?xf32>
  } {async_pipe.num_stages = 3 : i64, async_pipe.epilogue = "predicate", my.note = "kept"}
  return
}

// The whole pipeline for any trip count, without a copy of the loop for short ones.
// CHECK-LABEL: func.func @predicated_short_trips
// CHECK-NOT:   scf.if %{{.*}} {
// CHECK:       nvgpu.device_async_copy %{{.*}}, %{{.*}}, 4, %{{.*}} :
// CHECK:       scf.for
// CHECK:         nvgpu.device_async_wait %{{.*}} {numGroups = 1 : i32}
// CHECK:       }
// CHECK:       nvgpu.device_async_wait %{{.*}} {numGroups = 0 : i32}
// CHECK-NEXT:  return
func.func @predicated_short_trips(%A: memref<?xf32> {llvm.noalias}, %C: memref<?xf32> {llvm.noalias}, %n: index) {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %tile = memref.alloc() {alignment = 16 : i64} : memref<4xf32, #gpu.address_space<workgroup>>
  scf.for %i = %c0 to %n step %c4 {
    %copy = nvgpu.device_async_copy %A[%i], %tile[%c0], 4 : memref<?xf32> to memref<4xf32, #gpu.address_space<workgroup>>
    %group = nvgpu.device_async_create_group %copy
    nvgpu.device_async_wait %group
    %v = memref.load %tile[%c0] : memref<4xf32, #gpu.address_space<workgroup>>
    memref.store %v, %C[%i] : memref<?xf32>
  } {async_pipe.num_stages = 3 : i64, async_pipe.short_trip = "predicate"}
  return
}

// Work that is no copy stands in a branch; its value in iterations that do not exist is 0.
// CHECK-LABEL: func.func @predicated_statements
// CHECK:       scf.for
// CHECK:         %[[IN:.*]] = arith.cmpi slt
// CHECK:         %[[V:.*]] = scf.if %[[IN]] -> (f32) {
// CHECK-NEXT:      memref.load
// CHECK-NEXT:      scf.yield
// CHECK-NEXT:    } else {
func.func @predicated_statements(%A: memref<?xf32> {llvm.noalias}, %C: memref<?xf32> {llvm.noalias}, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    %v = memref.load %A[%i] : memref<?xf32>
    memref.store %v, %C[%i] : memref<?xf32>
  } {async_pipe.stage = [0, 1], async_pipe.epilogue = "predicate", async_pipe.short_trip = "assume"}
  return
}
