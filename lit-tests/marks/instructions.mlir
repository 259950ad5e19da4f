// REQUIRES: bindings-flydsl
//
// The waits of a hand-written pipeline in the instructions: one copy a mark, so vmcnt is the count
// (more where stores of the loop are in flight too).
//
// RUN: async-pipe-opt %S/../../examples/handwritten/amd_software_pipeline.mlir --target=rocdl:gfx942 --emit=isa | FileCheck %s
// RUN: async-pipe-opt %S/../../examples/handwritten/amd_software_pipeline.mlir --target=rocdl:gfx950 --emit=isa | FileCheck %s

// CHECK: .amdgcn_target
// CHECK-COUNT-3: global_load_lds_dword
// CHECK: ; async_pipe.wait 0
// CHECK-NOT: vmcnt(0)
// CHECK: s_waitcnt vmcnt(2)
// CHECK: ; async_pipe.wait 3
// CHECK: s_waitcnt vmcnt({{[0-9]}})
// CHECK-NOT: llvm.amdgcn
