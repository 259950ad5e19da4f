// What mbarriers complete: arrivals, bytes and phases on all paths.
// RUN: async-pipe-opt %s --split-input-file --verify-diagnostics --async-pipe-check

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>

// One tile, waited for.
func.func @right(%x_: !llvm.ptr, %out: memref<64xf32> {llvm.noalias}) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %x = builtin.unrealized_conversion_cast %x_ : !llvm.ptr to !map
  %tile = memref.alloc() : memref<64xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %bytes = arith.constant 256 : index
  %false = arith.constant false
  %true = arith.constant true
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %full = nvgpu.mbarrier.create -> !bars
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %leader : !bars
  nvvm.fence.mbarrier.init
  gpu.barrier
  nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %leader : !bars
  nvgpu.tma.async.load %x[%c0], %full[%c0] to %tile, predicate = %leader : !map, !bars -> memref<64xf32, #wg>
  nvgpu.mbarrier.try_wait.parity %full[%c0], %false, %c64 : !bars
  %mirrored = arith.subi %c64, %t : index
  %at = arith.subi %mirrored, %c1 : index
  %v = memref.load %tile[%at] : memref<64xf32, #wg>
  memref.store %v, %out[%t] : memref<64xf32>
  return
}

// -----

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>

// Nobody waits.
func.func @no_wait(%x_: !llvm.ptr, %out: memref<64xf32> {llvm.noalias}) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %x = builtin.unrealized_conversion_cast %x_ : !llvm.ptr to !map
  %tile = memref.alloc() : memref<64xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %bytes = arith.constant 256 : index
  %false = arith.constant false
  %true = arith.constant true
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %full = nvgpu.mbarrier.create -> !bars
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %leader : !bars
  nvvm.fence.mbarrier.init
  gpu.barrier
  nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %leader : !bars
  // expected-note @below {{no wait for the phase of this copy has passed there}}
  nvgpu.tma.async.load %x[%c0], %full[%c0] to %tile, predicate = %leader : !map, !bars -> memref<64xf32, #wg>
  %mirrored = arith.subi %c64, %t : index
  %at = arith.subi %mirrored, %c1 : index
  // expected-error @below {{'memref.load' reads what 'nvgpu.tma.async.load' may still be writing [read-in-flight]}}
  %v = memref.load %tile[%at] : memref<64xf32, #wg>
  memref.store %v, %out[%t] : memref<64xf32>
  return
}

// -----

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>

// The phase that runs has parity 0.
func.func @parity(%x_: !llvm.ptr, %out: memref<64xf32> {llvm.noalias}) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %x = builtin.unrealized_conversion_cast %x_ : !llvm.ptr to !map
  %tile = memref.alloc() : memref<64xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %bytes = arith.constant 256 : index
  %false = arith.constant false
  %true = arith.constant true
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %full = nvgpu.mbarrier.create -> !bars
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %leader : !bars
  nvvm.fence.mbarrier.init
  gpu.barrier
  nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %leader : !bars
  // expected-note @below {{this belongs to the phase of parity 0, which runs}}
  nvgpu.tma.async.load %x[%c0], %full[%c0] to %tile, predicate = %leader : !map, !bars -> memref<64xf32, #wg>
  // expected-error @below {{'nvgpu.mbarrier.try_wait.parity' waits for the wrong parity: it passes before 'nvgpu.tma.async.load' is over [wrong-parity]}}
  nvgpu.mbarrier.try_wait.parity %full[%c0], %true, %c64 : !bars
  %mirrored = arith.subi %c64, %t : index
  %at = arith.subi %mirrored, %c1 : index
  %v = memref.load %tile[%at] : memref<64xf32, #wg>
  memref.store %v, %out[%t] : memref<64xf32>
  return
}

// -----

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>

