// What the loop carries from step to step, in registers of a thread, against what the chip has.
// RUN: async-pipe-opt %s --split-input-file --verify-diagnostics --async-pipe --target=nvvm:sm_80
// RUN: async-pipe-opt %s --split-input-file --async-pipe --target=rocdl:gfx950 2>&1 | FileCheck %s --check-prefix=AMD

#wg = #gpu.address_space<workgroup>

// 300 elements of f32, and the slots of two stages at 64 bits; the token takes none. gfx950 has 512.
// AMD-NOT: registers-over-budget
func.func @a_thread_has_255(%A : memref<64x1024xf32> {llvm.noalias}, %x : vector<300xf32>) -> vector<300xf32>
    attributes {known_block_size = array<i32: 32, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %t = gpu.thread_id x
  %buf = memref.alloc() : memref<1024xf32, #wg>
  // expected-remark @below {{the values that the loop carries from step to step take 304 registers of a thread, which has 255 in a block of 32: the rest will be spilled [registers-over-budget]}}
  %sum = scf.for %i = %c0 to %c64 step %c1 iter_args(%part = %x) -> (vector<300xf32>) {
    %copy = nvgpu.device_async_copy %A[%i, %t], %buf[%t], 1 : memref<64x1024xf32> to memref<1024xf32, #wg>
    %v = memref.load %buf[%t] : memref<1024xf32, #wg>
    %all = vector.broadcast %v : f32 to vector<300xf32>
    %next = arith.addf %part, %all : vector<300xf32>
    scf.yield %next : vector<300xf32>
  } {async_pipe.num_stages = 3 : i64}
  return %sum : vector<300xf32>
}

// -----

#wg = #gpu.address_space<workgroup>

// 104 are less than 255, but 1024 threads share 65536.
func.func @a_block_has_65536(%A : memref<64x1024xf32> {llvm.noalias}, %x : vector<100xf32>) -> vector<100xf32>
    attributes {known_block_size = array<i32: 1024, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %t = gpu.thread_id x
  %buf = memref.alloc() : memref<1024xf32, #wg>
  // expected-remark @below {{take 104 registers of a thread, which has 64 in a block of 1024}}
  %sum = scf.for %i = %c0 to %c64 step %c1 iter_args(%part = %x) -> (vector<100xf32>) {
    %copy = nvgpu.device_async_copy %A[%i, %t], %buf[%t], 1 : memref<64x1024xf32> to memref<1024xf32, #wg>
    %v = memref.load %buf[%t] : memref<1024xf32, #wg>
    %all = vector.broadcast %v : f32 to vector<100xf32>
    %next = arith.addf %part, %all : vector<100xf32>
    scf.yield %next : vector<100xf32>
  } {async_pipe.num_stages = 3 : i64}
  return %sum : vector<100xf32>
}

// -----

#wg = #gpu.address_space<workgroup>

// 104 of 255, and the block's size is not known: nothing to say.
func.func @within(%A : memref<64x1024xf32> {llvm.noalias}, %x : vector<100xf32>) -> vector<100xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %t = gpu.thread_id x
  %buf = memref.alloc() : memref<1024xf32, #wg>
  %sum = scf.for %i = %c0 to %c64 step %c1 iter_args(%part = %x) -> (vector<100xf32>) {
    %copy = nvgpu.device_async_copy %A[%i, %t], %buf[%t], 1 : memref<64x1024xf32> to memref<1024xf32, #wg>
    %v = memref.load %buf[%t] : memref<1024xf32, #wg>
    %all = vector.broadcast %v : f32 to vector<100xf32>
    %next = arith.addf %part, %all : vector<100xf32>
    scf.yield %next : vector<100xf32>
  } {async_pipe.num_stages = 3 : i64}
  return %sum : vector<100xf32>
}
