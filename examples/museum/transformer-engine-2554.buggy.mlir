// NVIDIA/TransformerEngine#2554: Some warps meet at a named barrier whose number is handed to a function
// that adds those that the library keeps for itself: 10 becomes 18. A block has sixteen of them, 0 to 15.
// async-pipe-opt FILE --target=nvvm:sm_100a --run=norm --arg=128xf32:1 --arg=zeros:128xf32
#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  gpu.func @norm(%x: memref<128xf32> {llvm.noalias}, %out: memref<128xf32> {llvm.noalias})
      workgroup(%partial: memref<4xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 160, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c32 = arith.constant 32 : index
    %c128 = arith.constant 128 : index
    %zero = arith.constant 0.0 : f32
    %reserved = arith.constant 8 : i32
    %own = arith.constant 10 : i32
    %id = arith.addi %own, %reserved : i32
    %threads = arith.constant 128 : i32
    %t = gpu.thread_id x
    %warp = arith.divui %t, %c32 : index
    %lane = arith.remui %t, %c32 : index
    %speaks = arith.cmpi eq, %lane, %c0 : index
    %sums = arith.cmpi ult, %t, %c128 : index
    scf.if %sums {
      %v = memref.load %x[%t] : memref<128xf32>
      %in_warp = gpu.subgroup_reduce add %v : (f32) -> f32
      scf.if %speaks {
        memref.store %in_warp, %partial[%warp] : memref<4xf32, #wg>
      }
      nvvm.barrier id = %id number_of_threads = %threads
      %sum = scf.for %w = %c0 to %c4 step %c1 iter_args(%s = %zero) -> (f32) {
        %one = memref.load %partial[%w] : memref<4xf32, #wg>
        %s1 = arith.addf %s, %one : f32
        scf.yield %s1 : f32
      }
      memref.store %sum, %out[%t] : memref<128xf32>
    }
    gpu.return
  }
}