// 256 bytes come, and 64 are announced.
func.func @bytes(%x_: !llvm.ptr, %out: memref<64xf32> {llvm.noalias}) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %x = builtin.unrealized_conversion_cast %x_ : !llvm.ptr to !map
  %tile = memref.alloc() : memref<64xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %bytes = arith.constant 256 : index
  %false = arith.constant false
  %true = arith.constant true
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %full = nvgpu.mbarrier.create -> !bars
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %leader : !bars
  nvvm.fence.mbarrier.init
  gpu.barrier
  // expected-error @below {{'nvgpu.mbarrier.arrive.expect_tx' announces other bytes than the copies of its phase bring [wrong-bytes]}}
  nvgpu.mbarrier.arrive.expect_tx %full[%c0], %c64, predicate = %leader : !bars
  // expected-note @below {{64 bytes are announced, 256 are copied: the wait may pass before they have landed}}
  nvgpu.tma.async.load %x[%c0], %full[%c0] to %tile, predicate = %leader : !map, !bars -> memref<64xf32, #wg>
  nvgpu.mbarrier.try_wait.parity %full[%c0], %false, %c64 : !bars
  %mirrored = arith.subi %c64, %t : index
  %at = arith.subi %mirrored, %c1 : index
  %v = memref.load %tile[%at] : memref<64xf32, #wg>
  memref.store %v, %out[%t] : memref<64xf32>
  return
}

// -----

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>

// No arrival ends the phase.
func.func @no_arrival(%x_: !llvm.ptr, %out: memref<64xf32> {llvm.noalias}) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %x = builtin.unrealized_conversion_cast %x_ : !llvm.ptr to !map
  %tile = memref.alloc() : memref<64xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %bytes = arith.constant 256 : index
  %false = arith.constant false
  %true = arith.constant true
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %full = nvgpu.mbarrier.create -> !bars
  // expected-note @below {{0 of its 1 arrivals came on this path, and all threads wait}}
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %leader : !bars
  nvvm.fence.mbarrier.init
  gpu.barrier
  // expected-error @below {{'nvgpu.mbarrier.try_wait.parity' waits for a phase that no arrival ends [deadlock]}}
  nvgpu.mbarrier.try_wait.parity %full[%c0], %false, %c64 : !bars
  %mirrored = arith.subi %c64, %t : index
  %at = arith.subi %mirrored, %c1 : index
  %v = memref.load %tile[%at] : memref<64xf32, #wg>
  memref.store %v, %out[%t] : memref<64xf32>
  return
}

// -----

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>

// The copy may not see the mbarrier.
func.func @no_fence(%x_: !llvm.ptr, %out: memref<64xf32> {llvm.noalias}) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %x = builtin.unrealized_conversion_cast %x_ : !llvm.ptr to !map
  %tile = memref.alloc() : memref<64xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %bytes = arith.constant 256 : index
  %false = arith.constant false
  %true = arith.constant true
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %full = nvgpu.mbarrier.create -> !bars
  // expected-note @below {{a fence for the async proxy is missing after this, in the thread that initialises}}
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %leader : !bars
  gpu.barrier
  nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %leader : !bars
  // expected-error @below {{'nvgpu.tma.async.load' is not ordered after the write of 'nvgpu.mbarrier.init': a fence for the async proxy is missing [missing-fence]}}
  nvgpu.tma.async.load %x[%c0], %full[%c0] to %tile, predicate = %leader : !map, !bars -> memref<64xf32, #wg>
  nvgpu.mbarrier.try_wait.parity %full[%c0], %false, %c64 : !bars
  %mirrored = arith.subi %c64, %t : index
  %at = arith.subi %mirrored, %c1 : index
  %v = memref.load %tile[%at] : memref<64xf32, #wg>
  memref.store %v, %out[%t] : memref<64xf32>
  return
}

// -----

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>

// Other threads may wait before the mbarrier is there.
func.func @not_visible(%x_: !llvm.ptr, %out: memref<64xf32> {llvm.noalias}) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %x = builtin.unrealized_conversion_cast %x_ : !llvm.ptr to !map
  %tile = memref.alloc() : memref<64xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %bytes = arith.constant 256 : index
  %false = arith.constant false
  %true = arith.constant true
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %full = nvgpu.mbarrier.create -> !bars
  // expected-note @below {{another thread initialises it: a barrier of the block is missing between}}
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %leader : !bars
  nvvm.fence.mbarrier.init
  nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %leader : !bars
  nvgpu.tma.async.load %x[%c0], %full[%c0] to %tile, predicate = %leader : !map, !bars -> memref<64xf32, #wg>
  // expected-error @below {{'nvgpu.mbarrier.try_wait.parity' may run before 'nvgpu.mbarrier.init' of another thread [init-not-visible]}}
  nvgpu.mbarrier.try_wait.parity %full[%c0], %false, %c64 : !bars
  %mirrored = arith.subi %c64, %t : index
  %at = arith.subi %mirrored, %c1 : index
  %v = memref.load %tile[%at] : memref<64xf32, #wg>
  memref.store %v, %out[%t] : memref<64xf32>
  return
}

