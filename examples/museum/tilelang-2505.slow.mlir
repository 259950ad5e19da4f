// tile-ai/tilelang#2505: A stage copies three tiles in three groups, each with a consumer of its own, and
// counts of waits were made as if a stage were one group: each wait leaves one group in flight, where three
// to five may stay.
// async-pipe-opt FILE --target=nvvm:sm_80 --run=three_producers --arg=16x64xf32:1 --arg=16x64xf32:2 --arg=16x64xf32:3 --arg=zeros:64xf32 --arg=3
#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  gpu.func @three_producers(%a: memref<16x64xf32> {llvm.noalias}, %b: memref<16x64xf32> {llvm.noalias},
                            %c: memref<16x64xf32> {llvm.noalias}, %out: memref<64xf32> {llvm.noalias}, %n: index)
      workgroup(%tiles_a: memref<2x64xf32, #wg>, %tiles_b: memref<2x64xf32, #wg>, %tiles_c: memref<2x64xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c63 = arith.constant 63 : index
    %zero = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    %mirror = arith.subi %c63, %t : index
    %first_a = nvgpu.device_async_copy %a[%c0, %t], %tiles_a[%c0, %t], 1 : memref<16x64xf32> to memref<2x64xf32, #wg>
    nvvm.cp.async.commit.group
    %first_b = nvgpu.device_async_copy %b[%c0, %t], %tiles_b[%c0, %t], 1 : memref<16x64xf32> to memref<2x64xf32, #wg>
    nvvm.cp.async.commit.group
    %first_c = nvgpu.device_async_copy %c[%c0, %t], %tiles_c[%c0, %t], 1 : memref<16x64xf32> to memref<2x64xf32, #wg>
    nvvm.cp.async.commit.group
    %sum = scf.for %i = %c0 to %n step %c1 iter_args(%s = %zero) -> (f32) {
      %next = arith.addi %i, %c1 : index
      %slot = arith.remui %i, %c2 : index
      %other = arith.remui %next, %c2 : index
      %copy_a = nvgpu.device_async_copy %a[%next, %t], %tiles_a[%other, %t], 1 : memref<16x64xf32> to memref<2x64xf32, #wg>
      nvvm.cp.async.commit.group
      %copy_b = nvgpu.device_async_copy %b[%next, %t], %tiles_b[%other, %t], 1 : memref<16x64xf32> to memref<2x64xf32, #wg>
      nvvm.cp.async.commit.group
      %copy_c = nvgpu.device_async_copy %c[%next, %t], %tiles_c[%other, %t], 1 : memref<16x64xf32> to memref<2x64xf32, #wg>
      nvvm.cp.async.commit.group
      nvvm.cp.async.wait.group 1
      gpu.barrier
      %x_a = memref.load %tiles_a[%slot, %mirror] : memref<2x64xf32, #wg>
      %s_a = arith.addf %s, %x_a : f32
      nvvm.cp.async.wait.group 1
      gpu.barrier
      %x_b = memref.load %tiles_b[%slot, %mirror] : memref<2x64xf32, #wg>
      %s_b = arith.addf %s_a, %x_b : f32
      nvvm.cp.async.wait.group 1
      gpu.barrier
      %x_c = memref.load %tiles_c[%slot, %mirror] : memref<2x64xf32, #wg>
      %s_c = arith.addf %s_b, %x_c : f32
      gpu.barrier
      scf.yield %s_c : f32
    }
    nvvm.cp.async.wait.group 0
    memref.store %sum, %out[%t] : memref<64xf32>
    gpu.return
  }
}
