func.func @host(%out: memref<?xf32> {llvm.noalias}, %n: index) {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %c32 = arith.constant 32 : index
  %f = arith.constant 1.0 : f32
  gpu.launch clusters(%cx, %cy, %cz) in (%lx = %c2, %ly = %c1, %lz = %c1) blocks(%bx, %by, %bz) in (%gx = %n, %gy = %c2, %gz = %c1) threads(%t, %ty, %tz) in (%sx = %c32, %sy = %c1, %sz = %c1) {
  %q = arith.muli %bx, %c32 : index
%p = arith.addi %q, %t : index
memref.store %f, %out[%p] : memref<?xf32>
  gpu.terminator
  }
  return
}