// RUN: async-pipe-opt %s --async-pipe-split-addresses > %t.after
// RUN: async-pipe-opt %s > %t.before
// RUN: diff %t.before %t.after
// RUN: FileCheck %s < %t.after

// What the pass leaves as it is.

// Outside of loops each address is used once.
// CHECK-LABEL: llvm.func @no_loop(
llvm.func @no_loop(%a: !llvm.ptr<1>, %x: i64, %y: i64) -> f32 {
  %c4 = llvm.mlir.constant(4 : i64) : i64
  %sum = llvm.add %x, %y : i64
  %at = llvm.add %sum, %c4 : i64
  %p = llvm.getelementptr %a[%at] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
  %v = llvm.load %p : !llvm.ptr<1> -> f32
  llvm.return %v : f32
}

// One part; a 32-bit sum that may not fit, whose bytes are no sum of 64-bit numbers; several pointers.
// CHECK-LABEL: llvm.func @one_part(
llvm.func @one_part(%a: !llvm.ptr<1>, %n: i32, %far: i32, %many: vector<2xi64>, %mask: vector<2xi1>, %none: vector<2xf32>) {
  %c0 = llvm.mlir.constant(0 : i32) : i32
  %c1 = llvm.mlir.constant(1 : i32) : i32
  llvm.br ^loop(%c0 : i32)
^loop(%i: i32):
  %p = llvm.getelementptr %a[%i] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
  %v = llvm.load %p : !llvm.ptr<1> -> f32
  %sum = llvm.add %i, %far : i32
  %q = llvm.getelementptr %a[%sum] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
  llvm.store %v, %q : f32, !llvm.ptr<1>
  %all = llvm.getelementptr %a[%many] : (!llvm.ptr<1>, vector<2xi64>) -> vector<2x!llvm.ptr<1>>, f32
  %some = llvm.intr.masked.gather %all, %mask, %none {alignment = 4 : i32} : (vector<2x!llvm.ptr<1>>, vector<2xi1>, vector<2xf32>) -> vector<2xf32>
  %next = llvm.add %i, %c1 : i32
  %more = llvm.icmp "slt" %next, %n : i32
  llvm.cond_br %more, ^loop(%next : i32), ^exit
^exit:
  llvm.return
}
