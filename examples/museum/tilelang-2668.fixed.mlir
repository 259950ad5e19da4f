// tile-ai/tilelang#2668, mended: the copy stands after the sum.
// async-pipe-opt FILE --target=nvvm:sm_80 --run=sum_then_copy --arg=8x64xi32:1 --arg=64xi32:2 --arg=zeros:64xi32 --arg=3
#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  gpu.func @sum_then_copy(%tiles: memref<8x64xi32> {llvm.noalias}, %first: memref<64xi32> {llvm.noalias},
                          %out: memref<64xi32> {llvm.noalias}, %n: index)
      workgroup(%tile: memref<64xi32, #wg>)
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0 : i32
    %t = gpu.thread_id x
    %v = memref.load %first[%t] : memref<64xi32>
    memref.store %v, %tile[%t] : memref<64xi32, #wg>
    %sum = scf.for %k = %c0 to %n step %c1 iter_args(%s = %zero) -> (i32) {
      %x = memref.load %tile[%t] : memref<64xi32, #wg>
      %s1 = arith.addi %s, %x : i32
      %copy = nvgpu.device_async_copy %tiles[%k, %t], %tile[%t], 1 : memref<8x64xi32> to memref<64xi32, #wg>
      nvvm.cp.async.commit.group
      nvvm.cp.async.wait.group 0
      scf.yield %s1 : i32
    }
    memref.store %sum, %out[%t] : memref<64xi32>
    gpu.return
  }
}
