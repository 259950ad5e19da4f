// Producers under a condition. The condition goes into the async scope, or stands around the copy;
// the commit stands after it, so every iteration has its group and the counts stay exact, in the
// epilogue too, instead of a flush.
// RUN: async-pipe-opt %s --split-input-file --async-pipe | FileCheck %s

// The write and the read have the same condition: that proves that no iteration reads what
// another one wrote.
// CHECK-LABEL: func.func @scope
// CHECK:         scf.for
// CHECK:           "async_pipe.scope"
// CHECK-NEXT:        scf.if
// CHECK:           "async_pipe.commit_queue"
// CHECK:           "async_pipe.wait_queue"{{.*}}{count = 2 : i64, queue = 0 : i64}
// CHECK-NEXT:      scf.if
// CHECK:           scf.yield
// CHECK:         "async_pipe.wait_queue"{{.*}}{count = 1 : i64, queue = 0 : i64}
// CHECK:         "async_pipe.wait_queue"{{.*}}{count = 0 : i64, queue = 0 : i64}
// CHECK:         return
func.func @scope(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias},
                 %n : index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %B = memref.alloca() : memref<1xf32>
  scf.for %i = %c0 to %c16 step %c1 {
    %inside = arith.cmpi ult, %i, %n : index
    scf.if %inside {
      %a = memref.load %A[%i] : memref<16xf32>
      memref.store %a, %B[%c0] : memref<1xf32>
    }
    scf.if %inside {
      %b = memref.load %B[%c0] : memref<1xf32>
      memref.store %b, %C[%i] : memref<16xf32>
    }
  } {async_pipe.stage = array<i64: 0, 2>, async_pipe.async_stages = array<i64: 0>}
  return
}

// -----

// CHECK-LABEL: func.func @guarded_copy
// CHECK:         %[[LOOP:.*]]:{{[0-9]+}} = scf.for
// CHECK:           scf.if
// CHECK-NEXT:        nvgpu.device_async_copy
// CHECK-NEXT:      }
// CHECK-NEXT:      nvgpu.device_async_create_group {{.*}}{async_pipe.empty}
// CHECK:           nvgpu.device_async_wait %{{.*}} {numGroups = 2 : i32}
// CHECK:           scf.yield %{{.*}} !nvgpu.device.async.token
// CHECK:         nvgpu.device_async_wait %[[LOOP]]#1 {numGroups = 1 : i32}
// CHECK:         nvgpu.device_async_wait %[[LOOP]]#0 {numGroups = 0 : i32}
// CHECK:         return
#shared = #gpu.address_space<workgroup>
func.func @guarded_copy(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias},
                        %n : index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %B = memref.alloca() : memref<1xf32, #shared>
  scf.for %i = %c0 to %c16 step %c1 {
    %inside = arith.cmpi ult, %i, %n : index
    scf.if %inside {
      %copy = nvgpu.device_async_copy %A[%i], %B[%c0], 1 : memref<16xf32> to memref<1xf32, #shared>
    }
    scf.if %inside {
      %b = memref.load %B[%c0] : memref<1xf32, #shared>
      memref.store %b, %C[%i] : memref<16xf32>
    }
  } {async_pipe.stage = array<i64: 0, 2>, async_pipe.async_stages = array<i64: 0>}
  return
}

// -----

// A producer under a condition in stage 1, which still runs in the first step of the epilogue.
// CHECK-LABEL: func.func @in_the_epilogue
// CHECK:         scf.for
// CHECK:           "async_pipe.wait_queue"{{.*}}{count = 1 : i64, queue = 0 : i64}
// CHECK:           "async_pipe.wait_queue"{{.*}}{count = 1 : i64, queue = 1 : i64}
// CHECK:           scf.yield
// CHECK:         "async_pipe.wait_queue"{{.*}}{count = 0 : i64, queue = 0 : i64}
// CHECK:         "async_pipe.scope"
// CHECK-NEXT:      scf.if
// CHECK:         "async_pipe.commit_queue"() {queue = 1 : i64}
// CHECK:         "async_pipe.wait_queue"{{.*}}{count = 1 : i64, queue = 1 : i64}
// CHECK:         "async_pipe.wait_queue"{{.*}}{count = 0 : i64, queue = 1 : i64}
// CHECK:         return
func.func @in_the_epilogue(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias},
                           %n : index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %one = arith.constant 1.0 : f32
  %B = memref.alloca() : memref<1xf32>
  %D = memref.alloca() : memref<1xf32>
  scf.for %i = %c0 to %c16 step %c1 {
    scf.execute_region no_inline {
      %a = memref.load %A[%i] : memref<16xf32>
      memref.store %a, %B[%c0] : memref<1xf32>
      scf.yield
    }
    %inside = arith.cmpi ult, %i, %n : index
    scf.if %inside {
      %b = memref.load %B[%c0] : memref<1xf32>
      %d = arith.addf %b, %one : f32
      memref.store %d, %D[%c0] : memref<1xf32>
    }
    scf.if %inside {
      %d = memref.load %D[%c0] : memref<1xf32>
      memref.store %d, %C[%i] : memref<16xf32>
    }
  } {async_pipe.stage = array<i64: 0, 1, 2>, async_pipe.async_stages = array<i64: 0, 1>}
  return
}
