// What async-pipe-stores refuses where a number asks, and says where none does.
// RUN: async-pipe-opt %s --split-input-file --verify-diagnostics --async-pipe-stores

#wg = #gpu.address_space<workgroup>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>

func.func @full_wait(%out: !map, %n: index, %value: f32) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %tile = memref.alloc() : memref<64xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %t = gpu.thread_id x
  %first = arith.cmpi eq, %t, %c0 : index
  // expected-note @below {{the loop}}
  scf.for %i = %c0 to %n step %c1 {
    memref.store %value, %tile[%t] : memref<64xf32, #wg>
    gpu.barrier
    nvgpu.tma.async.store %tile to %out[%i], predicate = %first : memref<64xf32, #wg> -> !map
    nvvm.cp.async.bulk.commit.group
    // expected-error @below {{cannot leave its stores in flight: its wait is for what they write, too, which somebody may read [store-not-overlapped]}}
    // expected-note @below {{add `{read}` if only the tile is written anew}}
    nvvm.cp.async.bulk.wait_group 0
    gpu.barrier
  } {async_pipe.stores_in_flight = 1 : i64}
  return
}

// -----

#wg = #gpu.address_space<workgroup>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>

func.func @other_elements(%out: !map, %n: index, %value: f32) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %tile = memref.alloc() : memref<64xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %t = gpu.thread_id x
  %first = arith.cmpi eq, %t, %c0 : index
  // expected-note @below {{what changes}}
  scf.for %i = %c0 to %n step %c1 {
    // expected-remark @below {{which elements 'memref.store' writes may change in the loop}}
    // expected-note @below {{`async_pipe.private` on the allocation says that each iteration writes all}}
    memref.store %value, %tile[%i] : memref<64xf32, #wg>
    gpu.barrier
    nvgpu.tma.async.store %tile to %out[%i], predicate = %first : memref<64xf32, #wg> -> !map
    nvvm.cp.async.bulk.commit.group
    nvvm.cp.async.bulk.wait_group 0 {read}
    gpu.barrier
  } {async_pipe.stores_in_flight}
  return
}

// -----

func.func @no_number(%n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // expected-error @below {{'async_pipe.stores_in_flight' is "all", expected 0 or more, or a unit attribute [bad-annotation]}}
  scf.for %i = %c0 to %n step %c1 {
  } {async_pipe.stores_in_flight = "all"}
  return
}
