// Warp-specialised: a thread copies, two warps read; empty mbarriers give the slots back.
// RUN: async-pipe-opt %s --split-input-file --verify-diagnostics --async-pipe-check

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg, num_barriers = 2>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>

// Any number of tiles, in any order of the warps.
func.func @right(%x_: !llvm.ptr, %out: memref<64x?xf32> {llvm.noalias}, %n: index) attributes {gpu.known_block_size = array<i32: 96, 1, 1>} {
  %x = builtin.unrealized_conversion_cast %x_ : !llvm.ptr to !map
  %tiles = memref.alloc() : memref<2x64xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c63 = arith.constant 63 : index
  %c64 = arith.constant 64 : index
  %bytes = arith.constant 256 : index
  %false = arith.constant false
  %true = arith.constant true
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %full = nvgpu.mbarrier.create -> !bars
  %empty = nvgpu.mbarrier.create -> !bars
  scf.for %s = %c0 to %c2 step %c1 {
    nvgpu.mbarrier.init %full[%s], %c1, predicate = %leader : !bars
    nvgpu.mbarrier.init %empty[%s], %c64, predicate = %leader : !bars
  }
  nvvm.fence.mbarrier.init
  gpu.barrier
  %reads = arith.cmpi ult, %t, %c64 : index
  %copies = arith.cmpi eq, %t, %c64 : index
  scf.if %reads {
    %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%slot = %c0, %phase = %false) -> (index, i1) {
      nvgpu.mbarrier.try_wait.parity %full[%slot], %phase, %c64 : !bars
      %mirrored = arith.subi %c63, %t : index
      %v = memref.load %tiles[%slot, %mirrored] : memref<2x64xf32, #wg>
      memref.store %v, %out[%t, %i] : memref<64x?xf32>
      %token = nvgpu.mbarrier.arrive %empty[%slot] : !bars -> !nvgpu.mbarrier.token
      %next = arith.addi %slot, %c1 : index
      %wraps = arith.cmpi eq, %next, %c2 : index
      %slot_ = arith.select %wraps, %c0, %next : index
      %phase_ = arith.xori %phase, %wraps : i1
      scf.yield %slot_, %phase_ : index, i1
    }
  } else {
    scf.if %copies {
      %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%slot = %c0, %phase = %true) -> (index, i1) {
        %from = arith.muli %i, %c64 : index
        %tile = memref.subview %tiles[%slot, 0] [1, 64] [1, 1] : memref<2x64xf32, #wg> to memref<64xf32, strided<[1], offset: ?>, #wg>
        nvgpu.mbarrier.try_wait.parity %empty[%slot], %phase, %c64 : !bars
        nvgpu.mbarrier.arrive.expect_tx %full[%slot], %bytes : !bars
        nvgpu.tma.async.load %x[%from], %full[%slot] to %tile : !map, !bars -> memref<64xf32, strided<[1], offset: ?>, #wg>
        %next = arith.addi %slot, %c1 : index
        %wraps = arith.cmpi eq, %next, %c2 : index
        %slot_ = arith.select %wraps, %c0, %next : index
        %phase_ = arith.xori %phase, %wraps : i1
        scf.yield %slot_, %phase_ : index, i1
      }
    }
  }
  return
}

// -----

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg, num_barriers = 2>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>

