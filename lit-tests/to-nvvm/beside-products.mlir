// RUN: async-pipe-opt %s --async-pipe-to-nvvm=chip=sm_90a --split-input-file | FileCheck %s
// RUN: async-pipe-opt %s --target=nvvm:sm_90a --emit=ptx --split-input-file | FileCheck %s --check-prefix=PTX
// REQUIRES: bindings-numba-cuda-mlir

// Exponentials that were written beside a product stay there: what sums them up is named before the wait.

// CHECK-LABEL: llvm.func @softmax
// CHECK:       nvvm.wgmma.wait.group.sync.aligned 1
// CHECK:       %[[SUM:.*]] = llvm.fadd
// CHECK:       %[[BITS:.*]] = llvm.bitcast %[[SUM]] : f32 to i32
// CHECK-NEXT:  llvm.inline_asm has_side_effects "{ .reg .pred p; setp.eq.b32 p, $0, -1; @p pmevent 0; }", "r" %[[BITS]]
// CHECK-NEXT:  nvvm.wgmma.wait.group.sync.aligned 0
// PTX-LABEL:   .entry softmax
// PTX:         wgmma.wait_group.sync.aligned 1;
// PTX:         ex2
// PTX:         pmevent
// PTX:         wgmma.wait_group.sync.aligned 0;
gpu.module @kernels {
  gpu.func @softmax(%m : memref<2xf32>) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %x = memref.load %m[%c0] : memref<2xf32>
    %y = memref.load %m[%c1] : memref<2xf32>
    nvvm.wgmma.commit.group.sync.aligned
    nvvm.wgmma.commit.group.sync.aligned
    nvvm.wgmma.wait.group.sync.aligned 1
    %a = nvvm.ex2 %x {ftz = true} : f32
    %b = nvvm.ex2 %y {ftz = true} : f32
    %sum = arith.addf %a, %b : f32
    nvvm.wgmma.wait.group.sync.aligned 0
    memref.store %sum, %m[%c0] : memref<2xf32>
    gpu.return
  }
}

// -----

// What is stored before the wait stays before it anyway.

// CHECK-LABEL: llvm.func @stored
// CHECK-NOT:   llvm.inline_asm
// PTX-LABEL:   .entry stored
// PTX-NOT:     pmevent
gpu.module @kernels {
  gpu.func @stored(%m : memref<2xf32>) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : index
    %x = memref.load %m[%c0] : memref<2xf32>
    nvvm.wgmma.commit.group.sync.aligned
    %a = nvvm.ex2 %x {ftz = true} : f32
    memref.store %a, %m[%c0] : memref<2xf32>
    nvvm.wgmma.wait.group.sync.aligned 0
    gpu.return
  }
}
