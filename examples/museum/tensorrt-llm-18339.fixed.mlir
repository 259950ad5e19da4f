// NVIDIA/TensorRT-LLM#18339, mended: a second barrier a round keeps the bound until all have read it.
// async-pipe-opt FILE --target=nvvm:sm_100a --run=top_k --arg=8xf32:1 --arg=zeros:128xf32 --arg=3
#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  gpu.func @top_k(%bounds: memref<8xf32> {llvm.noalias}, %out: memref<128xf32> {llvm.noalias}, %rounds: index)
      workgroup(%published: memref<1xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    %leader = arith.cmpi eq, %t, %c0 : index
    %sum = scf.for %round = %c0 to %rounds step %c1 iter_args(%s = %zero) -> (f32) {
      scf.if %leader {
        %bound = memref.load %bounds[%round] : memref<8xf32>
        memref.store %bound, %published[%c0] : memref<1xf32, #wg>
      }
      gpu.barrier
      %x = memref.load %published[%c0] : memref<1xf32, #wg>
      %s1 = arith.addf %s, %x : f32
      gpu.barrier
      scf.yield %s1 : f32
    }
    memref.store %sum, %out[%t] : memref<128xf32>
    gpu.return
  }
}
