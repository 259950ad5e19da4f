// The form of a copy is the chip's: one LDS address a wave on gfx9 and gfx10, one a lane on
// gfx1250.
//
// RUN: async-pipe-opt %s --async-pipe-to-rocdl=chip=gfx950 | FileCheck %s --check-prefixes=CHECK,GFX950
// RUN: async-pipe-opt %s --async-pipe-to-rocdl=chip=gfx942 | FileCheck %s --check-prefixes=CHECK,GFX942
// RUN: async-pipe-opt %s --async-pipe-to-rocdl=chip=gfx1250 | FileCheck %s --check-prefixes=CHECK,GFX1250

#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  // One copy of 16 bytes a lane; the destination is the one of the wave's first thread.
  // CHECK-LABEL: gpu.func @sixteen_bytes
  // GFX950: %[[SCALAR:.*]] = rocdl.readfirstlane
  // GFX950: %[[WAVE:.*]] = arith.index_cast %[[SCALAR]] : i32 to index
  // GFX950: %[[FIRST:.*]] = arith.muli %[[WAVE]]
  // GFX950: %[[BASE:.*]] = arith.muli %[[FIRST]], %c8
  // GFX950: amdgpu.gather_to_lds async %{{.*}}[%{{.*}}], %{{.*}}[%[[BASE]]] : vector<8xf16>
  // GFX950-NOT: amdgpu.gather_to_lds

  // Four copies of 4 bytes: lane l does a quarter of the copy of lane 16 k + l / 4.
  // GFX942-COUNT-4: amdgpu.gather_to_lds async {{.*}} : vector<2xf16>
  // GFX942-NOT: amdgpu.gather_to_lds

  // GFX1250-NOT: rocdl.readfirstlane
  // GFX1250: %[[SOURCE:.*]] = memref.memory_space_cast %{{.*}} : memref<?xf16> to memref<?xf16, #gpu.address_space<global>>
  // GFX1250: amdgpu.global_load_async_to_lds %[[SOURCE]][%[[AT:.*]]], %{{.*}}[%[[AT]]] : vector<8xf16>
  // GFX1250-NOT: amdgpu.global_load_async_to_lds
  // CHECK: gpu.return
  gpu.func @sixteen_bytes(%A : memref<?xf16>)
      workgroup(%tile : memref<2048xf16, #wg>)
      kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
    %c8 = arith.constant 8 : index
    %t = gpu.thread_id x
    %at = arith.muli %t, %c8 : index
    %copy = nvgpu.device_async_copy %A[%at], %tile[%at], 8 : memref<?xf16> to memref<2048xf16, #wg>
    gpu.return
  }

  // A block of one wave begins at LDS address 0 of the tile.
  // CHECK-LABEL: gpu.func @one_element
  // GFX942-NOT: rocdl.readfirstlane
  // GFX942: %[[ZERO:.*]] = arith.constant 0 : index
  // GFX942: amdgpu.gather_to_lds async %{{.*}}[%{{.*}}], %{{.*}}[%[[ZERO]]] : f32
  gpu.func @one_element(%A : memref<?xf32>)
      workgroup(%tile : memref<64xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %t = gpu.thread_id x
    %copy = nvgpu.device_async_copy %A[%t], %tile[%t], 1 : memref<?xf32> to memref<64xf32, #wg>
    gpu.return
  }
}
