// Block 0 stores 1.0, all other blocks 2.0, to the same places: the block id is read by inline assembly (the same with
// llvm.call_intrinsic "llvm.nvvm.read.ptx.sreg.ctaid.x", and llvm.call @llvm.nvvm.read.ptx.sreg.ctaid.x).
llvm.func @f(%out: !llvm.ptr<1> {llvm.noalias}) attributes {gpu.kernel, nvvm.kernel, nvvm.reqntid = array<i32: 32, 1, 1>} {
  %c0 = llvm.mlir.constant(0 : i32) : i32
  %one = llvm.mlir.constant(1.0 : f32) : f32
  %two = llvm.mlir.constant(2.0 : f32) : f32
  %t = nvvm.read.ptx.sreg.tid.x : i32
  %b = llvm.call_intrinsic "llvm.nvvm.read.ptx.sreg.ctaid.x"() : () -> i32
  %first = llvm.icmp "eq" %b, %c0 : i32
  %p = llvm.getelementptr %out[%t] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
  llvm.cond_br %first, ^a, ^b
^a:
  llvm.store %one, %p : f32, !llvm.ptr<1>
  llvm.br ^c
^b:
  llvm.store %two, %p : f32, !llvm.ptr<1>
  llvm.br ^c
^c:
  llvm.return
}
