// No loop at all: four tiles, four groups, waits that count down 3, 2, 1, 0.
gpu.module @kernels {
  gpu.func @unrolled(%A: memref<4x32xf32> {llvm.noalias}, %C: memref<32xf32> {llvm.noalias})
      workgroup(%tile: memref<4x32xf32, #gpu.address_space<workgroup>>)
      kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c31 = arith.constant 31 : index
    %t = gpu.thread_id x
    %other = arith.subi %c31, %t : index
    %copy0 = nvgpu.device_async_copy %A[%c0, %t], %tile[%c0, %t], 1 : memref<4x32xf32> to memref<4x32xf32, #gpu.address_space<workgroup>>
    %group0 = nvgpu.device_async_create_group %copy0
    %copy1 = nvgpu.device_async_copy %A[%c1, %t], %tile[%c1, %t], 1 : memref<4x32xf32> to memref<4x32xf32, #gpu.address_space<workgroup>>
    %group1 = nvgpu.device_async_create_group %copy1
    %copy2 = nvgpu.device_async_copy %A[%c2, %t], %tile[%c2, %t], 1 : memref<4x32xf32> to memref<4x32xf32, #gpu.address_space<workgroup>>
    %group2 = nvgpu.device_async_create_group %copy2
    %copy3 = nvgpu.device_async_copy %A[%c3, %t], %tile[%c3, %t], 1 : memref<4x32xf32> to memref<4x32xf32, #gpu.address_space<workgroup>>
    %group3 = nvgpu.device_async_create_group %copy3
    nvgpu.device_async_wait %group0 {numGroups = 3 : i32}
    gpu.barrier
    %x0 = memref.load %tile[%c0, %other] : memref<4x32xf32, #gpu.address_space<workgroup>>
    nvgpu.device_async_wait %group1 {numGroups = 2 : i32}
    gpu.barrier
    %x1 = memref.load %tile[%c1, %other] : memref<4x32xf32, #gpu.address_space<workgroup>>
    nvgpu.device_async_wait %group2 {numGroups = 1 : i32}
    gpu.barrier
    %x2 = memref.load %tile[%c2, %other] : memref<4x32xf32, #gpu.address_space<workgroup>>
    nvgpu.device_async_wait %group3 {numGroups = 0 : i32}
    gpu.barrier
    %x3 = memref.load %tile[%c3, %other] : memref<4x32xf32, #gpu.address_space<workgroup>>
    %y0 = arith.addf %x0, %x1 : f32
    %y1 = arith.addf %x2, %x3 : f32
    %y = arith.addf %y0, %y1 : f32
    memref.store %y, %C[%t] : memref<32xf32>
    gpu.return
  }
}
