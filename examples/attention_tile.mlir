// One tile of attention without its softmax: S = Q K^T, then O = S V, by one block of 128 threads.
// Two pipelined loops in a row that share the buffer %tile: 32 x 8 of K in the first, 32 x 8 of
// V^T in the second. The copies of the second begin when all threads have read the first's last
// tile; nothing else is drained in between.
//
//     async-pipe-opt examples/attention_tile.mlir --async-pipe --target=nvvm:sm_80 --emit=ptx
#workgroup = #gpu.address_space<workgroup>
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @attention_tile(
        %Q: memref<32x?xf32> {llvm.noalias}, %K: memref<32x?xf32> {llvm.noalias},
        %Vt: memref<32x32xf32> {llvm.noalias}, %O: memref<32x32xf32> {llvm.noalias})
        workgroup(%q_tile: memref<32x8xf32, #workgroup> {llvm.align = 16 : i64},
                  %tile: memref<32x8xf32, #workgroup> {llvm.align = 16 : i64},
                  %scores: memref<32x32xf32, #workgroup> {llvm.align = 16 : i64})
        kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %c4 = arith.constant 4 : index
      %c8 = arith.constant 8 : index
      %c32 = arith.constant 32 : index
      %zero = arith.constant dense<0.0> : vector<8xf32>
      %depth = memref.dim %K, %c1 : memref<32x?xf32>
      %tid = gpu.thread_id x
      %row = arith.divui %tid, %c4 : index
      %quarter = arith.remui %tid, %c4 : index
      %pair = arith.muli %quarter, %c2 : index
      %first = arith.muli %quarter, %c8 : index
      // Each thread copies two elements of a tile, and holds 8 scores of one row.
      %s = scf.for %d = %c0 to %depth step %c8 iter_args(%sum = %zero) -> vector<8xf32> {
        %column = arith.addi %d, %pair : index
        %q = nvgpu.device_async_copy %Q[%row, %column], %q_tile[%row, %pair], 2 : memref<32x?xf32> to memref<32x8xf32, #workgroup>
        %k = nvgpu.device_async_copy %K[%row, %column], %tile[%row, %pair], 2 : memref<32x?xf32> to memref<32x8xf32, #workgroup>
        %group = nvgpu.device_async_create_group %q, %k
        nvgpu.device_async_wait %group
        gpu.barrier
        %added = scf.for %x = %c0 to %c8 step %c1 iter_args(%some = %sum) -> vector<8xf32> {
          %left = memref.load %q_tile[%row, %x] : memref<32x8xf32, #workgroup>
          %more = scf.for %y = %c0 to %c8 step %c1 iter_args(%part = %some) -> vector<8xf32> {
            %key = arith.addi %first, %y : index
            %right = memref.load %tile[%key, %x] : memref<32x8xf32, #workgroup>
            %product = arith.mulf %left, %right : f32
            %old = vector.extract %part[%y] : f32 from vector<8xf32>
            %new = arith.addf %old, %product : f32
            %next = vector.insert %new, %part[%y] : f32 into vector<8xf32>
            scf.yield %next : vector<8xf32>
          }
          scf.yield %more : vector<8xf32>
        }
        gpu.barrier
        scf.yield %added : vector<8xf32>
      } {async_pipe.num_stages = 3 : i64}
      scf.for %y = %c0 to %c8 step %c1 {
        %key = arith.addi %first, %y : index
        %score = vector.extract %s[%y] : f32 from vector<8xf32>
        memref.store %score, %scores[%row, %key] : memref<32x32xf32, #workgroup>
      }
      gpu.barrier
      %o = scf.for %j = %c0 to %c32 step %c8 iter_args(%sum = %zero) -> vector<8xf32> {
        %column = arith.addi %j, %pair : index
        %v = nvgpu.device_async_copy %Vt[%row, %column], %tile[%row, %pair], 2 : memref<32x32xf32> to memref<32x8xf32, #workgroup>
        %group = nvgpu.device_async_create_group %v
        nvgpu.device_async_wait %group
        gpu.barrier
        %added = scf.for %x = %c0 to %c8 step %c1 iter_args(%some = %sum) -> vector<8xf32> {
          %key = arith.addi %j, %x : index
          %left = memref.load %scores[%row, %key] : memref<32x32xf32, #workgroup>
          %more = scf.for %y = %c0 to %c8 step %c1 iter_args(%part = %some) -> vector<8xf32> {
            %feature = arith.addi %first, %y : index
            %right = memref.load %tile[%feature, %x] : memref<32x8xf32, #workgroup>
            %product = arith.mulf %left, %right : f32
            %old = vector.extract %part[%y] : f32 from vector<8xf32>
            %new = arith.addf %old, %product : f32
            %next = vector.insert %new, %part[%y] : f32 into vector<8xf32>
            scf.yield %next : vector<8xf32>
          }
          scf.yield %more : vector<8xf32>
        }
        gpu.barrier
        scf.yield %added : vector<8xf32>
      } {async_pipe.num_stages = 3 : i64}
      scf.for %y = %c0 to %c8 step %c1 {
        %feature = arith.addi %first, %y : index
        %value = vector.extract %o[%y] : f32 from vector<8xf32>
        memref.store %value, %O[%row, %feature] : memref<32x32xf32>
      }
      gpu.return
    }
  }
}
