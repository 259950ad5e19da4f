// The wait for the copy is missing; every thread reads what its neighbour's cp.async may still be writing.
gpu.module @m {
  gpu.func @k(%A: memref<?xf32> {llvm.noalias}, %D: memref<?xf32> {llvm.noalias}, %F: memref<?xf32> {llvm.noalias}) workgroup(%s: memref<64xf32, #gpu.address_space<workgroup>>) kernel
      attributes {known_block_size = array<i32: 64, 1, 1>, known_grid_size = array<i32: 8, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c63 = arith.constant 63 : index
    %c64 = arith.constant 64 : index
    %t = gpu.thread_id x
    %b = gpu.block_id x
    %t0 = arith.cmpi eq, %t, %c0 : index
    scf.if %t0 {
      gpu.printf "block"
    }
    %before = arith.subi %b, %c1 : index
    %half = arith.shrui %before, %c1 : index
    %f = arith.constant 1.0 : f32
    memref.store %f, %F[%half] : memref<?xf32>
    %at0 = arith.muli %half, %c64 : index
    %at = arith.addi %at0, %t : index
    %g = nvgpu.device_async_copy %A[%at], %s[%t], 1 : memref<?xf32> to memref<64xf32, #gpu.address_space<workgroup>>
    %grp = nvgpu.device_async_create_group %g
    %m = arith.subi %c63, %t : index
    %v = memref.load %s[%m] : memref<64xf32, #gpu.address_space<workgroup>>
    %o0 = arith.muli %b, %c64 : index
    %o = arith.addi %o0, %t : index
    memref.store %v, %D[%o] : memref<?xf32>
    gpu.return
  }
}
