// triton-lang/triton#8139, mended: one buffer more.
// async-pipe-opt FILE --target=nvvm:sm_90 --run=conditional --arg=16x32xi32:1 --arg=zeros:16x32xi32 --arg=1 --arg=3
#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  gpu.func @conditional(%a: memref<16x32xi32> {llvm.noalias}, %out: memref<16x32xi32> {llvm.noalias},
                        %uses: i1, %n: index)
      workgroup(%buffer: memref<2x32xi32, #wg>)
      kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %buffers = arith.constant 2 : index
    %t = gpu.thread_id x
    %copy0 = nvgpu.device_async_copy %a[%c0, %t], %buffer[%c0, %t], 1 : memref<16x32xi32> to memref<2x32xi32, #wg>
    nvvm.cp.async.commit.group
    scf.for %i = %c0 to %n step %c1 {
      %next = arith.addi %i, %c1 : index
      %slot = arith.remui %i, %buffers : index
      %other = arith.remui %next, %buffers : index
      nvvm.cp.async.wait.group 0
      %copy = nvgpu.device_async_copy %a[%next, %t], %buffer[%other, %t], 1 : memref<16x32xi32> to memref<2x32xi32, #wg>
      nvvm.cp.async.commit.group
      scf.if %uses {
        %x = memref.load %buffer[%slot, %t] : memref<2x32xi32, #wg>
        memref.store %x, %out[%i, %t] : memref<16x32xi32>
      }
    }
    nvvm.cp.async.wait.group 0
    gpu.return
  }
}
