// RUN: async-pipe-opt %s --async-pipe-split-addresses | FileCheck %s

// Two copies add the same %k to different pointers: LLVM must not make two counters of it. The
// cast to global memory is made before the sum.
// CHECK-LABEL: llvm.func @hidden(
// CHECK-SAME:    %[[TILE:.*]]: !llvm.ptr<3>, %[[A:.*]]: !llvm.ptr, %[[ROW:.*]]: i64, %{{.*}}: i64)
// CHECK:       ^bb1(%[[K:.*]]: i64):
// CHECK:         %[[GLOBAL:.*]] = llvm.addrspacecast %[[A]] : !llvm.ptr to !llvm.ptr<1>
// CHECK:         %[[P:.*]] = llvm.getelementptr %[[GLOBAL]][%[[ROW]]]
// CHECK:         %[[HIDDEN:.*]] = llvm.inline_asm "", "=l,0" %[[K]] : (i64) -> i64
// CHECK:         %[[Q:.*]] = llvm.getelementptr %[[P]][%[[HIDDEN]]]
// CHECK:         nvvm.cp.async.shared.global %[[TILE]], %[[Q]], 16
// CHECK:         llvm.mul %[[ROW]]
// CHECK:         %[[S:.*]] = llvm.getelementptr %{{.*}}[%[[HIDDEN]]]
// CHECK:         nvvm.cp.async.shared.global %{{.*}}, %[[S]], 16
llvm.func @hidden(%tile: !llvm.ptr<3>, %a: !llvm.ptr, %row: i64, %n: i64) {
  %c0 = llvm.mlir.constant(0 : i64) : i64
  %c2 = llvm.mlir.constant(2 : i64) : i64
  %c64 = llvm.mlir.constant(64 : i64) : i64
  %second = llvm.getelementptr %tile[16] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
  llvm.br ^loop(%c0 : i64)
^loop(%k: i64):
  %x = llvm.add %k, %row : i64
  %p = llvm.getelementptr %a[%x] : (!llvm.ptr, i64) -> !llvm.ptr, i8
  %from = llvm.addrspacecast %p : !llvm.ptr to !llvm.ptr<1>
  nvvm.cp.async.shared.global %tile, %from, 16, cache = cg : !llvm.ptr<3>, !llvm.ptr<1>
  %twice = llvm.mul %row, %c2 : i64
  %y = llvm.add %k, %twice : i64
  %q = llvm.getelementptr %a[%y] : (!llvm.ptr, i64) -> !llvm.ptr, i8
  %from_y = llvm.addrspacecast %q : !llvm.ptr to !llvm.ptr<1>
  nvvm.cp.async.shared.global %second, %from_y, 16, cache = cg : !llvm.ptr<3>, !llvm.ptr<1>
  %next = llvm.add %k, %c64 : i64
  %more = llvm.icmp "slt" %next, %n : i64
  llvm.cond_br %more, ^loop(%next : i64), ^exit
^exit:
  llvm.return
}

// One pointer advances by itself at the same cost.
// CHECK-LABEL: llvm.func @one_pointer(
// CHECK-NOT:     inline_asm
// CHECK:         llvm.return
llvm.func @one_pointer(%tile: !llvm.ptr<3>, %a: !llvm.ptr<1>, %row: i64, %n: i64) {
  %c0 = llvm.mlir.constant(0 : i64) : i64
  %c64 = llvm.mlir.constant(64 : i64) : i64
  llvm.br ^loop(%c0 : i64)
^loop(%k: i64):
  %x = llvm.add %k, %row : i64
  %p = llvm.getelementptr %a[%x] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i8
  nvvm.cp.async.shared.global %tile, %p, 16, cache = cg : !llvm.ptr<3>, !llvm.ptr<1>
  %next = llvm.add %k, %c64 : i64
  %more = llvm.icmp "slt" %next, %n : i64
  llvm.cond_br %more, ^loop(%next : i64), ^exit
^exit:
  llvm.return
}
