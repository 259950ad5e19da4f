// flashinfer-ai/flashinfer#3607: A layer norm sums over its warps twice, for the mean and for the variance,
// through one buffer with a number a warp. The variance of a fast warp was written before slow warps had
// read the sums of the mean.
// async-pipe-opt FILE --target=nvvm:sm_90a --run=layer_norm --arg=128xf32:1 --arg=zeros:128xf32
#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  gpu.func @layer_norm(%x: memref<128xf32> {llvm.noalias}, %out: memref<128xf32> {llvm.noalias})
      workgroup(%warp_sums: memref<4xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c32 = arith.constant 32 : index
    %zero = arith.constant 0.0 : f32
    %size = arith.constant 128.0 : f32
    %t = gpu.thread_id x
    %warp = arith.divui %t, %c32 : index
    %lane = arith.remui %t, %c32 : index
    %speaks = arith.cmpi eq, %lane, %c0 : index
    %v = memref.load %x[%t] : memref<128xf32>
    %in_warp = gpu.subgroup_reduce add %v : (f32) -> f32
    scf.if %speaks {
      memref.store %in_warp, %warp_sums[%warp] : memref<4xf32, #wg>
    }
    gpu.barrier
    %sum = scf.for %w = %c0 to %c4 step %c1 iter_args(%s = %zero) -> (f32) {
      %one = memref.load %warp_sums[%w] : memref<4xf32, #wg>
      %s1 = arith.addf %s, %one : f32
      scf.yield %s1 : f32
    }
    %mean = arith.divf %sum, %size : f32
    %off = arith.subf %v, %mean : f32
    %square = arith.mulf %off, %off : f32
    %squares_in_warp = gpu.subgroup_reduce add %square : (f32) -> f32
    scf.if %speaks {
      memref.store %squares_in_warp, %warp_sums[%warp] : memref<4xf32, #wg>
    }
    gpu.barrier
    %squares = scf.for %w = %c0 to %c4 step %c1 iter_args(%s = %zero) -> (f32) {
      %one = memref.load %warp_sums[%w] : memref<4xf32, #wg>
      %s1 = arith.addf %s, %one : f32
      scf.yield %s1 : f32
    }
    %variance = arith.divf %squares, %size : f32
    %scaled = arith.divf %off, %variance : f32
    memref.store %scaled, %out[%t] : memref<128xf32>
    gpu.return
  }
}
