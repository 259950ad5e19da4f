// tile-ai/tilelang#2613, mended: a barrier before the next iteration.
// async-pipe-opt FILE --target=nvvm:sm_90a --run=shared_operand --arg=8x256xf32:1 --arg=zeros:256xf32 --arg=3
#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  gpu.func @shared_operand(%a: memref<8x256xf32> {llvm.noalias}, %out: memref<256xf32> {llvm.noalias}, %n: index)
      workgroup(%tile: memref<256xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c128 = arith.constant 128 : index
    %c255 = arith.constant 255 : index
    %zero = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    %mirror = arith.subi %c255, %t : index
    %is_first = arith.cmpi ult, %t, %c128 : index
    %sum = scf.for %k = %c0 to %n step %c1 iter_args(%s = %zero) -> (f32) {
      %copy = nvgpu.device_async_copy %a[%k, %t], %tile[%t], 1 : memref<8x256xf32> to memref<256xf32, #wg>
      nvvm.cp.async.commit.group
      nvvm.cp.async.wait.group 0
      gpu.barrier
      %s1 = scf.if %is_first -> (f32) {
        %x = memref.load %tile[%mirror] : memref<256xf32, #wg>
        %more = arith.addf %s, %x : f32
        scf.yield %more : f32
      } else {
        %x = memref.load %tile[%mirror] : memref<256xf32, #wg>
        %less = arith.subf %s, %x : f32
        scf.yield %less : f32
      }
      gpu.barrier
      scf.yield %s1 : f32
    }
    memref.store %sum, %out[%t] : memref<256xf32>
    gpu.return
  }
}
