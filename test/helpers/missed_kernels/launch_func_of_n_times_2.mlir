module attributes {gpu.container_module} {
gpu.module @m {
gpu.func @f(%out: memref<?xf32> {llvm.noalias}) kernel attributes {gpu.known_block_size = array<i32: 32, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %f = arith.constant 1.0 : f32
  %t = gpu.thread_id x
  %r = gpu.block_id x
%q = arith.muli %r, %c32 : index
%p = arith.addi %q, %t : index
memref.store %f, %out[%p] : memref<?xf32>
  gpu.return
}
}
func.func @host(%out: memref<?xf32>, %n: index) {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %c32 = arith.constant 32 : index
  gpu.launch_func @m::@f blocks in (%n, %c2, %c1) threads in (%c32, %c1, %c1) args(%out : memref<?xf32>)
  return
}
}