// A front end hands slots and pointers from block to block in structs, counts slots from -1, and moves pointers
// on: each field is followed as if it stood alone.
//
// RUN: async-pipe-opt %s --check-only | FileCheck %s
// RUN: async-pipe-opt %s --async-pipe -o /dev/null
// RUN: sed 's/wait.group 1/wait.group 2/' %s | not async-pipe-opt --check-only 2>&1 | FileCheck %s --check-prefix=WEAK
// RUN: sed 's/, .turned : i32/, %handed : i32/' %s | not async-pipe-opt --check-only 2>&1 | FileCheck %s --check-prefix=SLOT

// CHECK: proven: 7 accesses in 1 kernel

// WEAK: error: 'llvm.load' reads what 'nvvm.cp.async.shared.global' may still be writing [read-in-flight]

// SLOT: error: 'llvm.load' reads what 'nvvm.cp.async.shared.global' may still be writing [read-in-flight]

llvm.mlir.global external @ring() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<2 x array<128 x f32>>

llvm.func @ring_in_a_struct(%from: !llvm.ptr<1> {llvm.noalias}, %to: !llvm.ptr<1> {llvm.noalias}, %n: i32)
    attributes {nvvm.kernel, nvvm.reqntid = array<i32: 128>} {
  %c0 = llvm.mlir.constant(0 : i32) : i32
  %c1 = llvm.mlir.constant(1 : i32) : i32
  %c2 = llvm.mlir.constant(2 : i32) : i32
  %before = llvm.mlir.constant(-1 : i32) : i32
  %tid = nvvm.read.ptx.sreg.tid.x range <i32, 0, 128> : i32
  %ring = llvm.mlir.addressof @ring : !llvm.ptr<3>
  %none = llvm.mlir.undef : !llvm.struct<(ptr<3>, i32)>
  %s0 = llvm.insertvalue %ring, %none[0] : !llvm.struct<(ptr<3>, i32)>
  %s1 = llvm.insertvalue %before, %s0[1] : !llvm.struct<(ptr<3>, i32)>
  %a0 = llvm.getelementptr %from[%tid] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
  %d0 = llvm.getelementptr %ring[%tid] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
  nvvm.cp.async.shared.global %d0, %a0, 4, cache = ca : !llvm.ptr<3>, !llvm.ptr<1>
  nvvm.cp.async.commit.group
  %a1 = llvm.getelementptr %a0[128] : (!llvm.ptr<1>) -> !llvm.ptr<1>, f32
  %b0 = llvm.getelementptr %to[%tid] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
  llvm.br ^head(%c0, %c0, %a1, %b0, %s1 : i32, i32, !llvm.ptr<1>, !llvm.ptr<1>, !llvm.struct<(ptr<3>, i32)>)

^head(%k: i32, %filled: i32, %a: !llvm.ptr<1>, %b: !llvm.ptr<1>, %handed: !llvm.struct<(ptr<3>, i32)>):
  %more = llvm.icmp "slt" %k, %n : i32
  llvm.cond_br %more, ^body, ^out

^body:
  // The slot to fill: 1, 0, 1, ...
  %f1 = llvm.add %filled, %c1 : i32
  %fwraps = llvm.icmp "sge" %f1, %c2 : i32
  %fill = llvm.select %fwraps, %c0, %f1 : i1, i32
  %slot = llvm.getelementptr %ring[0, %fill] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, !llvm.array<2 x array<128 x f32>>
  %d = llvm.getelementptr %slot[%tid] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
  nvvm.cp.async.shared.global %d, %a, 4, cache = ca : !llvm.ptr<3>, !llvm.ptr<1>
  nvvm.cp.async.commit.group
  nvvm.cp.async.wait.group 1
  nvvm.barrier
  // The slot to read: 0, 1, 0, ..., counted up from -1 before its use.
  %base = llvm.extractvalue %handed[0] : !llvm.struct<(ptr<3>, i32)>
  %last = llvm.extractvalue %handed[1] : !llvm.struct<(ptr<3>, i32)>
  %r1 = llvm.add %last, %c1 : i32
  %wraps = llvm.icmp "sge" %r1, %c2 : i32
  %read = llvm.select %wraps, %c0, %r1 : i1, i32
  %tile = llvm.getelementptr %base[0, %read] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, !llvm.array<2 x array<128 x f32>>
  %e = llvm.getelementptr %tile[%tid] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
  %x = llvm.load %e : !llvm.ptr<3> -> f32
  nvvm.barrier
  %old = llvm.load %b : !llvm.ptr<1> -> f32
  %sum = llvm.fadd %old, %x : f32
  llvm.store %sum, %b : f32, !llvm.ptr<1>
  %put = llvm.insertvalue %read, %handed[1] : !llvm.struct<(ptr<3>, i32)>
  %turned = llvm.insertvalue %base, %put[0] : !llvm.struct<(ptr<3>, i32)>
  %next = llvm.getelementptr %a[128] : (!llvm.ptr<1>) -> !llvm.ptr<1>, f32
  %below = llvm.getelementptr %b[128] : (!llvm.ptr<1>) -> !llvm.ptr<1>, f32
  %k1 = llvm.add %k, %c1 : i32
  llvm.br ^head(%k1, %fill, %next, %below, %turned : i32, i32, !llvm.ptr<1>, !llvm.ptr<1>, !llvm.struct<(ptr<3>, i32)>)

^out:
  llvm.return
}
