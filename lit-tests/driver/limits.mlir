// What counts do not show: banks, sectors, blocks of a multiprocessor, units.
// RUN: async-pipe-opt %s --split-input-file --async-pipe --target=nvvm:sm_80 --explain -o /dev/null 2>&1 | FileCheck %s

// A lane a row of 64 bytes: every second row begins at bank 0, and a copy takes half of a sector. Seven KiB
// with what the system keeps; all blocks load one tile.
// CHECK: remark: 'nvgpu.device_async_copy' asks for 32 sectors of 32 bytes where 16 would do, if what is not known of its addresses is whole sectors [partial-sectors]
// CHECK: remark: 'nvgpu.device_async_copy' takes 16 wavefronts of workgroup memory where 4 would do: 4 rows meet in one bank [bank-conflicts]
// CHECK: remark: 'nvgpu.ldmatrix' takes 16 wavefronts of workgroup memory where 4 would do: 4 rows meet in one bank [bank-conflicts]
// CHECK: remark: 2 accesses to workgroup memory, 2 with bank conflicts; 1 access to global memory, 1 with partial sectors [memory-accesses]
// CHECK: remark: a multiprocessor of sm_80 holds 23 blocks of 'rows', bound by workgroup memory: workgroup memory (6144 bytes) 23, threads (32) 64, blocks 32 [resident-blocks]
// CHECK: note: registers are known where code is made: --emit=cubin
// CHECK: note: with one slot less of each buffer, 4096 bytes, it holds 32
// CHECK: remark: load/store binds: 320 cycles an iteration of a block [limits]
// CHECK: note: load/store: 320 cycles
// CHECK: note: 2048 bytes of global memory that other blocks ask for, too, are not in it
gpu.module @one {
  gpu.func @rows(%from: memref<64x1024xf16> {llvm.align = 32, llvm.noalias}, %to: memref<64x4x2xf16> {llvm.align = 32, llvm.noalias})
      workgroup(%tile: memref<32x32xf16, #gpu.address_space<workgroup>> {llvm.align = 16})
      kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %c32 = arith.constant 32 : index
    %c1024 = arith.constant 1024 : index
    %t = gpu.thread_id x
    %b = gpu.block_id x
    scf.for %k = %c0 to %c1024 step %c32 {
      scf.for %j = %c0 to %c32 step %c8 {
        %at = arith.addi %k, %j : index
        %copy = nvgpu.device_async_copy %from[%t, %at], %tile[%t, %j], 8 : memref<64x1024xf16> to memref<32x32xf16, #gpu.address_space<workgroup>>
      }
      %group = nvgpu.device_async_create_group
      nvgpu.device_async_wait %group
      gpu.barrier
      %x = nvgpu.ldmatrix %tile[%t, %c0] {numTiles = 4 : i32, transpose = false} : memref<32x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
      %row = arith.addi %t, %k : index
      gpu.barrier
    } {async_pipe.num_stages = 3 : i64}
    gpu.return
  }
}

// -----

// Lane by lane without conflicts, a sum of what no other block loads: memory binds. Where a place was loaded,
// lanes may ask for anything.
// CHECK-NOT: [bank-conflicts]
// CHECK-NOT: [partial-sectors]
// CHECK: remark: 2 accesses to workgroup memory, 0 with bank conflicts; 3 accesses to global memory, 0 with partial sectors, 1 not known [memory-accesses]
// CHECK: note: what 'memref.store' asks for is not known: a subscript is no sum of what thread ids decide and what is the same in all threads
// CHECK: holds 16 blocks of 'stream', bound by threads:
// CHECK-NOT: with one slot less
// CHECK: remark: memory binds: {{[0-9]+}} cycles an iteration of a block [limits]
// CHECK: note: memory:
gpu.module @two {
  gpu.func @stream(%from: memref<?x1024x128xf32> {llvm.align = 32, llvm.noalias}, %index: memref<128xindex> {llvm.noalias}, %to: memref<4096xf32> {llvm.noalias})
      workgroup(%tile: memref<128xf32, #gpu.address_space<workgroup>> {llvm.align = 16})
      kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c1024 = arith.constant 1024 : index
    %zero = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    %b = gpu.block_id x
    %sum = scf.for %k = %c0 to %c1024 step %c1 iter_args(%s = %zero) -> (f32) {
      %copy = nvgpu.device_async_copy %from[%b, %k, %t], %tile[%t], 1 : memref<?x1024x128xf32> to memref<128xf32, #gpu.address_space<workgroup>>
      %group = nvgpu.device_async_create_group
      nvgpu.device_async_wait %group
      %x = memref.load %tile[%t] : memref<128xf32, #gpu.address_space<workgroup>>
      %next = arith.addf %s, %x : f32
      scf.yield %next : f32
    } {async_pipe.num_stages = 3 : i64}
    %place = memref.load %index[%t] : memref<128xindex>
    memref.store %sum, %to[%place] : memref<4096xf32>
    gpu.return
  }
}

// -----

// Without threads nothing is known.
// CHECK: remark: 1 access to global memory, 0 with partial sectors, 1 not known [memory-accesses]
// CHECK: note: what 'memref.store' asks for is not known: the size of the block is not known
gpu.module @three {
  gpu.func @any(%to: memref<4096xf32>) kernel {
    %zero = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    memref.store %zero, %to[%t] : memref<4096xf32>
    gpu.return
  }
}
