// tile-ai/tilelang#2556: 48 of 64 threads write a number each and read that of another one. The pass that
// inserts barriers found that one is needed, saw that 48 is no multiple of a warp, and left it out.
// async-pipe-opt FILE --target=nvvm:sm_90a --run=partial --arg=48xi32:1 --arg=zeros:48xi32
#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  gpu.func @partial(%a: memref<48xi32> {llvm.noalias}, %out: memref<48xi32> {llvm.noalias})
      workgroup(%tile: memref<48xi32, #wg>)
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c47 = arith.constant 47 : index
    %c48 = arith.constant 48 : index
    %t = gpu.thread_id x
    %mirror = arith.subi %c47, %t : index
    %active = arith.cmpi ult, %t, %c48 : index
    scf.if %active {
      %v = memref.load %a[%t] : memref<48xi32>
      memref.store %v, %tile[%t] : memref<48xi32, #wg>
      %x = memref.load %tile[%mirror] : memref<48xi32, #wg>
      memref.store %x, %out[%t] : memref<48xi32>
    }
    gpu.return
  }
}
