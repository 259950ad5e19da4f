// RUN: async-pipe-opt %S/../../examples/copy_compute.mlir --async-pipe --target=nvvm:sm_80 --emit=ptx | FileCheck %s
// REQUIRES: bindings-numba-cuda-mlir

// A load and a store of an async stage become one cp.async, also where the stage is abstract:
// the kernel leaves one group in flight, the epilogue none.

// CHECK-LABEL: .entry copy_compute(
// CHECK:         cp.async.ca.shared.global {{.*}}, 4
// CHECK:         cp.async.commit_group
// CHECK:         cp.async.wait_group 1
// CHECK:         cp.async.wait_group 0
