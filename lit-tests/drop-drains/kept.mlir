// Waits that stay whatever comes after them: without a mark, in a function whose callers see its
// memory, and in a kernel with an op of which nobody knows what it runs.
// RUN: async-pipe-opt %s --async-pipe-drop-drains --allow-unregistered-dialect | FileCheck %s

#wg = #gpu.address_space<workgroup>

// CHECK-LABEL: func.func @not_a_kernel
// CHECK-COUNT-2: nvgpu.device_async_wait {{.*}} {numGroups = 0 : i32}
// CHECK:         return
func.func @not_a_kernel(%from: memref<64xf32>, %a: memref<32xf32, #wg>, %b: memref<32xf32, #wg>)
    attributes {known_block_size = array<i32: 32, 1, 1>} {
  %tid = gpu.thread_id x
  %first = nvgpu.device_async_copy %from[%tid], %a[%tid], 1 : memref<64xf32> to memref<32xf32, #wg>
  %g = nvgpu.device_async_create_group %first
  nvgpu.device_async_wait %g {numGroups = 0 : i32, async_pipe.drain}
  %second = nvgpu.device_async_copy %from[%tid], %b[%tid], 1 : memref<64xf32> to memref<32xf32, #wg>
  %h = nvgpu.device_async_create_group %second
  nvgpu.device_async_wait %h {numGroups = 0 : i32}
  return
}

gpu.module @kernels {
  // CHECK-LABEL: gpu.func @not_marked
  // CHECK-COUNT-2: nvgpu.device_async_wait {{.*}} {numGroups = 0 : i32}
  // CHECK:         gpu.return
  gpu.func @not_marked(%from: memref<64xf32>)
      workgroup(%a: memref<32xf32, #wg> {llvm.align = 16 : i64},
                %b: memref<32xf32, #wg> {llvm.align = 16 : i64})
      kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %tid = gpu.thread_id x
    %first = nvgpu.device_async_copy %from[%tid], %a[%tid], 1 : memref<64xf32> to memref<32xf32, #wg>
    %g = nvgpu.device_async_create_group %first
    nvgpu.device_async_wait %g {numGroups = 0 : i32}
    %second = nvgpu.device_async_copy %from[%tid], %b[%tid], 1 : memref<64xf32> to memref<32xf32, #wg>
    %h = nvgpu.device_async_create_group %second
    nvgpu.device_async_wait %h {numGroups = 0 : i32}
    gpu.return
  }

  // CHECK-LABEL: gpu.func @unknown_op_with_a_region
  // CHECK-COUNT-2: nvgpu.device_async_wait {{.*}} {numGroups = 0 : i32}
  // CHECK:         gpu.return
  gpu.func @unknown_op_with_a_region(%from: memref<64xf32>)
      workgroup(%a: memref<32xf32, #wg> {llvm.align = 16 : i64},
                %b: memref<32xf32, #wg> {llvm.align = 16 : i64})
      kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %tid = gpu.thread_id x
    %first = nvgpu.device_async_copy %from[%tid], %a[%tid], 1 : memref<64xf32> to memref<32xf32, #wg>
    %g = nvgpu.device_async_create_group %first
    nvgpu.device_async_wait %g {numGroups = 0 : i32, async_pipe.drain}
    "nobody.knows"() ({
      %v = memref.load %a[%tid] : memref<32xf32, #wg>
      "nobody.ends"() : () -> ()
    }) : () -> ()
    %second = nvgpu.device_async_copy %from[%tid], %b[%tid], 1 : memref<64xf32> to memref<32xf32, #wg>
    %h = nvgpu.device_async_create_group %second
    nvgpu.device_async_wait %h {numGroups = 0 : i32}
    gpu.return
  }
}
