// A wait that the expander wrote after a loop goes where a later wait of the same queue comes
// before every access of what the loop left in flight; its mark goes in any case.
// RUN: async-pipe-opt %s --async-pipe-drop-drains | FileCheck %s
// RUN: async-pipe-opt %s --async-pipe-drop-drains --async-pipe-check | FileCheck %s
// RUN: async-pipe-opt %s --async-pipe-drop-drains --async-pipe-drop-drains | FileCheck %s
// RUN: async-pipe-opt %s --async-pipe-drop-drains --report=json --report-file=- -o %t 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REPORT

// One wait was dropped: the one of @retired_by_the_next_wait.
// REPORT:     "drains": [
// REPORT-NEXT:  {
// REPORT-NOT:   }, {
// REPORT:     ]

#wg = #gpu.address_space<workgroup>

gpu.module @kernels {
  // CHECK-LABEL: gpu.func @retired_by_the_next_wait
  // CHECK:         nvgpu.device_async_create_group
  // CHECK-NOT:     nvgpu.device_async_wait
  // CHECK:         nvgpu.device_async_copy
  // CHECK:         nvgpu.device_async_wait
  // CHECK-SAME:      {numGroups = 0 : i32}
  // CHECK-NEXT:    memref.load
  gpu.func @retired_by_the_next_wait(%from: memref<64xf32>, %to: memref<64xf32> {llvm.noalias})
      workgroup(%a: memref<32xf32, #wg> {llvm.align = 16 : i64},
                %b: memref<32xf32, #wg> {llvm.align = 16 : i64})
      kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %tid = gpu.thread_id x
    %first = nvgpu.device_async_copy %from[%tid], %a[%tid], 1 : memref<64xf32> to memref<32xf32, #wg>
    %g = nvgpu.device_async_create_group %first
    nvgpu.device_async_wait %g {numGroups = 0 : i32, async_pipe.drain}
    %second = nvgpu.device_async_copy %from[%tid], %b[%tid], 1 : memref<64xf32> to memref<32xf32, #wg>
    %h = nvgpu.device_async_create_group %second
    nvgpu.device_async_wait %h {numGroups = 0 : i32}
    %x = memref.load %a[%tid] : memref<32xf32, #wg>
    %y = memref.load %b[%tid] : memref<32xf32, #wg>
    %sum = arith.addf %x, %y : f32
    memref.store %sum, %to[%tid] : memref<64xf32>
    gpu.return
  }

  // The later wait leaves the younger group only, so it would do; but the read comes first.
  // CHECK-LABEL: gpu.func @read_before_the_next_wait
  // CHECK:         nvgpu.device_async_create_group
  // CHECK-NEXT:    nvgpu.device_async_wait
  // CHECK-SAME:      {numGroups = 0 : i32}
  // CHECK-NEXT:    memref.load
  gpu.func @read_before_the_next_wait(%from: memref<64xf32>, %to: memref<64xf32> {llvm.noalias})
      workgroup(%a: memref<32xf32, #wg> {llvm.align = 16 : i64},
                %b: memref<32xf32, #wg> {llvm.align = 16 : i64})
      kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %tid = gpu.thread_id x
    %first = nvgpu.device_async_copy %from[%tid], %a[%tid], 1 : memref<64xf32> to memref<32xf32, #wg>
    %g = nvgpu.device_async_create_group %first
    nvgpu.device_async_wait %g {numGroups = 0 : i32, async_pipe.drain}
    %x = memref.load %a[%tid] : memref<32xf32, #wg>
    %second = nvgpu.device_async_copy %from[%tid], %b[%tid], 1 : memref<64xf32> to memref<32xf32, #wg>
    %h = nvgpu.device_async_create_group %second
    nvgpu.device_async_wait %h {numGroups = 0 : i32}
    %y = memref.load %b[%tid] : memref<32xf32, #wg>
    %sum = arith.addf %x, %y : f32
    memref.store %sum, %to[%tid] : memref<64xf32>
    gpu.return
  }

  // Nothing reads %a, but a copy in flight where the kernel ends is a finding.
  // CHECK-LABEL: gpu.func @no_later_wait
  // CHECK:         nvgpu.device_async_create_group
  // CHECK-NEXT:    nvgpu.device_async_wait
  // CHECK-SAME:      {numGroups = 0 : i32}
  // CHECK-NEXT:    gpu.return
  gpu.func @no_later_wait(%from: memref<64xf32>)
      workgroup(%a: memref<32xf32, #wg> {llvm.align = 16 : i64})
      kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %tid = gpu.thread_id x
    %first = nvgpu.device_async_copy %from[%tid], %a[%tid], 1 : memref<64xf32> to memref<32xf32, #wg>
    %g = nvgpu.device_async_create_group %first
    nvgpu.device_async_wait %g {numGroups = 0 : i32, async_pipe.drain}
    gpu.return
  }
}
