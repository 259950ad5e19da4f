// Marks of a callee do not count in its caller. The wait for 1 in @amd_call leaves the third block
// outstanding and retires the second, whatever the callee issued; the callee's own copy is covered
// by the third mark, so only the wait for 0 retires it.
module {
  func.func @other(%G: memref<8x64xf32> {llvm.noalias}, %L: memref<4x64xf32, 3>, %t: index) {
    %c0 = arith.constant 0 : index
    %c3 = arith.constant 3 : index
    amdgpu.gather_to_lds async %G[%c3, %t], %L[%c3, %c0] : f32, memref<8x64xf32>, memref<4x64xf32, 3>
    rocdl.asyncmark
    return
  }
  func.func @amd_call(%G: memref<8x64xf32> {llvm.noalias}, %C: memref<64xf32> {llvm.noalias})
      attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %L = memref.alloc() : memref<4x64xf32, 3>
    %t = gpu.thread_id x
    amdgpu.gather_to_lds async %G[%c0, %t], %L[%c0, %c0] : f32, memref<8x64xf32>, memref<4x64xf32, 3>
    rocdl.asyncmark
    amdgpu.gather_to_lds async %G[%c1, %t], %L[%c1, %c0] : f32, memref<8x64xf32>, memref<4x64xf32, 3>
    rocdl.asyncmark
    func.call @other(%G, %L, %t) : (memref<8x64xf32>, memref<4x64xf32, 3>, index) -> ()
    amdgpu.gather_to_lds async %G[%c2, %t], %L[%c2, %c0] : f32, memref<8x64xf32>, memref<4x64xf32, 3>
    rocdl.asyncmark
    rocdl.wait.asyncmark 1
    %x0 = memref.load %L[%c0, %t] : memref<4x64xf32, 3>
    %x1 = memref.load %L[%c1, %t] : memref<4x64xf32, 3>
    rocdl.wait.asyncmark 0
    %x2 = memref.load %L[%c2, %t] : memref<4x64xf32, 3>
    %x3 = memref.load %L[%c3, %t] : memref<4x64xf32, 3>
    %y0 = arith.addf %x0, %x1 : f32
    %y1 = arith.addf %x2, %x3 : f32
    %y = arith.addf %y0, %y1 : f32
    memref.store %y, %C[%t] : memref<64xf32>
    return
  }
}
