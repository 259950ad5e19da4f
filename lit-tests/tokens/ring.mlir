// RUN: async-pipe-opt %s --async-pipe-tokens | FileCheck %s
// RUN: async-pipe-opt %s --async-pipe-tokens --async-pipe-count-waits | FileCheck %s

// CHECK-LABEL: func.func @ring
func.func @ring(%n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // CHECK: %[[A:.*]] = nvgpu.device_async_create_group
  nvvm.cp.async.commit.group
  // CHECK: scf.for {{.*}} iter_args(%[[X:.*]] = %[[A]])
  scf.for %i = %c0 to %n step %c1 {
    // CHECK: %[[T:.*]] = nvgpu.device_async_create_group
    nvvm.cp.async.commit.group
    // CHECK: nvgpu.device_async_wait %[[X]] {numGroups = 1 : i32}
    nvvm.cp.async.wait.group 1
    // CHECK: scf.yield %[[T]]
  }
  return
}
