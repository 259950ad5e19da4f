// --check-only tells hazards or the verdict, and writes no IR; --check=warn makes them warnings.
// RUN: not async-pipe-opt %s --check-only 2>&1 | FileCheck %s --check-prefix=ERROR
// RUN: async-pipe-opt %s --check-only --check=warn 2>&1 | FileCheck %s --check-prefix=WARNING
// RUN: async-pipe-opt %s --async-pipe-check --check=warn 2>%t | FileCheck %s --check-prefix=OUTPUT
// RUN: not async-pipe-opt %s --async-pipe-check -o %t.out
// RUN: not test -e %t.out

// ERROR:       check-only.mlir:{{[0-9]+}}:{{[0-9]+}}: error:
// ERROR-NOT:   func.func
// WARNING:     check-only.mlir:{{[0-9]+}}:{{[0-9]+}}: warning:
// WARNING-NOT: error:
// WARNING:     not safe: {{[0-9]+}} of {{[0-9]+}} accesses in 1 kernel may race
// OUTPUT-LABEL: gpu.func @reads_too_early
gpu.module @kernels {
  gpu.func @reads_too_early(%from: memref<128xf32>, %to: memref<128xf32>)
      workgroup(%buffer: memref<128xf32, #gpu.address_space<workgroup>>)
      kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c4 = arith.constant 4 : index
    %lane = gpu.thread_id x
    %i = arith.muli %lane, %c4 : index
    %copy = nvgpu.device_async_copy %from[%i], %buffer[%i], 4 : memref<128xf32> to memref<128xf32, #gpu.address_space<workgroup>>
    %group = nvgpu.device_async_create_group %copy
    %v = memref.load %buffer[%i] : memref<128xf32, #gpu.address_space<workgroup>>
    memref.store %v, %to[%i] : memref<128xf32>
    nvgpu.device_async_wait %group
    gpu.return
  }
}
