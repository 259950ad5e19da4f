// Global memory behind tensor maps: what copies read, and what stores write.
// RUN: async-pipe-opt %s --split-input-file --verify-diagnostics --async-pipe-check

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>

// Written, fenced, copied; overwritten when the copy has landed.
func.func @right(%x: memref<64xf32>) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %tile = memref.alloc() : memref<64xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %bytes = arith.constant 256 : index
  %false = arith.constant false
  %one = arith.constant 1.0 : f32
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %any = memref.cast %x : memref<64xf32> to memref<*xf32>
  %map = nvgpu.tma.create.descriptor %any box[%c64] : memref<*xf32> -> !map
  %full = nvgpu.mbarrier.create -> !bars
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %leader : !bars
  nvvm.fence.mbarrier.init
  gpu.barrier
  memref.store %one, %x[%t] : memref<64xf32>
  nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.global>}
  gpu.barrier
  nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %leader : !bars
  nvgpu.tma.async.load %map[%c0], %full[%c0] to %tile, predicate = %leader : !map, !bars -> memref<64xf32, #wg>
  nvgpu.mbarrier.try_wait.parity %full[%c0], %false, %c64 : !bars
  memref.store %one, %x[%t] : memref<64xf32>
  return
}

// -----

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>

// A barrier alone does not show it to the copy.
func.func @no_fence(%x: memref<64xf32>) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %tile = memref.alloc() : memref<64xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %bytes = arith.constant 256 : index
  %false = arith.constant false
  %one = arith.constant 1.0 : f32
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %any = memref.cast %x : memref<64xf32> to memref<*xf32>
  %map = nvgpu.tma.create.descriptor %any box[%c64] : memref<*xf32> -> !map
  %full = nvgpu.mbarrier.create -> !bars
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %leader : !bars
  nvvm.fence.mbarrier.init
  gpu.barrier
  // expected-note @below {{a fence for the async proxy is missing after this, before the threads meet}}
  memref.store %one, %x[%t] : memref<64xf32>
  gpu.barrier
  nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %leader : !bars
  // expected-error @below {{'nvgpu.tma.async.load' is not ordered after the write of 'memref.store': a fence for the async proxy is missing [missing-fence]}}
  nvgpu.tma.async.load %map[%c0], %full[%c0] to %tile, predicate = %leader : !map, !bars -> memref<64xf32, #wg>
  nvgpu.mbarrier.try_wait.parity %full[%c0], %false, %c64 : !bars
  return
}

// -----

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>

// The copy may not have read it yet.
func.func @too_early(%x: memref<64xf32>) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %tile = memref.alloc() : memref<64xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %bytes = arith.constant 256 : index
  %false = arith.constant false
  %one = arith.constant 1.0 : f32
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %any = memref.cast %x : memref<64xf32> to memref<*xf32>
  %map = nvgpu.tma.create.descriptor %any box[%c64] : memref<*xf32> -> !map
  %full = nvgpu.mbarrier.create -> !bars
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %leader : !bars
  nvvm.fence.mbarrier.init
  gpu.barrier
  nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %leader : !bars
  // expected-note @below {{it reads global memory until a wait for the phase of this copy has passed}}
  nvgpu.tma.async.load %map[%c0], %full[%c0] to %tile, predicate = %leader : !map, !bars -> memref<64xf32, #wg>
  // expected-error @below {{'memref.store' writes what 'nvgpu.tma.async.load' may still be reading [source-overwritten]}}
  memref.store %one, %x[%t] : memref<64xf32>
  nvgpu.mbarrier.try_wait.parity %full[%c0], %false, %c64 : !bars
  return
}

// -----

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>

