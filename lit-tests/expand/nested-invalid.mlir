// RUN: async-pipe-opt %s --async-pipe-schedule --async-pipe-expand --split-input-file --verify-diagnostics

#workgroup = #gpu.address_space<workgroup>
func.func @async_inside(%A: memref<?x64xf32> {llvm.noalias}, %D: memref<?x64xf32> {llvm.noalias}, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c64 = arith.constant 64 : index
  %s = memref.alloc() : memref<4xf32, #workgroup>
  scf.for %k = %c0 to %n step %c1 {
    // expected-error @+1 {{the prologue, kernel and epilogue of an inner pipelined loop with async statements of its own have to follow each other in one stage of the outer loop [nested-async]}}
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
    // expected-note @+1 {{give the inner loop async_pipe.short_trip = "predicate", or "assume" if it always runs long enough}}
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

// -----

// The inner loop's products are handed to the next tile, so the next tile's first ones cannot run
// before this tile's last.
func.func @tile_needs_the_one_before(%A: memref<64x64xf32> {llvm.noalias}, %D: memref<64xf32> {llvm.noalias}, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  // expected-note @+1 {{assert `async_pipe.independent` on this loop if they never overlap}}
  scf.for %k = %c0 to %n step %c1 {
    scf.for %j = %c0 to %c64 step %c1 {
      // expected-error @+1 {{cannot pipeline: 'memref.load' in stage 0 may read what 'memref.store' in stage 1 writes 1 iteration before, and would run before it [unproven-independence]}}
      %v = memref.load %D[%j] : memref<64xf32>
      %w = arith.addf %v, %v : f32
      // expected-note @+1 {{the 'memref.store' that may write it}}
      memref.store %w, %D[%j] : memref<64xf32>
    } {async_pipe.stage = [0, 1]}
  } {async_pipe.stage = [0, 1, 1], async_pipe.order = [0, 1, 2]}
  return
}

// -----

// A value that the inner loop makes is used by an earlier stage of the outer one.
func.func @result_used_too_early(%A: memref<64x64xf32> {llvm.noalias}, %D: memref<64xf32> {llvm.noalias}, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant 0.0 : f32
  scf.for %k = %c0 to %n step %c1 {
    %sum = scf.for %j = %c0 to %c64 step %c1 iter_args(%acc = %zero) -> f32 {
      %v = memref.load %A[%k, %j] : memref<64x64xf32>
      %w = scf.execute_region -> f32 no_inline {
        // expected-note @+1 {{the value is made here}}
        %x = arith.addf %acc, %v : f32
        scf.yield %x : f32
      }
      scf.yield %w : f32
    } {async_pipe.stage = [0, 1]}
    // expected-error @+1 {{'memref.store' in stage 0 uses a value that is made later in the pipeline, in stage 1 [dependence-violated]}}
    memref.store %sum, %D[%k] : memref<64xf32>
  } {async_pipe.stage = [0, 1, 1, 0], async_pipe.order = [0, 1, 2, 3]}
  return
}

// -----

// The inner loop is not pipelinable: nothing of the nest is.
func.func @inner_not_pipelinable(%A: memref<64xf32> {llvm.noalias}, %D: memref<64xf32> {llvm.noalias}, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  scf.for %k = %c0 to %n step %c1 {
    scf.for %j = %c1 to %c64 step %c1 {
      %before = arith.subi %j, %c1 : index
      // expected-error @+1 {{cannot pipeline: 'memref.load' in stage 0 reads what 'memref.store' in stage 1 writes 1 iteration before, and would run before it [dependence-violated]}}
      %v = memref.load %D[%before] : memref<64xf32>
      // expected-note @+1 {{the 'memref.store' that writes it}}
      memref.store %v, %D[%j] : memref<64xf32>
    } {async_pipe.stage = [0, 1]}
  } {async_pipe.stage = [0, 0, 0]}
  return
}
