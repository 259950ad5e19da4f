// Shared memory: each thread stores its place and loads the one of its mirror image; no barrier. Blocks of one grid, i64, LLVM dialect.
module {
  llvm.mlir.global internal @s() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<64 x f32>
  llvm.func @k(%out: !llvm.ptr<1> {llvm.noalias}, %in: !llvm.ptr<1> {llvm.noalias}) attributes {nvvm.kernel, gpu.kernel, nvvm.reqntid = array<i32: 64, 1, 1>} {
    %c0 = llvm.mlir.constant(0 : i32) : i32
    %c63 = llvm.mlir.constant(63 : i32) : i32
    %l1 = llvm.mlir.constant(1 : i64) : i64
    %l3 = llvm.mlir.constant(3 : i64) : i64
    %f = llvm.mlir.constant(1.0 : f32) : f32
    %t = nvvm.read.ptx.sreg.tid.x : i32
    %b32 = nvvm.read.ptx.sreg.ctaid.x : i32
    %b = llvm.sext %b32 : i32 to i64
    %s = llvm.mlir.addressof @s : !llvm.ptr<3>
    %first = llvm.icmp "eq" %t, %c0 : i32
    llvm.cond_br %first, ^one, ^all
  ^one:
    %o = llvm.getelementptr %out[%b] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    llvm.store %f, %o : f32, !llvm.ptr<1>
    llvm.br ^all
  ^all:
    %before = llvm.sub %b, %l1 : i64
    %q = llvm.urem %before, %l3 : i64
    %g = llvm.getelementptr %in[%q] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    %v = llvm.load %g : !llvm.ptr<1> -> f32
    %p = llvm.getelementptr %s[%t] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
    llvm.store %v, %p : f32, !llvm.ptr<3>
    %m = llvm.sub %c63, %t : i32
    %pm = llvm.getelementptr %s[%m] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
    %w = llvm.load %pm : !llvm.ptr<3> -> f32
    %d = llvm.getelementptr %out[%q] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    llvm.store %w, %d : f32, !llvm.ptr<1>
    llvm.return
  }
}
