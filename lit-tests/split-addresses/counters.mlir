// RUN: async-pipe-opt %s --async-pipe-split-addresses | FileCheck %s

// A slot that wraps at 3 is 0, 1 or 2: the loop carries it in 32 bits. Nothing bounds %k.
// CHECK-LABEL: llvm.func @slot(
// CHECK:       ^bb1(%[[K:.*]]: i64, %[[SLOT:.*]]: i32):
// CHECK:         %[[WIDE:.*]] = llvm.zext %[[SLOT]] : i32 to i64
// CHECK:         llvm.mul %[[WIDE]], %{{.*}} : i64
// CHECK:         %[[NEXT:.*]] = llvm.add %[[SLOT]], %{{.*}} : i32
// CHECK:         %[[WRAPS:.*]] = llvm.icmp "eq" %[[NEXT]], %{{.*}} : i32
// CHECK:         %[[WRAPPED:.*]] = llvm.select %[[WRAPS]], %{{.*}}, %[[NEXT]] : i1, i32
// CHECK:         llvm.cond_br %{{.*}}, ^bb1(%{{.*}}, %[[WRAPPED]] : i64, i32), ^bb2
llvm.func @slot(%tile: !llvm.ptr<3>, %row: i64, %n: i64) {
  %c0 = llvm.mlir.constant(0 : i64) : i64
  %c1 = llvm.mlir.constant(1 : i64) : i64
  %c3 = llvm.mlir.constant(3 : i64) : i64
  %c4096 = llvm.mlir.constant(4096 : i64) : i64
  llvm.br ^loop(%c0, %c0 : i64, i64)
^loop(%k: i64, %slot: i64):
  %start = llvm.mul %slot, %c4096 : i64
  %at = llvm.add %start, %row : i64
  %p = llvm.getelementptr %tile[%at] : (!llvm.ptr<3>, i64) -> !llvm.ptr<3>, f16
  %v = llvm.load %p : !llvm.ptr<3> -> f16
  %after = llvm.add %slot, %c1 : i64
  %wraps = llvm.icmp "eq" %after, %c3 : i64
  %wrapped = llvm.select %wraps, %c0, %after : i1, i64
  %next = llvm.add %k, %c1 : i64
  %more = llvm.icmp "slt" %next, %n : i64
  llvm.cond_br %more, ^loop(%next, %wrapped : i64, i64), ^exit
^exit:
  llvm.return
}
