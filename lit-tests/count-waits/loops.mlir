// RUN: async-pipe-opt %s --async-pipe-count-waits | FileCheck %s

// CHECK-LABEL: func.func @shift_register
func.func @shift_register(%n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %a = nvgpu.device_async_create_group {async_pipe.empty}
  %b = nvgpu.device_async_create_group {async_pipe.empty}
  // CHECK: scf.for {{.*}} iter_args(%[[X:.*]] = %{{.*}}, %{{.*}} = %{{.*}})
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a, %y = %b) -> (!nvgpu.device.async.token, !nvgpu.device.async.token) {
    // CHECK: nvgpu.device_async_wait %[[X]] {numGroups = 1 : i32}
    nvgpu.device_async_wait %x
    %t = nvgpu.device_async_create_group {async_pipe.empty}
    // CHECK: nvgpu.device_async_wait %[[X]] {numGroups = 2 : i32}
    nvgpu.device_async_wait %x
    scf.yield %y, %t : !nvgpu.device.async.token, !nvgpu.device.async.token
  }
  // CHECK: nvgpu.device_async_wait %{{.*}}#0 {numGroups = 1 : i32}
  // CHECK: nvgpu.device_async_wait %{{.*}}#1 {numGroups = 0 : i32}
  nvgpu.device_async_wait %r#0
  nvgpu.device_async_wait %r#1
  return
}

// CHECK-LABEL: func.func @static_trips
func.func @static_trips() {
  %c0 = arith.constant 0 : index
  %c5 = arith.constant 5 : index
  %c2 = arith.constant 2 : index
  %a = nvgpu.device_async_create_group {async_pipe.empty}
  scf.for %i = %c0 to %c5 step %c2 {
    %t = nvgpu.device_async_create_group {async_pipe.empty}
  }
  // CHECK: nvgpu.device_async_wait %{{.*}} {numGroups = 3 : i32}
  nvgpu.device_async_wait %a
  return
}
