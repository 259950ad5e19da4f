// RUN: async-pipe-opt %s --async-pipe-split-addresses | FileCheck %s

// What stands still is added first, then what varies, then the constant. Both loads share all but
// the constant.
// CHECK-LABEL: llvm.func @shared(
// CHECK-SAME:    %[[TILE:.*]]: !llvm.ptr<3>, %[[ROW:.*]]: i64, %[[N:.*]]: i64)
// CHECK:       ^bb1(%[[SLOT:.*]]: i64):
// CHECK:       ^bb2:
// CHECK:         %[[C64:.*]] = llvm.mlir.constant(64 : i64) : i64
// CHECK:         %[[STILL:.*]] = llvm.mul %[[ROW]], %[[C64]] : i64
// CHECK:         %[[ONCE:.*]] = llvm.getelementptr %[[TILE]][%[[STILL]]] : (!llvm.ptr<3>, i64) -> !llvm.ptr<3>, i8
// CHECK:         %[[C8192:.*]] = llvm.mlir.constant(8192 : i64) : i64
// CHECK:         %[[MOVES:.*]] = llvm.mul %[[SLOT]], %[[C8192]] : i64
// CHECK:         %[[EACH:.*]] = llvm.getelementptr %[[ONCE]][%[[MOVES]]] : (!llvm.ptr<3>, i64) -> !llvm.ptr<3>, i8
// CHECK:         llvm.load %[[EACH]]
// CHECK:         %[[NEXT:.*]] = llvm.getelementptr %[[EACH]][2048] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
// CHECK:         llvm.load %[[NEXT]]
llvm.func @shared(%tile: !llvm.ptr<3>, %row: i64, %n: i64) {
  %c0 = llvm.mlir.constant(0 : i64) : i64
  %c1 = llvm.mlir.constant(1 : i64) : i64
  %c32 = llvm.mlir.constant(32 : i64) : i64
  %c4096 = llvm.mlir.constant(4096 : i64) : i64
  llvm.br ^head(%c0 : i64)
^head(%slot: i64):
  %more = llvm.icmp "slt" %slot, %n : i64
  llvm.cond_br %more, ^body, ^exit
^body:
  %start = llvm.mul %slot, %c4096 : i64
  %rows = llvm.mul %row, %c32 : i64
  %at = llvm.add %start, %rows : i64
  %p = llvm.getelementptr %tile[%at] : (!llvm.ptr<3>, i64) -> !llvm.ptr<3>, f16
  %a = llvm.load %p : !llvm.ptr<3> -> f16
  %below = llvm.add %row, %c32 : i64
  %rows_below = llvm.mul %below, %c32 : i64
  %at_below = llvm.add %start, %rows_below : i64
  %q = llvm.getelementptr %tile[%at_below] : (!llvm.ptr<3>, i64) -> !llvm.ptr<3>, f16
  %b = llvm.load %q : !llvm.ptr<3> -> f16
  %next = llvm.add %slot, %c1 : i64
  llvm.br ^head(%next : i64)
^exit:
  llvm.return
}

// In a nest: what stands still in both loops, what varies in the outer one, in the inner one.
// CHECK-LABEL: llvm.func @nest(
// CHECK-SAME:    %[[A:.*]]: !llvm.ptr<1>, %[[ROW:.*]]: i64, %{{.*}}: i64)
// CHECK:       ^bb1(%[[I:.*]]: i64):
// CHECK:       ^bb2(%[[J:.*]]: i64):
// CHECK:         %[[P:.*]] = llvm.getelementptr %[[A]][%[[ROW]]]
// CHECK:         %[[BY_I:.*]] = llvm.mul %[[I]], %{{.*}} : i64
// CHECK:         %[[Q:.*]] = llvm.getelementptr %[[P]][%[[BY_I]]]
// CHECK:         %[[R:.*]] = llvm.getelementptr %[[Q]][%[[J]]]
// CHECK:         llvm.load %[[R]]
llvm.func @nest(%a: !llvm.ptr<1>, %row: i64, %n: i64) {
  %c0 = llvm.mlir.constant(0 : i64) : i64
  %c1 = llvm.mlir.constant(1 : i64) : i64
  %c5 = llvm.mlir.constant(5 : i64) : i64
  llvm.br ^outer(%c0 : i64)
^outer(%i: i64):
  %moved = llvm.shl %i, %c5 : i64
  llvm.br ^inner(%c0 : i64)
^inner(%j: i64):
  %x = llvm.add %j, %row : i64
  %y = llvm.add %x, %moved : i64
  %p = llvm.getelementptr %a[%y] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i8
  %v = llvm.load %p : !llvm.ptr<1> -> i8
  %next_j = llvm.add %j, %c1 : i64
  %more_j = llvm.icmp "slt" %next_j, %n : i64
  llvm.cond_br %more_j, ^inner(%next_j : i64), ^latch
^latch:
  %next_i = llvm.add %i, %c1 : i64
  %more_i = llvm.icmp "slt" %next_i, %n : i64
  llvm.cond_br %more_i, ^outer(%next_i : i64), ^exit
^exit:
  llvm.return
}

// A member of a struct is so many bytes further: what varies, then the constant.
// CHECK-LABEL: llvm.func @member(
// CHECK-SAME:    %[[A:.*]]: !llvm.ptr<1>, %[[N:.*]]: i64)
// CHECK:       ^bb1(%[[I:.*]]: i64):
// CHECK:         %[[C8:.*]] = llvm.mlir.constant(8 : i64) : i64
// CHECK:         %[[BYTES:.*]] = llvm.mul %[[I]], %[[C8]] : i64
// CHECK:         %[[P:.*]] = llvm.getelementptr %[[A]][%[[BYTES]]] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i8
// CHECK:         %[[Q:.*]] = llvm.getelementptr %[[P]][4] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i8
// CHECK:         llvm.load %[[Q]]
llvm.func @member(%a: !llvm.ptr<1>, %n: i64) {
  %c0 = llvm.mlir.constant(0 : i64) : i64
  %c1 = llvm.mlir.constant(1 : i64) : i64
  llvm.br ^loop(%c0 : i64)
^loop(%i: i64):
  %p = llvm.getelementptr %a[%i, 1] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, !llvm.struct<(i32, f32)>
  %v = llvm.load %p : !llvm.ptr<1> -> f32
  %next = llvm.add %i, %c1 : i64
  %more = llvm.icmp "slt" %next, %n : i64
  llvm.cond_br %more, ^loop(%next : i64), ^exit
^exit:
  llvm.return
}
