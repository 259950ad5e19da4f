// Sources behind a buffer resource are copied as they are.
//
// RUN: async-pipe-opt %s --async-pipe-to-rocdl=chip=gfx950 | FileCheck %s

#wg = #gpu.address_space<workgroup>
#buffer = #amdgpu.address_space<fat_raw_buffer>
gpu.module @kernels {
  // CHECK-LABEL: gpu.func @from_buffer
  // CHECK: %[[BUFFER:.*]] = amdgpu.fat_raw_buffer_cast
  // CHECK: amdgpu.gather_to_lds async %[[BUFFER]][%{{.*}}], %{{.*}} : vector<4xf32>, memref<?xf32, #amdgpu.address_space<fat_raw_buffer>>
  gpu.func @from_buffer(%A : memref<?xf32>) workgroup(%tile : memref<256xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c4 = arith.constant 4 : index
    %t = gpu.thread_id x
    %at = arith.muli %t, %c4 : index
    %buffer = amdgpu.fat_raw_buffer_cast %A : memref<?xf32> to memref<?xf32, #buffer>
    %a = nvgpu.device_async_copy %buffer[%at], %tile[%at], 4 : memref<?xf32, #buffer> to memref<256xf32, #wg>
    %g = nvgpu.device_async_create_group %a
    nvgpu.device_async_wait %g
    gpu.return
  }
}