// The wait is for what the store reads.
func.func @reads_alone(%x: memref<64xf32>) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %tile = memref.alloc() : memref<64xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %bytes = arith.constant 256 : index
  %false = arith.constant false
  %one = arith.constant 1.0 : f32
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %any = memref.cast %x : memref<64xf32> to memref<*xf32>
  %map = nvgpu.tma.create.descriptor %any box[%c64] : memref<*xf32> -> !map
  %full = nvgpu.mbarrier.create -> !bars
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %leader : !bars
  nvvm.fence.mbarrier.init
  gpu.barrier
  memref.store %one, %tile[%t] : memref<64xf32, #wg>
  nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
  gpu.barrier
  // expected-note @below {{it writes until a wait with count 0 or less, without `read`}}
  nvgpu.tma.async.store %tile to %map[%c0], predicate = %leader : memref<64xf32, #wg> -> !map
  nvvm.cp.async.bulk.commit.group
  nvvm.cp.async.bulk.wait_group 0 {read}
  gpu.barrier
  // expected-error @below {{'memref.load' reads what 'nvgpu.tma.async.store' may still be writing [read-in-flight]}}
  %v = memref.load %x[%t] : memref<64xf32>
  return
}

// -----

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>

// One thread waits, all read.
func.func @others_do_not_know(%x: memref<64xf32>) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %tile = memref.alloc() : memref<64xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %bytes = arith.constant 256 : index
  %false = arith.constant false
  %one = arith.constant 1.0 : f32
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %any = memref.cast %x : memref<64xf32> to memref<*xf32>
  %map = nvgpu.tma.create.descriptor %any box[%c64] : memref<*xf32> -> !map
  %full = nvgpu.mbarrier.create -> !bars
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %leader : !bars
  nvvm.fence.mbarrier.init
  gpu.barrier
  memref.store %one, %tile[%t] : memref<64xf32, #wg>
  nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
  gpu.barrier
  // expected-note @below {{only some threads waited for it: a barrier of the block is missing}}
  nvgpu.tma.async.store %tile to %map[%c0], predicate = %leader : memref<64xf32, #wg> -> !map
  nvvm.cp.async.bulk.commit.group
  nvvm.cp.async.bulk.wait_group 0
  // expected-error @below {{'memref.load' uses what 'nvgpu.tma.async.store' of another thread did, without a barrier after its wait [not-visible]}}
  %v = memref.load %x[%t] : memref<64xf32>
  return
}

// -----

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>

// What a map describes that the kernel is given may be any argument.
func.func @may_be_the_same(%map_: !llvm.ptr, %x: memref<64xf32>) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %tile = memref.alloc() : memref<64xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %bytes = arith.constant 256 : index
  %false = arith.constant false
  %one = arith.constant 1.0 : f32
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %map = builtin.unrealized_conversion_cast %map_ : !llvm.ptr to !map
  %full = nvgpu.mbarrier.create -> !bars
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %leader : !bars
  nvvm.fence.mbarrier.init
  gpu.barrier
  nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %leader : !bars
  // expected-note @below {{it reads global memory until a wait for the phase of this copy has passed}}
  nvgpu.tma.async.load %map[%c0], %full[%c0] to %tile, predicate = %leader : !map, !bars -> memref<64xf32, #wg>
  // expected-note @below {{if they never share memory, say so: `llvm.noalias` on the argument}}
  // expected-warning @below {{cannot tell whether 'memref.store' writes what 'nvgpu.tma.async.load' may still be reading (may-alias) [unknown-hazard]}}
  memref.store %one, %x[%t] : memref<64xf32>
  nvgpu.mbarrier.try_wait.parity %full[%c0], %false, %c64 : !bars
  return
}

// -----

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>

// Unless the argument says that nothing else leads there.
func.func @is_not(%map_: !llvm.ptr, %x: memref<64xf32> {llvm.noalias}) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %tile = memref.alloc() : memref<64xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %bytes = arith.constant 256 : index
  %false = arith.constant false
  %one = arith.constant 1.0 : f32
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %map = builtin.unrealized_conversion_cast %map_ : !llvm.ptr to !map
  %full = nvgpu.mbarrier.create -> !bars
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %leader : !bars
  nvvm.fence.mbarrier.init
  gpu.barrier
  nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %leader : !bars
  nvgpu.tma.async.load %map[%c0], %full[%c0] to %tile, predicate = %leader : !map, !bars -> memref<64xf32, #wg>
  memref.store %one, %x[%t] : memref<64xf32>
  nvgpu.mbarrier.try_wait.parity %full[%c0], %false, %c64 : !bars
  return
}
