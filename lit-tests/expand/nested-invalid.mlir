// RUN: async-pipe-opt %s --async-pipe-schedule --async-pipe-expand --split-input-file --verify-diagnostics

#workgroup = #gpu.address_space<workgroup>
func.func @async_inside(%A: memref<?x64xf32> {llvm.noalias}, %D: memref<?x64xf32> {llvm.noalias}, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c64 = arith.constant 64 : index
  %s = memref.alloc() : memref<4xf32, #workgroup>
  scf.for %k = %c0 to %n step %c1 {
    // expected-error @+1 {{an inner pipelined loop with async statements of its own stands inside a pipelined loop [nested-async]}}
    scf.for %j = %c0 to %c64 step %c4 {
      // expected-note @+1 {{one of its async ops}}
      %cp = nvgpu.device_async_copy %A[%k, %j], %s[%c0], 4 : memref<?x64xf32> to memref<4xf32, #workgroup>
      %g = nvgpu.device_async_create_group %cp
      nvgpu.device_async_wait %g
      %v = memref.load %s[%c0] : memref<4xf32, #workgroup>
      memref.store %v, %D[%k, %j] : memref<?x64xf32>
    } {async_pipe.num_stages = 2 : i64}
  } {async_pipe.stage = [0, 1, 1]}
  return
}

// -----

func.func @parts_apart(%A: memref<?xf32> {llvm.noalias}, %D: memref<?xf32> {llvm.noalias}, %n: index, %m: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %k = %c0 to %n step %c1 {
    // expected-error @+2 {{its parts cannot stand in different stages [inner-loop-versioned]}}
    // expected-note @+1 {{give the inner loop async_pipe.short_trip = "assume" if it always runs long enough}}
    scf.for %j = %c0 to %m step %c1 {
      %v = memref.load %A[%j] : memref<?xf32>
      memref.store %v, %D[%j] : memref<?xf32>
    } {async_pipe.stage = [0, 1]}
  } {async_pipe.stage = [0, 1, 1]}
  return
}

// -----

func.func @three_statements_each(%A: memref<64xf32> {llvm.noalias}, %D: memref<64xf32> {llvm.noalias}, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  // expected-error @+1 {{'async_pipe.stage' has 1 entries, but the loop has 3 statements [annotation-length]}}
  scf.for %k = %c0 to %n step %c1 {
    // expected-note @+3 {{statement 0 is the prologue of 'scf.for'}}
    // expected-note @+2 {{statement 1 is the kernel of 'scf.for'}}
    // expected-note @+1 {{statement 2 is the epilogue of 'scf.for'}}
    scf.for %j = %c0 to %c64 step %c1 {
      %v = memref.load %A[%j] : memref<64xf32>
      memref.store %v, %D[%j] : memref<64xf32>
    } {async_pipe.stage = [0, 1]}
  } {async_pipe.stage = [0]}
  return
}
