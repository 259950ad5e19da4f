// An mbarrier beyond its group, a slot beyond its buffer.
// RUN: async-pipe-opt %s --split-input-file --verify-diagnostics --async-pipe-check

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg, num_barriers = 2>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>

// Two slots, two mbarriers.
func.func @right(%x_: !llvm.ptr) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %x = builtin.unrealized_conversion_cast %x_ : !llvm.ptr to !map
  %tiles = memref.alloc() : memref<2x64xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c64 = arith.constant 64 : index
  %bytes = arith.constant 256 : index
  %false = arith.constant false
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %full = nvgpu.mbarrier.create -> !bars
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %leader : !bars
  nvvm.fence.mbarrier.init
  gpu.barrier
  nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %leader : !bars
  %tile = memref.subview %tiles[%c1, 0][1, 64][1, 1] : memref<2x64xf32, #wg> to memref<64xf32, strided<[1], offset: ?>, #wg>
  nvgpu.tma.async.load %x[%c0], %full[%c0] to %tile, predicate = %leader : !map, !bars -> memref<64xf32, strided<[1], offset: ?>, #wg>
  nvgpu.mbarrier.try_wait.parity %full[%c0], %false, %c64 : !bars
  return
}

// -----

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg, num_barriers = 2>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>

// There are two.
func.func @third_mbarrier(%x_: !llvm.ptr) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %x = builtin.unrealized_conversion_cast %x_ : !llvm.ptr to !map
  %tiles = memref.alloc() : memref<2x64xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c64 = arith.constant 64 : index
  %bytes = arith.constant 256 : index
  %false = arith.constant false
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  // expected-note @below {{it names mbarrier 2 of 2, counted from 0}}
  %full = nvgpu.mbarrier.create -> !bars
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %leader : !bars
  nvvm.fence.mbarrier.init
  gpu.barrier
  // expected-error @below {{'nvgpu.mbarrier.arrive.expect_tx' is out of bounds [out-of-bounds]}}
  nvgpu.mbarrier.arrive.expect_tx %full[%c2], %bytes, predicate = %leader : !bars
  %tile = memref.subview %tiles[%c1, 0][1, 64][1, 1] : memref<2x64xf32, #wg> to memref<64xf32, strided<[1], offset: ?>, #wg>
  nvgpu.tma.async.load %x[%c0], %full[%c2] to %tile, predicate = %leader : !map, !bars -> memref<64xf32, strided<[1], offset: ?>, #wg>
  nvgpu.mbarrier.try_wait.parity %full[%c2], %false, %c64 : !bars
  return
}

// -----

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg, num_barriers = 2>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>

// There are two.
func.func @third_slot(%x_: !llvm.ptr) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %x = builtin.unrealized_conversion_cast %x_ : !llvm.ptr to !map
  // expected-note @below {{it touches bytes 512 to 767 of 512, counted from 0}}
  %tiles = memref.alloc() : memref<2x64xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c64 = arith.constant 64 : index
  %bytes = arith.constant 256 : index
  %false = arith.constant false
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %full = nvgpu.mbarrier.create -> !bars
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %leader : !bars
  nvvm.fence.mbarrier.init
  gpu.barrier
  nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %leader : !bars
  %tile = memref.subview %tiles[%c2, 0][1, 64][1, 1] : memref<2x64xf32, #wg> to memref<64xf32, strided<[1], offset: ?>, #wg>
  // expected-error @below {{'nvgpu.tma.async.load' is out of bounds [out-of-bounds]}}
  nvgpu.tma.async.load %x[%c0], %full[%c0] to %tile, predicate = %leader : !map, !bars -> memref<64xf32, strided<[1], offset: ?>, #wg>
  nvgpu.mbarrier.try_wait.parity %full[%c0], %false, %c64 : !bars
  return
}
