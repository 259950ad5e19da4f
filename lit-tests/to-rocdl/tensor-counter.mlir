// REQUIRES: bindings-flydsl
//
// Waits of the tensor data mover of gfx1250 are lowered where the input has them.
//
// RUN: async-pipe-opt %s --target=rocdl:gfx1250 --emit=isa | FileCheck %s

// CHECK: ; async_pipe.wait 0
// CHECK: s_wait_tensorcnt 0x1
gpu.module @kernels {
  gpu.func @wait() kernel {
    rocdl.s.wait.tensorcnt 1
    gpu.return
  }
}
