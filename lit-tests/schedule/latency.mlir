// Latencies on the ops become stages and orders: the smallest interval, then the fewest stages, then
// the fewest versions. What stands after reads the op form as ever.
// RUN: async-pipe-opt %s --async-pipe-schedule | FileCheck %s
// RUN: async-pipe-opt %s --async-pipe-schedule --async-pipe-schedule | FileCheck %s
// RUN: async-pipe-opt %s --async-pipe | FileCheck %s --check-prefix=DONE
// RUN: async-pipe-opt %s --async-pipe --async-pipe | FileCheck %s --check-prefix=DONE

#wg = #gpu.address_space<workgroup>

// 300 cycles of work hide 500 of latency over two steps. The load stands before the copy, so two
// versions are enough.
// CHECK-LABEL: func.func @copy_compute
// CHECK:         nvgpu.device_async_copy {{.*}} {async_pipe.async, async_pipe.latency = 500 : i64, async_pipe.order = 1 : i64, async_pipe.stage = 0 : i64}
// CHECK:         memref.load {{.*}}async_pipe.order = 0 : i64, async_pipe.stage = 2 : i64
// CHECK:         memref.store {{.*}}async_pipe.order = 2 : i64, async_pipe.stage = 2 : i64
// CHECK:       } {async_pipe.wait_at = "consumer"}
// A latency asks; when it has been answered it only says what the op costs.
// DONE-LABEL:  func.func @copy_compute
// DONE:          memref<2x1xf32
// DONE-NOT:      async_pipe.latency
// DONE:          scf.for
// DONE:            nvgpu.device_async_wait %{{.*}} {numGroups = 1 : i32}
// DONE:            nvgpu.device_async_copy {{.*}} {async_pipe.cycles = 500 : i64}
func.func @copy_compute(%A : memref<64xf32> {llvm.noalias}, %C : memref<64xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %tile = memref.alloca() : memref<1xf32, #wg>
  scf.for %i = %c0 to %c64 step %c1 {
    %copy = nvgpu.device_async_copy %A[%i], %tile[%c0], 1 {async_pipe.latency = 500 : i64} : memref<64xf32> to memref<1xf32, #wg>
    %v = memref.load %tile[%c0] {async_pipe.latency = 20 : i64} : memref<1xf32, #wg>
    memref.store %v, %C[%i] {async_pipe.latency = 280 : i64} : memref<64xf32>
  }
  return
}

// With barriers the waits stand together at the top of the step, where one barrier is enough.
// CHECK-LABEL: func.func @one_barrier
// CHECK:         nvgpu.device_async_copy {{.*}}async_pipe.order = 0 : i64, async_pipe.stage = 0 : i64
// CHECK:         memref.load {{.*}}async_pipe.order = 1 : i64, async_pipe.stage = 2 : i64
// CHECK:       } {async_pipe.wait_at = "iteration"}
// DONE-LABEL:  func.func @one_barrier
// DONE:          scf.for
// DONE-COUNT-1:    gpu.barrier
// DONE-NOT:        gpu.barrier
// DONE:          } {{.*}}
func.func @one_barrier(%A : memref<64x4xf32> {llvm.noalias}, %C : memref<64x4xf32> {llvm.noalias})
    attributes {known_block_size = array<i32: 4, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c64 = arith.constant 64 : index
  %t = gpu.thread_id x
  %other = arith.subi %c3, %t : index
  %tile = memref.alloc() : memref<4xf32, #wg>
  scf.for %i = %c0 to %c64 step %c1 {
    %copy = nvgpu.device_async_copy %A[%i, %t], %tile[%t], 1 {async_pipe.latency = 500 : i64} : memref<64x4xf32> to memref<4xf32, #wg>
    %group = nvgpu.device_async_create_group %copy
    nvgpu.device_async_wait %group
    gpu.barrier
    %v = memref.load %tile[%other] {async_pipe.latency = 20 : i64} : memref<4xf32, #wg>
    memref.store %v, %C[%i, %t] {async_pipe.latency = 280 : i64} : memref<64x4xf32>
    gpu.barrier
  }
  return
}

// A load and the store of its value are one asynchronous copy; their cycles add up to 600, which
// take a third step.
// CHECK-LABEL: func.func @load_and_store
// CHECK:         memref.load {{.*}} {async_pipe.async, async_pipe.latency = 400 : i64, async_pipe.order = [[LOAD:[0-9]]] : i64, async_pipe.stage = 0 : i64}
// CHECK:         memref.store {{.*}} {async_pipe.async, async_pipe.latency = 250 : i64, async_pipe.order = {{[0-9]}} : i64, async_pipe.stage = 0 : i64}
// CHECK:         memref.load {{.*}}async_pipe.stage = 3 : i64
// DONE-LABEL:  func.func @load_and_store
// DONE:          "async_pipe.scope"()
// DONE:          }) {async_pipe.cycles = 650 : i64, queue = 0 : i64}
func.func @load_and_store(%A : memref<64xf32> {llvm.noalias}, %C : memref<64xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %tile = memref.alloca() : memref<1xf32, #wg>
  scf.for %i = %c0 to %c64 step %c1 {
    %a = memref.load %A[%i] {async_pipe.latency = 400 : i64} : memref<64xf32>
    memref.store %a, %tile[%c0] {async_pipe.latency = 250 : i64} : memref<1xf32, #wg>
    %v = memref.load %tile[%c0] {async_pipe.latency = 20 : i64} : memref<1xf32, #wg>
    memref.store %v, %C[%i] {async_pipe.latency = 280 : i64} : memref<64xf32>
  }
  return
}

// A region takes its latency as a whole; when it is dissolved its last op has it.
// CHECK-LABEL: func.func @region
// CHECK:         nvgpu.device_async_copy {{.*}}async_pipe.stage = 0 : i64
// CHECK:         } {async_pipe.latency = 600 : i64, async_pipe.order = {{[0-9]}} : i64, async_pipe.stage = 1 : i64}
// DONE-LABEL:  func.func @region
// DONE:            memref.load {{.*}}async_pipe.cycles = 0 : i64
// DONE:            memref.store {{.*}}async_pipe.cycles = 600 : i64
func.func @region(%A : memref<64xf32> {llvm.noalias}, %C : memref<64xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %tile = memref.alloca() : memref<1xf32, #wg>
  scf.for %i = %c0 to %c64 step %c1 {
    %copy = nvgpu.device_async_copy %A[%i], %tile[%c0], 1 {async_pipe.latency = 500 : i64} : memref<64xf32> to memref<1xf32, #wg>
    scf.execute_region no_inline {
      %v = memref.load %tile[%c0] : memref<1xf32, #wg>
      %e = math.exp %v : f32
      memref.store %e, %C[%i] : memref<64xf32>
      scf.yield
    } {async_pipe.latency = 600 : i64}
  }
  return
}
