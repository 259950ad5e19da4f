// RUN: async-pipe-opt %s --async-pipe-count-waits | FileCheck %s

// CHECK-LABEL: func.func @diamond
func.func @diamond(%c: i1) {
  %a = nvgpu.device_async_create_group {async_pipe.empty}
  cf.cond_br %c, ^left, ^join(%a : !nvgpu.device.async.token)
^left:
  %b = nvgpu.device_async_create_group {async_pipe.empty}
  cf.br ^join(%a : !nvgpu.device.async.token)
^join(%x: !nvgpu.device.async.token):
  %d = nvgpu.device_async_create_group {async_pipe.empty}
  // CHECK: nvgpu.device_async_wait %{{.*}} {numGroups = 1 : i32}
  nvgpu.device_async_wait %x
  return
}

// The second branch on %c takes the same side as the first.
// CHECK-LABEL: func.func @correlated
func.func @correlated(%c: i1) {
  %a = nvgpu.device_async_create_group {async_pipe.empty}
  cf.cond_br %c, ^commit, ^join
^commit:
  %b = nvgpu.device_async_create_group {async_pipe.empty}
  cf.br ^join
^join:
  cf.cond_br %c, ^wait, ^end
^wait:
  // CHECK: nvgpu.device_async_wait %{{.*}} {numGroups = 1 : i32}
  nvgpu.device_async_wait %a
  cf.br ^end
^end:
  return
}
