// RUN: async-pipe-opt %s --async-pipe-normalise-guards | FileCheck %s
// RUN: async-pipe-opt %s --async-pipe-normalise-guards=chip=gfx950 | FileCheck %s --check-prefix=AMD

// A guarded asynchronous copy with zeros otherwise becomes a copy that fills with zeros, if its group is waited for by all before
// its memory is used. AMD's copies fill with nothing.

#wg = #gpu.address_space<workgroup>

// CHECK-LABEL: func.func @zeros
// CHECK:       scf.for
// CHECK-NOT:     scf.if
// CHECK:         %[[N:.*]] = arith.select %arg2, %c4{{.*}}, %c0{{.*}} : index
// CHECK-NEXT:    nvgpu.device_async_copy %arg0[%{{.*}}], %arg1[%{{.*}}], 4, %[[N]]
// CHECK-NOT:     vector.store
// CHECK:         nvgpu.device_async_create_group
// AMD-LABEL:   func.func @zeros
// AMD:           scf.if
func.func @zeros(%A: memref<64xf32>, %a: memref<64xf32, #wg>, %c: i1, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zeros = arith.constant dense<0.0> : vector<4xf32>
  scf.for %i = %c0 to %n step %c1 {
    scf.if %c {
      %t = nvgpu.device_async_copy %A[%i], %a[%c0], 4 : memref<64xf32> to memref<64xf32, #wg>
    } else {
      vector.store %zeros, %a[%c0] : memref<64xf32, #wg>, vector<4xf32>
    }
    %g = nvgpu.device_async_create_group
    nvgpu.device_async_wait %g
    %v = memref.load %a[%c0] : memref<64xf32, #wg>
  } {async_pipe.num_stages = 2 : i64}
  return
}

// Two copies of one group, each with a place that both arms compute.

// CHECK-LABEL: func.func @two
// CHECK:       scf.for
// CHECK-NOT:     scf.if
// CHECK:         nvgpu.device_async_copy %{{.*}}, 1, %{{.*}} :
// CHECK:         nvgpu.device_async_copy %{{.*}}, 1, %{{.*}} :
// CHECK-NOT:     memref.store
func.func @two(%A: memref<64xf32>, %a: memref<64xf32, #wg>, %c: i1, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  scf.for %i = %c0 to %n step %c1 {
    scf.if %c {
      %p = arith.addi %c1, %c1 : index
      %t = nvgpu.device_async_copy %A[%i], %a[%p], 1 : memref<64xf32> to memref<64xf32, #wg>
      %u = nvgpu.device_async_copy %A[%p], %a[%c0], 1 : memref<64xf32> to memref<64xf32, #wg>
    } else {
      %p = arith.addi %c1, %c1 : index
      memref.store %zero, %a[%p] : memref<64xf32, #wg>
      memref.store %zero, %a[%c0] : memref<64xf32, #wg>
    }
    nvvm.cp.async.commit.group
    nvvm.cp.async.wait.group 0
    %v = memref.load %a[%c0] : memref<64xf32, #wg>
  } {async_pipe.num_stages = 2 : i64}
  return
}

// CHECK-LABEL: func.func @stays
// CHECK-COUNT-6: scf.if
// CHECK-NOT:     arith.select
func.func @stays(%A: memref<64xf32>, %a: memref<64xf32, #wg>, %c: i1, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  // Zeros of fewer elements than are copied.
  scf.for %i = %c0 to %n step %c1 {
    scf.if %c {
      %t = nvgpu.device_async_copy %A[%i], %a[%c0], 4 : memref<64xf32> to memref<64xf32, #wg>
    } else {
      memref.store %zero, %a[%c0] : memref<64xf32, #wg>
    }
    nvvm.cp.async.commit.group
    nvvm.cp.async.wait.group 0
  } {async_pipe.num_stages = 2 : i64}
  // No zeros.
  scf.for %i = %c0 to %n step %c1 {
    scf.if %c {
      %t = nvgpu.device_async_copy %A[%i], %a[%c0], 1 : memref<64xf32> to memref<64xf32, #wg>
    } else {
      memref.store %one, %a[%c0] : memref<64xf32, #wg>
    }
    nvvm.cp.async.commit.group
    nvvm.cp.async.wait.group 0
  } {async_pipe.num_stages = 2 : i64}
  // Who stores zeros reads them before the wait.
  scf.for %i = %c0 to %n step %c1 {
    scf.if %c {
      %t = nvgpu.device_async_copy %A[%i], %a[%c0], 1 : memref<64xf32> to memref<64xf32, #wg>
    } else {
      memref.store %zero, %a[%c0] : memref<64xf32, #wg>
    }
    nvvm.cp.async.commit.group
    %v = memref.load %a[%c0] : memref<64xf32, #wg>
    nvvm.cp.async.wait.group 0
  } {async_pipe.num_stages = 2 : i64}
  // Who stores zeros does not wait.
  scf.for %i = %c0 to %n step %c1 {
    scf.if %c {
      %t = nvgpu.device_async_copy %A[%i], %a[%c0], 1 : memref<64xf32> to memref<64xf32, #wg>
    } else {
      memref.store %zero, %a[%c0] : memref<64xf32, #wg>
    }
    nvvm.cp.async.commit.group
    scf.if %c {
      nvvm.cp.async.wait.group 0
    }
  } {async_pipe.num_stages = 2 : i64}
  // The wait is for groups before it.
  scf.for %i = %c0 to %n step %c1 {
    scf.if %c {
      %t = nvgpu.device_async_copy %A[%i], %a[%c0], 1 : memref<64xf32> to memref<64xf32, #wg>
    } else {
      memref.store %zero, %a[%c0] : memref<64xf32, #wg>
    }
    nvvm.cp.async.commit.group
    nvvm.cp.async.wait.group 1
  } {async_pipe.num_stages = 2 : i64}
  return
}
