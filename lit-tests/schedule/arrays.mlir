// The arrays of a loop become attributes of its statements, which clean-ups do not renumber.
// RUN: async-pipe-opt %s --async-pipe-schedule | FileCheck %s
// RUN: async-pipe-opt %s --async-pipe-schedule --async-pipe-schedule | FileCheck %s

// Pure ops, groups, waits and barriers have no number: load, addf, store, barrier, load, store
// are the statements 0 to 3. A second run changes nothing.
// CHECK-LABEL: func.func @statements
// CHECK:         memref.load %{{.*}} {async_pipe.async, async_pipe.order = 2 : i64, async_pipe.stage = 0 : i64}
// CHECK-NEXT:    arith.addf %{{.*}}, %{{[a-z0-9_]*}} : f32
// CHECK-NEXT:    memref.store %{{.*}} {async_pipe.async, async_pipe.order = 3 : i64, async_pipe.stage = 0 : i64}
// CHECK-NEXT:    gpu.barrier{{$}}
// CHECK-NEXT:    memref.load %{{.*}} {async_pipe.order = 0 : i64, async_pipe.stage = 1 : i64}
// CHECK-NEXT:    memref.store %{{.*}} {async_pipe.order = 1 : i64, async_pipe.stage = 1 : i64}
// CHECK-NEXT:  } {async_pipe.wait_at = "consumer"}
func.func @statements(%A : memref<16xf32>, %B : memref<1xf32>, %C : memref<16xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %one = arith.constant 1.0 : f32
  scf.for %i = %c0 to %c16 step %c1 {
    %a = memref.load %A[%i] : memref<16xf32>
    %a1 = arith.addf %a, %one : f32
    memref.store %a1, %B[%c0] : memref<1xf32>
    gpu.barrier
    %b = memref.load %B[%c0] : memref<1xf32>
    memref.store %b, %C[%i] : memref<16xf32>
  } {async_pipe.stage = array<i64: 0, 0, 1, 1>, async_pipe.order = [2, 3, 0, 1],
     async_pipe.async_stages = [0]}
  return
}
