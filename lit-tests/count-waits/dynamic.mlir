// RUN: async-pipe-opt %s --async-pipe-count-waits=mode=dynamic | FileCheck %s
// RUN: async-pipe-opt %s --async-pipe-count-waits=mode=dynamic --async-pipe-count-waits=mode=dynamic | FileCheck %s

// The number of its group travels beside a token that a loop carries.
// CHECK-LABEL: func.func @loop
func.func @loop(%n: index, %c: i1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // CHECK: %[[ONE:.*]] = arith.constant 1 : index
  // CHECK: %[[A:.*]] = nvgpu.device_async_create_group
  %a = nvgpu.device_async_create_group {async_pipe.empty}
  // CHECK: scf.for {{.*}} iter_args(%[[X:.*]] = %[[A]], %[[COUNT:.*]] = %[[ONE]], %[[NUMBER:.*]] = %[[ONE]])
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a) -> (!nvgpu.device.async.token) {
    // CHECK: %[[INSIDE:.*]] = scf.if
    // CHECK: scf.yield %{{.*}} : index
    // CHECK: } else {
    // CHECK: scf.yield %[[COUNT]] : index
    scf.if %c {
      %t = nvgpu.device_async_create_group {async_pipe.empty}
    }
    // CHECK: %[[AGE:.*]] = arith.subi %[[INSIDE]], %[[NUMBER]]
    // CHECK: %[[CLAMPED:.*]] = arith.minsi %[[AGE]]
    // CHECK: scf.index_switch %[[CLAMPED]]
    // CHECK: case 1 {
    // CHECK-NEXT: nvvm.cp.async.wait.group 1
    // CHECK: default {
    // CHECK-NEXT: nvvm.cp.async.wait.group 0
    nvgpu.device_async_wait %x
    // CHECK: %[[T:.*]] = nvgpu.device_async_create_group
    // CHECK: %[[NEXT:.*]] = arith.addi %[[INSIDE]]
    %t = nvgpu.device_async_create_group {async_pipe.empty}
    // CHECK: scf.yield %[[T]], %[[NEXT]], %[[NEXT]]
    scf.yield %t : !nvgpu.device.async.token
  }
  return
}

// CHECK-LABEL: func.func @blocks
func.func @blocks(%c: i1) {
  %a = nvgpu.device_async_create_group {async_pipe.empty}
  // CHECK: cf.cond_br %{{.*}}, ^bb1, ^bb2(%[[N:.*]] : index)
  cf.cond_br %c, ^more, ^end
^more:
  %t = nvgpu.device_async_create_group {async_pipe.empty}
  cf.br ^end
  // CHECK: ^bb2(%[[M:.*]]: index):
^end:
  // CHECK: arith.subi %[[M]], %[[N]]
  // CHECK: scf.index_switch
  nvgpu.device_async_wait %a
  return
}
