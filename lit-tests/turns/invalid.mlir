// Which loops have no two groups of waves that could take turns, one reason a function.
// RUN: async-pipe-opt %s --target=rocdl:gfx950 --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(async-pipe-turns)'

func.func @four_waves(%n: index) attributes {gpu.known_block_size = array<i32: 256, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // expected-error @below {{cannot let two groups of waves take turns: 8 waves of 64 threads along x make two groups, and this is a block of 256 x 1 x 1 threads [roles-unsupported]}}
  // expected-note @below {{without 'async_pipe.roles' all waves copy and compute}}
  scf.for %i = %c0 to %n step %c1 {
  } {async_pipe.roles = "ping-pong"}
  return
}

// -----

func.func @no_products(%n: index) attributes {gpu.known_block_size = array<i32: 512, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // expected-error @below {{cannot let two groups of waves take turns: it has not two products of matrices to be shared out [roles-unsupported]}}
  // expected-note @below {{without 'async_pipe.roles' all waves copy and compute}}
  scf.for %i = %c0 to %n step %c1 {
  } {async_pipe.roles = "ping-pong"}
  return
}

// -----

func.func @two_products(%n: index, %x: vector<8xf16>, %zeros: vector<16xf32>)
    attributes {gpu.known_block_size = array<i32: 512, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // expected-error @below {{cannot let two groups of waves take turns: it does not copy, and wait for copies of an earlier iteration [roles-unsupported]}}
  // expected-note @below {{without 'async_pipe.roles' all waves copy and compute}}
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zeros) -> vector<16xf32> {
    %y = amdgpu.mfma 32x32x16 %x * %x + %acc blgp = none : vector<8xf16>, vector<8xf16>, vector<16xf32>
    %z = amdgpu.mfma 32x32x16 %x * %x + %y blgp = none : vector<8xf16>, vector<8xf16>, vector<16xf32>
    scf.yield %z : vector<16xf32>
  } {async_pipe.roles = "ping-pong"}
  return
}

// -----

#wg = #gpu.address_space<workgroup>
func.func @own_token(%A: memref<512xf32>, %s: memref<512xf32, #wg>, %n: index)
    attributes {gpu.known_block_size = array<i32: 512, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %t = gpu.thread_id x
  // expected-note @below {{the loop}}
  scf.for %i = %c0 to %n step %c1 {
    %a = nvgpu.device_async_copy %A[%t], %s[%t], 1 : memref<512xf32> to memref<512xf32, #wg>
    %g = nvgpu.device_async_create_group %a
    // expected-error @below {{cannot let two groups of waves take turns: 'nvgpu.device_async_wait' does not stand before all copies, reads and products [roles-unsupported]}}
    // expected-note @below {{without 'async_pipe.roles' all waves copy and compute}}
    nvgpu.device_async_wait %g
  } {async_pipe.roles = "ping-pong"}
  return
}

// -----

func.func @a_wide_barrier(%n: index) attributes {gpu.known_block_size = array<i32: 512, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // expected-note @below {{the loop}}
  scf.for %i = %c0 to %n step %c1 {
    // expected-error @below {{cannot let two groups of waves take turns: 'gpu.barrier' orders more than workgroup memory [roles-unsupported]}}
    // expected-note @below {{without 'async_pipe.roles' all waves copy and compute}}
    gpu.barrier
  } {async_pipe.roles = "ping-pong"}
  return
}

// -----

func.func @a_hint(%n: index) attributes {gpu.known_block_size = array<i32: 512, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // expected-note @below {{the loop}}
  scf.for %i = %c0 to %n step %c1 {
    // expected-error @below {{cannot let two groups of waves take turns: 'rocdl.s.setprio' is neither a copy nor a read nor a product [roles-unsupported]}}
    // expected-note @below {{without 'async_pipe.roles' all waves copy and compute}}
    rocdl.s.setprio 1
  } {async_pipe.roles = "ping-pong"}
  return
}
