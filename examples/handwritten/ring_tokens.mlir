// A ring of three rows, tokens carried through the loop, one barrier an iteration.
//
// Two copies run ahead. In iteration i group i+1 may stay in flight, so the wait leaves 1. The
// barrier after it does two things: other threads see row i, and everyone has finished
// reading row i-1, whose slot the next copy takes.
gpu.module @kernels {
  gpu.func @ring_tokens(%A: memref<16x64xf32> {llvm.noalias}, %C: memref<64xf32> {llvm.noalias},
                        %n: index)
      workgroup(%ring: memref<3x64xf32, #gpu.address_space<workgroup>>)
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c63 = arith.constant 63 : index
    %zero = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    %mirror = arith.subi %c63, %t : index
    %copy0 = nvgpu.device_async_copy %A[%c0, %t], %ring[%c0, %t], 1 : memref<16x64xf32> to memref<3x64xf32, #gpu.address_space<workgroup>>
    %group0 = nvgpu.device_async_create_group %copy0
    %copy1 = nvgpu.device_async_copy %A[%c1, %t], %ring[%c1, %t], 1 : memref<16x64xf32> to memref<3x64xf32, #gpu.address_space<workgroup>>
    %group1 = nvgpu.device_async_create_group %copy1
    %r:5 = scf.for %i = %c0 to %n step %c1
        iter_args(%sum = %zero, %read = %c0, %write = %c2, %now = %group0, %next = %group1)
        -> (f32, index, index, !nvgpu.device.async.token, !nvgpu.device.async.token) {
      nvgpu.device_async_wait %now {numGroups = 1 : i32}
      gpu.barrier
      %ahead = arith.addi %i, %c2 : index
      %copy = nvgpu.device_async_copy %A[%ahead, %t], %ring[%write, %t], 1 : memref<16x64xf32> to memref<3x64xf32, #gpu.address_space<workgroup>>
      %group = nvgpu.device_async_create_group %copy
      %x = memref.load %ring[%read, %mirror] : memref<3x64xf32, #gpu.address_space<workgroup>>
      %sum1 = arith.addf %sum, %x : f32
      %up = arith.addi %read, %c1 : index
      %full = arith.cmpi eq, %up, %c3 : index
      %wrapped = arith.select %full, %c0, %up : index
      scf.yield %sum1, %wrapped, %read, %next, %group : f32, index, index, !nvgpu.device.async.token, !nvgpu.device.async.token
    }
    nvgpu.device_async_wait %r#4 {numGroups = 0 : i32}
    memref.store %r#0, %C[%t] : memref<64xf32>
    gpu.return
  }
}
