// What keeps its layout, and why.
// RUN: async-pipe-opt %s --split-input-file --verify-diagnostics --async-pipe-normalise-swizzle=chip=sm_80 -o /dev/null

#wg = #gpu.address_space<workgroup>
func.func @shown(%v: f32) attributes {known_block_size = array<i32: 32, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %t = gpu.thread_id x
  %tile = memref.alloc() : memref<32x32xf32, #wg>
  // expected-remark @below {{a tile keeps its layout: 'memref.subview' names it for others [swizzle-refused]}}
  %part = memref.subview %tile[0, 0] [8, 32] [1, 1] : memref<32x32xf32, #wg> to memref<8x32xf32, strided<[32, 1]>, #wg>
  memref.store %v, %part[%c0, %c0] : memref<8x32xf32, strided<[32, 1]>, #wg>
  scf.for %i = %c0 to %c8 step %c1 {
    memref.store %v, %tile[%t, %i] : memref<32x32xf32, #wg>
  } {async_pipe.num_stages = 2 : i64, async_pipe.swizzle = "auto"}
  return
}

// -----

#wg = #gpu.address_space<workgroup>
func.func @of_the_caller(%v: f32, %tile: memref<32x32xf32, #wg>) attributes {known_block_size = array<i32: 32, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %t = gpu.thread_id x
  scf.for %i = %c0 to %c8 step %c1 {
    // expected-remark @below {{a tile keeps its layout: it is no allocation of the kernel, which others may name [swizzle-refused]}}
    memref.store %v, %tile[%t, %i] : memref<32x32xf32, #wg>
  } {async_pipe.num_stages = 2 : i64, async_pipe.swizzle = "auto"}
  return
}

// -----

#wg = #gpu.address_space<workgroup>
func.func @one_row(%v: f32) attributes {known_block_size = array<i32: 32, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %t = gpu.thread_id x
  %tile = memref.alloc() : memref<32xf32, #wg>
  scf.for %i = %c0 to %c8 step %c1 {
    // expected-remark @below {{a tile keeps its layout: 'memref<32xf32, #gpu.address_space<workgroup>>' is no array of rows of static sizes side by side [swizzle-refused]}}
    memref.store %v, %tile[%t] : memref<32xf32, #wg>
  } {async_pipe.num_stages = 2 : i64, async_pipe.swizzle = "auto"}
  return
}

// -----

#wg = #gpu.address_space<workgroup>
func.func @without_conflicts(%v: f32) attributes {known_block_size = array<i32: 32, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %t = gpu.thread_id x
  %tile = memref.alloc() : memref<32x32xf32, #wg>
  scf.for %i = %c0 to %c8 step %c1 {
    // expected-remark @below {{a tile keeps its layout: its lanes meet in no bank [swizzle-refused]}}
    memref.store %v, %tile[%i, %t] : memref<32x32xf32, #wg>
  } {async_pipe.num_stages = 2 : i64, async_pipe.swizzle = "auto"}
  return
}

// -----

#wg = #gpu.address_space<workgroup>
func.func @by_what_is_loaded(%v: f32, %rows: memref<32xindex>) attributes {known_block_size = array<i32: 32, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %t = gpu.thread_id x
  %row = memref.load %rows[%t] : memref<32xindex>
  %tile = memref.alloc() : memref<32x32xf32, #wg>
  scf.for %i = %c0 to %c8 step %c1 {
    // expected-remark @below {{a tile keeps its layout: which banks 'memref.store' asks for is not known: a subscript is no sum of what thread ids decide and what is the same in all threads [swizzle-refused]}}
    memref.store %v, %tile[%row, %i] : memref<32x32xf32, #wg>
  } {async_pipe.num_stages = 2 : i64, async_pipe.swizzle = "auto"}
  return
}

// -----

#wg = #gpu.address_space<workgroup>
func.func @several_rows(%v: vector<2x4xf32>) attributes {known_block_size = array<i32: 32, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %tile = memref.alloc() : memref<32x32xf32, #wg>
  scf.for %i = %c0 to %c8 step %c1 {
    // expected-remark @below {{a tile keeps its layout: 'vector.store' accesses several rows at once [swizzle-refused]}}
    vector.store %v, %tile[%i, %c0] : memref<32x32xf32, #wg>, vector<2x4xf32>
  } {async_pipe.num_stages = 2 : i64, async_pipe.swizzle = "auto"}
  return
}

// -----

func.func @misspelt(%v: f32, %to: memref<32x32xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  // expected-error @below {{'async_pipe.swizzle' is "pad", expected "none" or "auto" [bad-annotation]}}
  scf.for %i = %c0 to %c8 step %c1 {
    memref.store %v, %to[%i, %i] : memref<32x32xf32>
  } {async_pipe.num_stages = 2 : i64, async_pipe.swizzle = "pad"}
  return
}
