// The loop is written with branches, and the slot is a phase bit that flips.
gpu.module @kernels {
  gpu.func @branches(%A: memref<16x32xf32> {llvm.noalias}, %C: memref<32xf32> {llvm.noalias},
                     %n: index)
      workgroup(%rows: memref<2x32xf32, #gpu.address_space<workgroup>>)
      kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c31 = arith.constant 31 : index
    %zero = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    %other = arith.subi %c31, %t : index
    %first = nvgpu.device_async_copy %A[%c0, %t], %rows[%c0, %t], 1 : memref<16x32xf32> to memref<2x32xf32, #gpu.address_space<workgroup>>
    nvvm.cp.async.commit.group
    cf.br ^header(%c0, %c0, %zero : index, index, f32)
  ^header(%i: index, %phase: index, %sum: f32):
    %more = arith.cmpi slt, %i, %n : index
    cf.cond_br %more, ^body, ^done
  ^body:
    nvvm.cp.async.wait.group 0
    gpu.barrier
    %next = arith.addi %i, %c1 : index
    %flipped = arith.xori %phase, %c1 : index
    %copy = nvgpu.device_async_copy %A[%next, %t], %rows[%flipped, %t], 1 : memref<16x32xf32> to memref<2x32xf32, #gpu.address_space<workgroup>>
    nvvm.cp.async.commit.group
    %x = memref.load %rows[%phase, %other] : memref<2x32xf32, #gpu.address_space<workgroup>>
    %sum1 = arith.addf %sum, %x : f32
    cf.br ^header(%next, %flipped, %sum1 : index, index, f32)
  ^done:
    nvvm.cp.async.wait.group 0
    memref.store %sum, %C[%t] : memref<32xf32>
    gpu.return
  }
}
