// A 16x16 output tile of a GEMM, K = 8 tiles of 16, two buffers of four versions each. One group
// holds both copies of a K tile; three run ahead, so the wait leaves two. The slot is the
// iteration number's low two bits.
gpu.module @kernels {
  gpu.func @gemm_tile(%A: memref<16x128xf32> {llvm.noalias}, %B: memref<128x16xf32> {llvm.noalias},
                      %C: memref<16x16xf32> {llvm.noalias})
      workgroup(%sa: memref<4x16x16xf32, #gpu.address_space<workgroup>>,
                %sb: memref<4x16x16xf32, #gpu.address_space<workgroup>>)
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c4 = arith.constant 4 : index
    %c5 = arith.constant 5 : index
    %c16 = arith.constant 16 : index
    %zero = arith.constant dense<0.0> : vector<4xf32>
    %t = gpu.thread_id x
    // 64 threads, 4 elements each: row t / 4, columns 4 (t mod 4) to 4 (t mod 4) + 3.
    %row = arith.divui %t, %c4 : index
    %quarter = arith.remui %t, %c4 : index
    %column = arith.muli %quarter, %c4 : index
    scf.for %p = %c0 to %c3 step %c1 {
      %k = arith.muli %p, %c16 : index
      %ka = arith.addi %k, %column : index
      %kb = arith.addi %k, %row : index
      %a = nvgpu.device_async_copy %A[%row, %ka], %sa[%p, %row, %column], 4 : memref<16x128xf32> to memref<4x16x16xf32, #gpu.address_space<workgroup>>
      %b = nvgpu.device_async_copy %B[%kb, %column], %sb[%p, %row, %column], 4 : memref<128x16xf32> to memref<4x16x16xf32, #gpu.address_space<workgroup>>
      %g = nvgpu.device_async_create_group %a, %b
    }
    %main = scf.for %i = %c0 to %c5 step %c1 iter_args(%acc = %zero) -> (vector<4xf32>) {
      nvvm.cp.async.wait.group 2
      gpu.barrier
      %ahead = arith.addi %i, %c3 : index
      %write = arith.andi %ahead, %c3 : index
      %read = arith.andi %i, %c3 : index
      %k = arith.muli %ahead, %c16 : index
      %ka = arith.addi %k, %column : index
      %kb = arith.addi %k, %row : index
      %a = nvgpu.device_async_copy %A[%row, %ka], %sa[%write, %row, %column], 4 : memref<16x128xf32> to memref<4x16x16xf32, #gpu.address_space<workgroup>>
      %b = nvgpu.device_async_copy %B[%kb, %column], %sb[%write, %row, %column], 4 : memref<128x16xf32> to memref<4x16x16xf32, #gpu.address_space<workgroup>>
      %g = nvgpu.device_async_create_group %a, %b
      %acc1 = scf.for %kk = %c0 to %c16 step %c1 iter_args(%s = %acc) -> (vector<4xf32>) {
        %x = memref.load %sa[%read, %row, %kk] : memref<4x16x16xf32, #gpu.address_space<workgroup>>
        %y = vector.load %sb[%read, %kk, %column] : memref<4x16x16xf32, #gpu.address_space<workgroup>>, vector<4xf32>
        %xs = vector.broadcast %x : f32 to vector<4xf32>
        %s1 = math.fma %xs, %y, %s : vector<4xf32>
        scf.yield %s1 : vector<4xf32>
      }
      scf.yield %acc1 : vector<4xf32>
    }
    nvvm.cp.async.wait.group 0
    gpu.barrier
    %all = scf.for %j = %c0 to %c3 step %c1 iter_args(%acc = %main) -> (vector<4xf32>) {
      %i = arith.addi %j, %c5 : index
      %read = arith.andi %i, %c3 : index
      %acc1 = scf.for %kk = %c0 to %c16 step %c1 iter_args(%s = %acc) -> (vector<4xf32>) {
        %x = memref.load %sa[%read, %row, %kk] : memref<4x16x16xf32, #gpu.address_space<workgroup>>
        %y = vector.load %sb[%read, %kk, %column] : memref<4x16x16xf32, #gpu.address_space<workgroup>>, vector<4xf32>
        %xs = vector.broadcast %x : f32 to vector<4xf32>
        %s1 = math.fma %xs, %y, %s : vector<4xf32>
        scf.yield %s1 : vector<4xf32>
      }
      scf.yield %acc1 : vector<4xf32>
    }
    vector.store %all, %C[%row, %column] : memref<16x16xf32>, vector<4xf32>
    gpu.return
  }
}