// -----

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>

// All threads copy.
func.func @all_copy(%x_: !llvm.ptr, %out: memref<64xf32> {llvm.noalias}) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %x = builtin.unrealized_conversion_cast %x_ : !llvm.ptr to !map
  %tile = memref.alloc() : memref<64xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %bytes = arith.constant 256 : index
  %false = arith.constant false
  %true = arith.constant true
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %full = nvgpu.mbarrier.create -> !bars
  // expected-note @below {{64 threads issue it, and each copy takes off its bytes here}}
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %leader : !bars
  nvvm.fence.mbarrier.init
  gpu.barrier
  nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %leader : !bars
  // expected-error @below {{'nvgpu.tma.async.load' is issued by several threads [several-issuers]}}
  nvgpu.tma.async.load %x[%c0], %full[%c0] to %tile, predicate = %true : !map, !bars -> memref<64xf32, #wg>
  nvgpu.mbarrier.try_wait.parity %full[%c0], %false, %c64 : !bars
  %mirrored = arith.subi %c64, %t : index
  %at = arith.subi %mirrored, %c1 : index
  %v = memref.load %tile[%at] : memref<64xf32, #wg>
  memref.store %v, %out[%t] : memref<64xf32>
  return
}

// -----

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>

// All threads arrive.
func.func @all_arrive(%x_: !llvm.ptr, %out: memref<64xf32> {llvm.noalias}) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %x = builtin.unrealized_conversion_cast %x_ : !llvm.ptr to !map
  %tile = memref.alloc() : memref<64xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %bytes = arith.constant 256 : index
  %false = arith.constant false
  %true = arith.constant true
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %full = nvgpu.mbarrier.create -> !bars
  // expected-note @below {{64 threads arrive here; the mbarrier is initialised to 1 a phase}}
  // expected-note @below {{0 of its 1 arrivals came on this path, and all threads wait}}
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %leader : !bars
  nvvm.fence.mbarrier.init
  gpu.barrier
  // expected-error @below {{'nvgpu.mbarrier.arrive.expect_tx' arrives more often than the phase counts [too-many-arrivals]}}
  nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes : !bars
  nvgpu.tma.async.load %x[%c0], %full[%c0] to %tile, predicate = %leader : !map, !bars -> memref<64xf32, #wg>
  // No run comes here: the arrivals before stop the kernel.
  // expected-warning @below {{cannot tell whether 'nvgpu.mbarrier.try_wait.parity' waits for a phase that no arrival ends (undecided-path) [unknown-hazard]}}
  nvgpu.mbarrier.try_wait.parity %full[%c0], %false, %c64 : !bars
  %mirrored = arith.subi %c64, %t : index
  %at = arith.subi %mirrored, %c1 : index
  %v = memref.load %tile[%at] : memref<64xf32, #wg>
  memref.store %v, %out[%t] : memref<64xf32>
  return
}

// -----

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>

// One slot, any number of tiles.
func.func @ring_of_one(%x_: !llvm.ptr, %out: memref<64xf32> {llvm.noalias}, %n: index) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %x = builtin.unrealized_conversion_cast %x_ : !llvm.ptr to !map
  %tile = memref.alloc() : memref<64xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %bytes = arith.constant 256 : index
  %false = arith.constant false
  %true = arith.constant true
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %full = nvgpu.mbarrier.create -> !bars
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %leader : !bars
  nvvm.fence.mbarrier.init
  gpu.barrier
  %last = scf.for %i = %c0 to %n step %c1 iter_args(%phase = %false) -> (i1) {
    nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %leader : !bars
    nvgpu.tma.async.load %x[%c0], %full[%c0] to %tile, predicate = %leader : !map, !bars -> memref<64xf32, #wg>
    nvgpu.mbarrier.try_wait.parity %full[%c0], %phase, %c64 : !bars
    %mirrored = arith.subi %c64, %t : index
    %at = arith.subi %mirrored, %c1 : index
    %v = memref.load %tile[%at] : memref<64xf32, #wg>
    memref.store %v, %out[%t] : memref<64xf32>
    gpu.barrier
    %flipped = arith.xori %phase, %true : i1
    scf.yield %flipped : i1
  }
  return
}

// -----

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>

