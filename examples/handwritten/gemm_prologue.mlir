// The same tile with a prologue: tile i + 1 is issued before tile i is used, but the wait after it
// is for everything, so nothing is ever in flight while a tile is multiplied. One group may stay.
gpu.module @kernels {
  gpu.func @gemm_prologue(%A: memref<16x128xf32> {llvm.noalias}, %B: memref<128x16xf32> {llvm.noalias},
                           %C: memref<16x16xf32> {llvm.noalias})
      workgroup(%sa: memref<2x16x16xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64},
                %sb: memref<2x16x16xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64})
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c7 = arith.constant 7 : index
    %c16 = arith.constant 16 : index
    %zero = arith.constant dense<0.0> : vector<4xf32>
    %t = gpu.thread_id x
    %row = arith.divui %t, %c4 : index
    %quarter = arith.remui %t, %c4 : index
    %column = arith.muli %quarter, %c4 : index
    %a0 = nvgpu.device_async_copy %A[%row, %column], %sa[%c0, %row, %column], 4 : memref<16x128xf32> to memref<2x16x16xf32, #gpu.address_space<workgroup>>
    %b0 = nvgpu.device_async_copy %B[%row, %column], %sb[%c0, %row, %column], 4 : memref<128x16xf32> to memref<2x16x16xf32, #gpu.address_space<workgroup>>
    nvvm.cp.async.commit.group
    %main = scf.for %i = %c0 to %c7 step %c1 iter_args(%acc = %zero) -> (vector<4xf32>) {
      %next = arith.addi %i, %c1 : index
      %to = arith.remui %next, %c2 : index
      %from = arith.remui %i, %c2 : index
      %k = arith.muli %next, %c16 : index
      %ka = arith.addi %k, %column : index
      %kb = arith.addi %k, %row : index
      %a = nvgpu.device_async_copy %A[%row, %ka], %sa[%to, %row, %column], 4 : memref<16x128xf32> to memref<2x16x16xf32, #gpu.address_space<workgroup>>
      %b = nvgpu.device_async_copy %B[%kb, %column], %sb[%to, %row, %column], 4 : memref<128x16xf32> to memref<2x16x16xf32, #gpu.address_space<workgroup>>
      nvvm.cp.async.commit.group
      nvvm.cp.async.wait.group 0
      gpu.barrier
      %acc1 = scf.for %kk = %c0 to %c16 step %c1 iter_args(%s = %acc) -> (vector<4xf32>) {
        %x = memref.load %sa[%from, %row, %kk] : memref<2x16x16xf32, #gpu.address_space<workgroup>>
        %y = vector.load %sb[%from, %kk, %column] : memref<2x16x16xf32, #gpu.address_space<workgroup>>, vector<4xf32>
        %xs = vector.broadcast %x : f32 to vector<4xf32>
        %s1 = math.fma %xs, %y, %s : vector<4xf32>
        scf.yield %s1 : vector<4xf32>
      }
      gpu.barrier
      scf.yield %acc1 : vector<4xf32>
    }
    nvvm.cp.async.wait.group 0
    gpu.barrier
    %sum = scf.for %kk = %c0 to %c16 step %c1 iter_args(%s = %main) -> (vector<4xf32>) {
      %x = memref.load %sa[%c1, %row, %kk] : memref<2x16x16xf32, #gpu.address_space<workgroup>>
      %y = vector.load %sb[%c1, %kk, %column] : memref<2x16x16xf32, #gpu.address_space<workgroup>>, vector<4xf32>
      %xs = vector.broadcast %x : f32 to vector<4xf32>
      %s1 = math.fma %xs, %y, %s : vector<4xf32>
      scf.yield %s1 : vector<4xf32>
    }
    vector.store %sum, %C[%row, %column] : memref<16x16xf32>, vector<4xf32>
    gpu.return
  }
}
