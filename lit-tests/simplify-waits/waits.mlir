// RUN: async-pipe-opt %s --async-pipe-simplify-waits | FileCheck %s

gpu.module @kernels {
  // CHECK-LABEL: gpu.func @redundant
  gpu.func @redundant(%n: index) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    // CHECK-NOT: wait.group 0
    nvvm.cp.async.wait.group 0
    // CHECK: scf.for
    scf.for %i = %c0 to %n step %c1 {
      // CHECK-NEXT: nvvm.cp.async.commit.group
      nvvm.cp.async.commit.group
      // CHECK-NEXT: nvvm.cp.async.wait.group 1
      nvvm.cp.async.wait.group 3
      nvvm.cp.async.wait.group 1
    }
    gpu.return
  }

  // CHECK-LABEL: gpu.func @needed
  gpu.func @needed(%c: i1) kernel {
    nvvm.cp.async.commit.group
    // CHECK: nvvm.cp.async.wait.group 0
    scf.if %c {
      nvvm.cp.async.wait.group 0
    }
    // CHECK: nvvm.cp.async.wait.group 0
    nvvm.cp.async.wait.group 0
    gpu.return
  }
}
