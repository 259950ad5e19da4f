// RUN: async-pipe-opt %s --async-pipe-tokens | FileCheck %s
// RUN: async-pipe-opt %s --async-pipe-tokens --async-pipe-count-waits | FileCheck %s

// Blocks take the groups that are known on every path to them as arguments.
// CHECK-LABEL: func.func @blocks
func.func @blocks(%c: i1) {
  // CHECK: %[[A:.*]] = nvgpu.device_async_create_group
  nvvm.cp.async.commit.group
  // CHECK: cf.cond_br %{{.*}}, ^bb1, ^bb2(%[[A]] : !nvgpu.device.async.token)
  cf.cond_br %c, ^more, ^end
^more:
  // CHECK: %[[B:.*]] = nvgpu.device_async_create_group
  nvvm.cp.async.commit.group
  // CHECK: cf.br ^bb2(%[[B]] : !nvgpu.device.async.token)
  cf.br ^end
  // CHECK: ^bb2(%[[X:.*]]: !nvgpu.device.async.token):
^end:
  // CHECK: nvgpu.device_async_wait %[[X]] {numGroups = 0 : i32}
  nvvm.cp.async.wait.group 0
  return
}

// CHECK-LABEL: func.func @while
func.func @while(%n: index) {
  // CHECK: %[[A:.*]] = nvgpu.device_async_create_group
  nvvm.cp.async.commit.group
  // CHECK: scf.while (%[[X:.*]] = %[[A]])
  scf.while : () -> () {
    %k = "test.truth"() : () -> i1
    // CHECK: scf.condition(%{{.*}}) %[[X]]
    scf.condition(%k)
  } do {
    // CHECK: ^bb0(%[[Y:.*]]: !nvgpu.device.async.token):
    // CHECK: %[[T:.*]] = nvgpu.device_async_create_group
    nvvm.cp.async.commit.group
    // CHECK: nvgpu.device_async_wait %[[Y]] {numGroups = 1 : i32}
    nvvm.cp.async.wait.group 1
    // CHECK: scf.yield %[[T]]
    scf.yield
  }
  return
}
