// Which box a tensor map has that is made elsewhere is promised, by the number of the argument.
// RUN: async-pipe-opt %s --async-pipe-check=assume-boxes=0=64x64xf16 --check-only 2>&1 | FileCheck %s --check-prefix=RIGHT
// RUN: not async-pipe-opt %s --async-pipe-check=assume-boxes=0=64x32xf16 --check-only 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: async-pipe-opt %s --async-pipe-check --check-only 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not async-pipe-opt %s --async-pipe-check=assume-boxes=1=64x64xf16 --check-only 2>&1 | FileCheck %s --check-prefix=UNUSED
// RUN: not async-pipe-opt %s --async-pipe-check=assume-boxes=0=64xf16 --check-only 2>&1 | FileCheck %s --check-prefix=RANK

// RIGHT: proven: 1 access in 1 kernel
// OTHER: boxes.mlir:{{[0-9]+}}:3: error: 'nvvm.mbarrier.arrive.expect_tx' announces other bytes than the copies of its phase bring [wrong-bytes]
// OTHER: note: 8192 bytes are announced, 4096 are copied: the wait never passes
// NONE: warning: cannot tell whether 'nvvm.cp.async.bulk.tensor.shared.cluster.global' races: {{.*}} (unknown-bytes) [unknown-hazard]
// NONE: note: say which box the map has: {{.*}}assume-boxes=0=128x64xf16
// UNUSED: error: no tensor copy is by the map of '1=64x64xf16' [unused-box]
// UNUSED: note: maps whose box nothing says: copy:0
// RANK: error: 'nvvm.cp.async.bulk.tensor.shared.cluster.global' cannot move a box memref<64xf16>: it has 1 dimensions, the copy 2 coordinates [bad-box]

llvm.mlir.global internal @tile() {addr_space = 3 : i32, alignment = 1024 : i64} : !llvm.array<8192 x i8>
llvm.mlir.global internal @full() {addr_space = 3 : i32, alignment = 8 : i64} : !llvm.array<8 x i8>
llvm.func @copy(%map: !llvm.ptr) attributes {nvvm.kernel, nvvm.reqntid = array<i32: 32>} {
  %zero = llvm.mlir.constant(0 : i32) : i32
  %one = llvm.mlir.constant(1 : i32) : i32
  %ticks = llvm.mlir.constant(10000 : i32) : i32
  %bytes = llvm.mlir.constant(8192 : i32) : i32
  %tid = nvvm.read.ptx.sreg.tid.x range <i32, 0, 32> : i32
  %first = llvm.icmp "eq" %tid, %zero : i32
  %full = llvm.mlir.addressof @full : !llvm.ptr<3>
  %tile = llvm.mlir.addressof @tile : !llvm.ptr<3>
  nvvm.mbarrier.init %full, %one, predicate = %first : !llvm.ptr<3>, i32, i1
  nvvm.fence.mbarrier.init
  nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
  nvvm.barrier
  nvvm.mbarrier.arrive.expect_tx %full, %bytes, predicate = %first : !llvm.ptr<3>, i32, i1
  %to = llvm.addrspacecast %tile : !llvm.ptr<3> to !llvm.ptr<7>
  nvvm.cp.async.bulk.tensor.shared.cluster.global %to, %map, %full, box[%zero, %zero] predicate = %first : !llvm.ptr<7>, !llvm.ptr
  nvvm.mbarrier.try_wait.parity %full, %zero, %ticks : !llvm.ptr<3>, i32, i32
  llvm.return
}
