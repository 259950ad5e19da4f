// How many threads a block has is promised where the kernel does not say it: two threads meet in blocks of more than 128.
// RUN: async-pipe-opt %s --async-pipe-check --check-only 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: async-pipe-opt %s --async-pipe-check=assume-block-size=128 --check-only 2>&1 | FileCheck %s --check-prefix=RIGHT
// RUN: async-pipe-opt %s --async-pipe-check=assume-block-size=rotate:64 --check-only 2>&1 | FileCheck %s --check-prefix=RIGHT
// RUN: not async-pipe-opt %s --async-pipe-check=assume-block-size=256 --check-only 2>&1 | FileCheck %s --check-prefix=WRONG
// RUN: not async-pipe-opt %s --async-pipe-check=assume-block-size=other:64 --check-only 2>&1 | FileCheck %s --check-prefix=UNUSED
// RUN: not async-pipe-opt %s --async-pipe-check=assume-block-size=none --check-only 2>&1 | FileCheck %s --check-prefix=BAD

// UNKNOWN: block-size.mlir:{{[0-9]+}}:3: warning: {{.*}} (block-size) [unknown-hazard]
// UNKNOWN: note: say how many threads a block has: `.reqntid`, `known_block_size` on the kernel, or assume-block-size=128
// RIGHT: proven: 3 accesses in 1 kernel
// WRONG: error: 'llvm.store' of two threads writes to one place at once
// UNUSED: error: no kernel of unknown size is meant by 'other' of assume-block-size [unused-size]
// UNUSED: note: the kernels are: rotate
// BAD: error: 'none' of assume-block-size is no size of a block [bad-option-value]

llvm.mlir.global internal @tile() {addr_space = 3 : i32} : !llvm.array<512 x i8>
llvm.func @rotate(%out: !llvm.ptr<1>) attributes {nvvm.kernel} {
  %c1 = arith.constant 1 : i32
  %c127 = arith.constant 127 : i32
  %t = nvvm.read.ptx.sreg.tid.x : i32
  %tile = llvm.mlir.addressof @tile : !llvm.ptr<3>
  %mine = arith.andi %t, %c127 : i32
  %to = llvm.getelementptr %tile[%mine] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
  llvm.store %t, %to : i32, !llvm.ptr<3>
  nvvm.barrier
  %t1 = arith.addi %t, %c1 : i32
  %theirs = arith.andi %t1, %c127 : i32
  %from = llvm.getelementptr %tile[%theirs] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
  %v = llvm.load %from : !llvm.ptr<3> -> i32
  %where = llvm.getelementptr %out[%t] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
  llvm.store %v, %where : i32, !llvm.ptr<1>
  llvm.return
}