// The second tile is waited for with the parity of the first.
func.func @never_flips(%x_: !llvm.ptr, %out: memref<64xf32> {llvm.noalias}, %n: index) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %x = builtin.unrealized_conversion_cast %x_ : !llvm.ptr to !map
  %tile = memref.alloc() : memref<64xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %bytes = arith.constant 256 : index
  %false = arith.constant false
  %true = arith.constant true
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %full = nvgpu.mbarrier.create -> !bars
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %leader : !bars
  nvvm.fence.mbarrier.init
  gpu.barrier
  // expected-note @below {{for example with %arg2 = 2, in iteration 2 of this loop}}
  %last = scf.for %i = %c0 to %n step %c1 iter_args(%phase = %false) -> (i1) {
    nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %leader : !bars
    // expected-note @below {{this belongs to the next phase, which has the other parity}}
    nvgpu.tma.async.load %x[%c0], %full[%c0] to %tile, predicate = %leader : !map, !bars -> memref<64xf32, #wg>
    // expected-error @below {{'nvgpu.mbarrier.try_wait.parity' waits for the same parity again: it passes before 'nvgpu.tma.async.load' is over [phase-not-flipped]}}
    nvgpu.mbarrier.try_wait.parity %full[%c0], %phase, %c64 : !bars
    %mirrored = arith.subi %c64, %t : index
    %at = arith.subi %mirrored, %c1 : index
    %v = memref.load %tile[%at] : memref<64xf32, #wg>
    memref.store %v, %out[%t] : memref<64xf32>
    gpu.barrier
    %flipped = arith.xori %phase, %true : i1
    scf.yield %phase : i1
  }
  return
}

// -----

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>

// Nothing keeps the leader from going on.
func.func @overtaken(%x_: !llvm.ptr, %out: memref<64xf32> {llvm.noalias}, %n: index) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %x = builtin.unrealized_conversion_cast %x_ : !llvm.ptr to !map
  %tile = memref.alloc() : memref<64xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %bytes = arith.constant 256 : index
  %false = arith.constant false
  %true = arith.constant true
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %full = nvgpu.mbarrier.create -> !bars
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %leader : !bars
  nvvm.fence.mbarrier.init
  gpu.barrier
  // expected-note @below {{for example with %arg2 = 2, in iteration 2 of this loop}}
  %last = scf.for %i = %c0 to %n step %c1 iter_args(%phase = %false) -> (i1) {
    // expected-error @below {{'nvgpu.mbarrier.arrive.expect_tx' ends the next phase while other threads may still be at 'nvgpu.mbarrier.try_wait.parity' [phase-overtaken]}}
    nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %leader : !bars
    nvgpu.tma.async.load %x[%c0], %full[%c0] to %tile, predicate = %leader : !map, !bars -> memref<64xf32, #wg>
    // expected-note @below {{a thread that is still here then waits for the phase after the next one}}
    nvgpu.mbarrier.try_wait.parity %full[%c0], %phase, %c64 : !bars
    %mirrored = arith.subi %c64, %t : index
    %at = arith.subi %mirrored, %c1 : index
    %v = memref.load %tile[%at] : memref<64xf32, #wg>
    memref.store %v, %out[%t] : memref<64xf32>
    %flipped = arith.xori %phase, %true : i1
    scf.yield %flipped : i1
  }
  return
}

// -----

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>

// No thread has initialised it.
func.func @no_init(%x_: !llvm.ptr, %out: memref<64xf32> {llvm.noalias}) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %x = builtin.unrealized_conversion_cast %x_ : !llvm.ptr to !map
  %tile = memref.alloc() : memref<64xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %bytes = arith.constant 256 : index
  %false = arith.constant false
  %true = arith.constant true
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %full = nvgpu.mbarrier.create -> !bars
  // expected-error @below {{'nvgpu.mbarrier.arrive.expect_tx' uses an mbarrier that is not initialised [barrier-not-initialised]}}
  // expected-note @below {{no thread has initialised it before this}}
  nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %leader : !bars
  nvgpu.tma.async.load %x[%c0], %full[%c0] to %tile, predicate = %leader : !map, !bars -> memref<64xf32, #wg>
  nvgpu.mbarrier.try_wait.parity %full[%c0], %false, %c64 : !bars
  %mirrored = arith.subi %c64, %t : index
  %at = arith.subi %mirrored, %c1 : index
  %v = memref.load %tile[%at] : memref<64xf32, #wg>
  memref.store %v, %out[%t] : memref<64xf32>
  return
}
