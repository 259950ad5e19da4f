// REQUIRES: bindings-flydsl
// RUN: async-pipe-opt %S/../to-nvvm/masked-loop.mlir --async-pipe --target=rocdl:gfx950 --emit=isa | FileCheck %s

// The ragged loop of to-nvvm/masked-loop.mlir: its masks become comparisons of lanes, in the
// pipeline and in the loop for short trips. Lanes whose vector is cut off store for themselves, so
// the back end cannot count the copies and waits for all of them.

// CHECK-LABEL: ragged:
// CHECK:         global_load_lds_dwordx4
// CHECK:         s_waitcnt vmcnt(0)
