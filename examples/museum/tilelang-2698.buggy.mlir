// tile-ai/tilelang#2698: A tile is copied into workgroup memory, four numbers a thread, then a part of it
// is filled with a constant, one number a thread. Where the part does not begin at 0 the compiler left out
// the barrier between, and a slow warp copies over what was filled.
// async-pipe-opt FILE --target=nvvm:sm_90a --run=copy_and_pad --arg=256xf32:1 --arg=zeros:256xf32
#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  gpu.func @copy_and_pad(%a: memref<256xf32> {llvm.noalias}, %out: memref<256xf32> {llvm.noalias})
      workgroup(%tile: memref<256xf32, #wg> {llvm.align = 16 : i64})
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c4 = arith.constant 4 : index
    %c128 = arith.constant 128 : index
    %pad = arith.constant -1.0 : f32
    %t = gpu.thread_id x
    %mine = arith.muli %t, %c4 : index
    %numbers = vector.load %a[%mine] : memref<256xf32>, vector<4xf32>
    vector.store %numbers, %tile[%mine] : memref<256xf32, #wg>, vector<4xf32>
    %padded = arith.addi %t, %c128 : index
    memref.store %pad, %tile[%padded] : memref<256xf32, #wg>
    gpu.barrier
    %all = vector.load %tile[%mine] : memref<256xf32, #wg>, vector<4xf32>
    vector.store %all, %out[%mine] : memref<256xf32>, vector<4xf32>
    gpu.return
  }
}