// The slots are free at first, but the producer waits for them.
func.func @wrong_parity(%x_: !llvm.ptr, %out: memref<64x?xf32> {llvm.noalias}, %n: index) attributes {gpu.known_block_size = array<i32: 96, 1, 1>} {
  %x = builtin.unrealized_conversion_cast %x_ : !llvm.ptr to !map
  %tiles = memref.alloc() : memref<2x64xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c63 = arith.constant 63 : index
  %c64 = arith.constant 64 : index
  %bytes = arith.constant 256 : index
  %false = arith.constant false
  %true = arith.constant true
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %full = nvgpu.mbarrier.create -> !bars
  %empty = nvgpu.mbarrier.create -> !bars
  scf.for %s = %c0 to %c2 step %c1 {
    nvgpu.mbarrier.init %full[%s], %c1, predicate = %leader : !bars
    nvgpu.mbarrier.init %empty[%s], %c64, predicate = %leader : !bars
  }
  nvvm.fence.mbarrier.init
  gpu.barrier
  %reads = arith.cmpi ult, %t, %c64 : index
  %copies = arith.cmpi eq, %t, %c64 : index
  scf.if %reads {
    // expected-note @below {{for example with %arg2 = 1, in iteration 1 of this loop}}
    %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%slot = %c0, %phase = %false) -> (index, i1) {
      // expected-error @+1 {{'nvgpu.mbarrier.try_wait.parity' waits for a phase that no arrival ends}}
      nvgpu.mbarrier.try_wait.parity %full[%slot], %phase, %c64 : !bars
      %mirrored = arith.subi %c63, %t : index
      %v = memref.load %tiles[%slot, %mirrored] : memref<2x64xf32, #wg>
      memref.store %v, %out[%t, %i] : memref<64x?xf32>
      %token = nvgpu.mbarrier.arrive %empty[%slot] : !bars -> !nvgpu.mbarrier.token
      %next = arith.addi %slot, %c1 : index
      %wraps = arith.cmpi eq, %next, %c2 : index
      %slot_ = arith.select %wraps, %c0, %next : index
      %phase_ = arith.xori %phase, %wraps : i1
      scf.yield %slot_, %phase_ : index, i1
    }
  } else {
    scf.if %copies {
      %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%slot = %c0, %phase = %false) -> (index, i1) {
        %from = arith.muli %i, %c64 : index
        %tile = memref.subview %tiles[%slot, 0] [1, 64] [1, 1] : memref<2x64xf32, #wg> to memref<64xf32, strided<[1], offset: ?>, #wg>
        // expected-note @+1 {{who may bring the rest waits here}}
        nvgpu.mbarrier.try_wait.parity %empty[%slot], %phase, %c64 : !bars
        nvgpu.mbarrier.arrive.expect_tx %full[%slot], %bytes : !bars
        nvgpu.tma.async.load %x[%from], %full[%slot] to %tile : !map, !bars -> memref<64xf32, strided<[1], offset: ?>, #wg>
        %next = arith.addi %slot, %c1 : index
        %wraps = arith.cmpi eq, %next, %c2 : index
        %slot_ = arith.select %wraps, %c0, %next : index
        %phase_ = arith.xori %phase, %wraps : i1
        scf.yield %slot_, %phase_ : index, i1
      }
    }
  }
  return
}

// -----

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg, num_barriers = 2>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>

// No slot comes back: the third tile is waited for.
func.func @never_given_back(%x_: !llvm.ptr, %out: memref<64x?xf32> {llvm.noalias}, %n: index) attributes {gpu.known_block_size = array<i32: 96, 1, 1>} {
  %x = builtin.unrealized_conversion_cast %x_ : !llvm.ptr to !map
  %tiles = memref.alloc() : memref<2x64xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c63 = arith.constant 63 : index
  %c64 = arith.constant 64 : index
  %bytes = arith.constant 256 : index
  %false = arith.constant false
  %true = arith.constant true
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %full = nvgpu.mbarrier.create -> !bars
  %empty = nvgpu.mbarrier.create -> !bars
  scf.for %s = %c0 to %c2 step %c1 {
    nvgpu.mbarrier.init %full[%s], %c1, predicate = %leader : !bars
    nvgpu.mbarrier.init %empty[%s], %c64, predicate = %leader : !bars
  }
  nvvm.fence.mbarrier.init
  gpu.barrier
  %reads = arith.cmpi ult, %t, %c64 : index
  %copies = arith.cmpi eq, %t, %c64 : index
  scf.if %reads {
    // expected-note @below {{for example with %arg2 = 3, in iteration 3 of this loop}}
    %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%slot = %c0, %phase = %false) -> (index, i1) {
      // expected-error @+1 {{'nvgpu.mbarrier.try_wait.parity' waits for a phase that no arrival ends}}
      nvgpu.mbarrier.try_wait.parity %full[%slot], %phase, %c64 : !bars
      %mirrored = arith.subi %c63, %t : index
      %v = memref.load %tiles[%slot, %mirrored] : memref<2x64xf32, #wg>
      memref.store %v, %out[%t, %i] : memref<64x?xf32>
      %next = arith.addi %slot, %c1 : index
      %wraps = arith.cmpi eq, %next, %c2 : index
      %slot_ = arith.select %wraps, %c0, %next : index
      %phase_ = arith.xori %phase, %wraps : i1
      scf.yield %slot_, %phase_ : index, i1
    }
  } else {
    scf.if %copies {
      %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%slot = %c0, %phase = %true) -> (index, i1) {
        %from = arith.muli %i, %c64 : index
        %tile = memref.subview %tiles[%slot, 0] [1, 64] [1, 1] : memref<2x64xf32, #wg> to memref<64xf32, strided<[1], offset: ?>, #wg>
        // expected-note @+1 {{who may bring the rest waits here}}
        nvgpu.mbarrier.try_wait.parity %empty[%slot], %phase, %c64 : !bars
        nvgpu.mbarrier.arrive.expect_tx %full[%slot], %bytes : !bars
        nvgpu.tma.async.load %x[%from], %full[%slot] to %tile : !map, !bars -> memref<64xf32, strided<[1], offset: ?>, #wg>
        %next = arith.addi %slot, %c1 : index
        %wraps = arith.cmpi eq, %next, %c2 : index
        %slot_ = arith.select %wraps, %c0, %next : index
        %phase_ = arith.xori %phase, %wraps : i1
        scf.yield %slot_, %phase_ : index, i1
      }
    }
  }
  return
}
