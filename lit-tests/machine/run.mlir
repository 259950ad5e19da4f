// A function on the machine: what it leaves in its arguments, and the races that it has.

// RUN: async-pipe-opt %s --run=mirror --threads=4 --arg=zeros:4xi32 --completion=late | FileCheck %s
// RUN: not async-pipe-opt %s --run=early --threads=4 --arg=zeros:4xf32 --completion=late 2>&1 | FileCheck %s --check-prefix=RACE

// CHECK: argument 0: 4xint32, sum 6, first 3, last 0
// CHECK: races: 0

func.func @mirror(%out: memref<4xi32>) {
  %buffer = memref.alloc() : memref<4xi32, #gpu.address_space<workgroup>>
  %c3 = arith.constant 3 : index
  %thread = gpu.thread_id x
  %other = arith.subi %c3, %thread : index
  %value = arith.index_cast %thread : index to i32
  memref.store %value, %buffer[%thread] : memref<4xi32, #gpu.address_space<workgroup>>
  gpu.barrier
  %read = memref.load %buffer[%other] : memref<4xi32, #gpu.address_space<workgroup>>
  memref.store %read, %out[%thread] : memref<4xi32>
  return
}

// RACE: run.mlir:[[@LINE+7]]:{{.*}}error: 'memref.load' reads data that 'nvgpu.device_async_copy' is still writing
// RACE-SAME: [read-in-flight]
// RACE: run.mlir:[[@LINE+4]]:{{.*}}note: the other access
func.func @early(%in: memref<4xf32>) {
  %buffer = memref.alloc() : memref<4xf32, #gpu.address_space<workgroup>>
  %thread = gpu.thread_id x
  %copy = nvgpu.device_async_copy %in[%thread], %buffer[%thread], 1 : memref<4xf32> to memref<4xf32, #gpu.address_space<workgroup>>
  %read = memref.load %buffer[%thread] : memref<4xf32, #gpu.address_space<workgroup>>
  %group = nvgpu.device_async_create_group %copy
  nvgpu.device_async_wait %group
  return
}
