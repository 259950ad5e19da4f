// RUN: async-pipe-opt %s --split-input-file --async-pipe-check --verify-diagnostics
// RUN: async-pipe-opt %s --split-input-file --async-pipe-schedule --async-pipe-expand --async-pipe-count-waits --async-pipe-check --verify-diagnostics -o /dev/null

// What the author asserts of a loop holds for its accesses once the loop is expanded: %A and %O
// may be the same memory, and nothing is said about it.
func.func @asserted(%A: memref<4096xf32>, %O: memref<4096xf32>)
    attributes {known_block_size = array<i32: 64, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c4096 = arith.constant 4096 : index
  %tile = memref.alloc() : memref<64xf32, #gpu.address_space<workgroup>>
  %mine = gpu.thread_id x
  scf.for %i = %c0 to %c4096 step %c64 {
    %at = arith.addi %i, %mine : index
    %v = memref.load %A[%at] : memref<4096xf32>
    memref.store %v, %tile[%mine] : memref<64xf32, #gpu.address_space<workgroup>>
    gpu.barrier
    %w = memref.load %tile[%mine] : memref<64xf32, #gpu.address_space<workgroup>>
    memref.store %w, %O[%at] : memref<4096xf32>
    gpu.barrier
  } {async_pipe.num_stages = 3 : i64, async_pipe.independent}
  return
}

// -----

// A conflict that is proven stays an error.
func.func @proven(%A: memref<64xf32>)
    attributes {known_block_size = array<i32: 64, 1, 1>} {
  %tile = memref.alloc() : memref<64xf32, #gpu.address_space<workgroup>>
  %mine = gpu.thread_id x
  // expected-note @below {{this op is in flight there, with 0 younger groups}}
  %copy = nvgpu.device_async_copy %A[%mine], %tile[%mine], 1 {async_pipe.independent = 1 : i64} : memref<64xf32> to memref<64xf32, #gpu.address_space<workgroup>>
  %group = nvgpu.device_async_create_group %copy
  // expected-error @below {{'memref.load' reads what 'nvgpu.device_async_copy' may still be writing [read-in-flight]}}
  // expected-note @below {{a wait is missing before this: count 0 would do}}
  %v = memref.load %tile[%mine] {async_pipe.independent = 1 : i64} : memref<64xf32, #gpu.address_space<workgroup>>
  nvgpu.device_async_wait %group {numGroups = 0 : i32}
  vector.print %v : f32
  return
}

// -----

// Nobody said anything about accesses of two loops.
func.func @two_loops(%A: memref<64xf32>, %O: memref<64xf32>) {
  %tile = memref.alloc() : memref<64xf32, #gpu.address_space<workgroup>>
  %one = arith.constant 1.0 : f32
  %c0 = arith.constant 0 : index
  // expected-note @below {{this op is in flight there, with 0 younger groups}}
  %copy = nvgpu.device_async_copy %A[%c0], %tile[%c0], 1 {async_pipe.independent = 1 : i64} : memref<64xf32> to memref<64xf32, #gpu.address_space<workgroup>>
  %group = nvgpu.device_async_create_group %copy
  // expected-warning @below {{cannot tell whether 'memref.store' writes what 'nvgpu.device_async_copy' may still be reading (may-alias) [unknown-hazard]}}
  // expected-note @below {{if they never share memory, say so: `llvm.noalias` on the argument}}
  // expected-note @below {{a wait is missing before this: count 0 would do}}
  memref.store %one, %O[%c0] {async_pipe.independent = 2 : i64} : memref<64xf32>
  nvgpu.device_async_wait %group {numGroups = 0 : i32}
  return
}
