gpu.module @m {
// All threads of all blocks store to D[0] with nothing between. The unsigned division is the first op after the branch that
// the checker needs; it asks whether b - 1 is negative, and from there on nothing is followed.
gpu.func @k(%D: memref<?xf32> {llvm.noalias}, %F: memref<?xi32> {llvm.noalias}) kernel
    attributes {known_block_size = array<i32: 64, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %one = arith.constant 1 : i32
  %f = arith.constant 1.0 : f32
  %t = gpu.thread_id x
  %b = gpu.block_id x
  %t0 = arith.cmpi eq, %t, %c0 : index
  %before = arith.subi %b, %c1 : index
  scf.if %t0 {
    gpu.printf "one thread"
  }
  %q = arith.divui %before, %c2 : index
  memref.store %one, %F[%q] : memref<?xi32>
  memref.store %f, %D[%c0] : memref<?xf32>
  gpu.return
}
}
