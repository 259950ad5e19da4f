// --explain says what bounds the interval: the thread, a queue, a recurrence, or the stages allowed.
// RUN: async-pipe-opt %s --split-input-file --async-pipe-schedule --explain 2>&1 >/dev/null | FileCheck %s
// RUN: async-pipe-opt %s --split-input-file --async-pipe-schedule --cost=throughput.cp.async=0.01 --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=QUEUE
// RUN: async-pipe-opt %s --split-input-file --async-pipe-schedule=max-stages=2 --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=STAGES
// RUN: async-pipe-opt %s --split-input-file --async-pipe-schedule --smem-limit=4 --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=MEMORY

#wg = #gpu.address_space<workgroup>

// 4 bytes at 0.01 a cycle are a turn of 400 cycles.
// CHECK:      remark: 300 cycles between iterations, bound by the thread, which is never idle; 3 stages, 8 bytes of workgroup memory [latency-schedule]
// CHECK:      note: 'memref.load' takes 20 cycles
// CHECK:      note: 'memref.store' takes 280 cycles
// CHECK:      note: 'nvgpu.device_async_copy' in stage 0, order 1, async, 500 cycles
// QUEUE:      remark: 400 cycles between iterations, bound by the queue 'cp.async', which is never idle; {{.*}} [latency-schedule]
// QUEUE:      note: 'nvgpu.device_async_copy' takes 900 cycles
// STAGES:     remark: 400 cycles between iterations, bound by the latency of 'nvgpu.device_async_copy', which 2 stages cannot hide; 2 stages, 8 bytes of workgroup memory [latency-schedule]
// MEMORY:     remark: 2 stages and 520 cycles between iterations instead of 3 and 300: those would need 8 bytes of workgroup memory, the limit is 4 [stages-reduced]
// MEMORY:     remark: 520 cycles between iterations, bound by the latency of 'nvgpu.device_async_copy', which the stages that fit into 4 bytes of workgroup memory cannot hide
func.func @thread(%A : memref<64xf32> {llvm.noalias}, %C : memref<64xf32> {llvm.noalias}) {
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

// -----

#wg = #gpu.address_space<workgroup>

// The copy reads what was stored two iterations before: (500 + 20 + 80) / 2.
// CHECK:      remark: 300 cycles between iterations, bound by a recurrence over 2 iterations; 2 stages, {{.*}} [latency-schedule]
// CHECK-DAG:  note: 'nvgpu.device_async_copy' takes 500 cycles
// CHECK-DAG:  note: 'memref.load' takes 20 cycles
// CHECK-DAG:  note: 'memref.store' takes 80 cycles
func.func @recurrence(%A : memref<66xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c64 = arith.constant 64 : index
  %tile = memref.alloca() : memref<1xf32, #wg>
  scf.for %i = %c0 to %c64 step %c1 {
    %copy = nvgpu.device_async_copy %A[%i], %tile[%c0], 1 {async_pipe.latency = 500 : i64} : memref<66xf32> to memref<1xf32, #wg>
    %v = memref.load %tile[%c0] {async_pipe.latency = 20 : i64} : memref<1xf32, #wg>
    %next = arith.addi %i, %c2 : index
    memref.store %v, %A[%next] {async_pipe.latency = 80 : i64} : memref<66xf32>
  }
  return
}

// -----

// Nothing is asynchronous here: the loop stays as it is.
// CHECK:      warning: 50 cycles between iterations, bound by the thread, which is never idle; 1 stage: the loop stays as it is [nothing-to-overlap]
func.func @synchronous(%A : memref<64xf32> {llvm.noalias}, %C : memref<64xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  scf.for %i = %c0 to %c64 step %c1 {
    %v = memref.load %A[%i] {async_pipe.latency = 20 : i64} : memref<64xf32>
    memref.store %v, %C[%i] {async_pipe.latency = 30 : i64} : memref<64xf32>
  }
  return
}
