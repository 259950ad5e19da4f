// RUN: async-pipe-opt %s --async-pipe-barriers --split-input-file --verify-diagnostics

gpu.module @kernels {
  gpu.func @inside_one_branch(%from: memref<?xf32>, %to: memref<?xf32> {llvm.noalias})
      workgroup(%tile: memref<128xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64})
      kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c63 = arith.constant 63 : index
    %c64 = arith.constant 64 : index
    %tid = gpu.thread_id x
    %other = arith.subi %c63, %tid : index
    %low = arith.cmpi ult, %tid, %c64 : index
    scf.if %low {
      // expected-note @+1 {{because of what this does in another thread}}
      %copy = nvgpu.device_async_copy %from[%tid], %tile[%tid], 1 : memref<?xf32> to memref<128xf32, #gpu.address_space<workgroup>>
      %group = nvgpu.device_async_create_group %copy
      nvgpu.device_async_wait %group
      // expected-error @+1 {{'memref.load' needs a barrier before it, but threads may disagree on whether they get there [divergent-barrier]}}
      %v = memref.load %tile[%other] : memref<128xf32, #gpu.address_space<workgroup>>
      memref.store %v, %to[%tid] : memref<?xf32>
    }
    gpu.return
  }
}
