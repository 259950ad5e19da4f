// What cannot be parted into roles, one reason a function.
// RUN: async-pipe-opt %s --split-input-file --verify-diagnostics --async-pipe-schedule --async-pipe-expand

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>
func.func @first_threads_issue(%map_: !llvm.ptr, %out: memref<?x64xf32> {llvm.noalias}, %n: index)
    attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %map = builtin.unrealized_conversion_cast %map_ : !llvm.ptr to !map
  %tile = memref.alloc() : memref<64xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %bytes = arith.constant 256 : index
  %false = arith.constant false
  %true = arith.constant true
  %t = gpu.thread_id x
  %first = arith.cmpi eq, %t, %c1 : index
  %full = nvgpu.mbarrier.create -> !bars
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %first : !bars
  gpu.barrier
  // expected-note @below {{the loop}}
  %last = scf.for %i = %c0 to %n step %c1 iter_args(%phase = %false) -> (i1) {
    %at = arith.muli %i, %c64 : index
    // expected-error @below {{cannot let warps of their own copy: the copies are not issued by thread 0 of a block along x [roles-unsupported]}}
    // expected-note @below {{give all of them the predicate `gpu.thread_id x == 0`}}
    nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %first : !bars
    nvgpu.tma.async.load %map[%at], %full[%c0] to %tile, predicate = %first : !map, !bars -> memref<64xf32, #wg>
    nvgpu.mbarrier.try_wait.parity %full[%c0], %phase, %c64 : !bars
    %v = memref.load %tile[%t] : memref<64xf32, #wg>
    memref.store %v, %out[%i, %t] : memref<?x64xf32>
    gpu.barrier
    %flip = arith.xori %phase, %true : i1
    scf.yield %flip : i1
  } {async_pipe.num_stages = 2 : i64, async_pipe.roles = "specialised"}
  return
}


// -----

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>
func.func @stores_before(%map_: !llvm.ptr, %out: memref<?x64xf32> {llvm.noalias}, %n: index, %numbers: memref<64xindex>)
    attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %map = builtin.unrealized_conversion_cast %map_ : !llvm.ptr to !map
  %tile = memref.alloc() : memref<64xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %bytes = arith.constant 256 : index
  %false = arith.constant false
  %true = arith.constant true
  %t = gpu.thread_id x
  %first = arith.cmpi eq, %t, %c0 : index
  // expected-error @below {{cannot let warps of their own copy: 'memref.store' comes before the barrier that follows the mbarriers' initialisation, and threads that are added would run it too [roles-unsupported]}}
  // expected-note @below {{initialise the mbarriers before it}}
  memref.store %t, %numbers[%t] : memref<64xindex>
  %full = nvgpu.mbarrier.create -> !bars
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %first : !bars
  gpu.barrier
  // expected-note @below {{the loop}}
  %last = scf.for %i = %c0 to %n step %c1 iter_args(%phase = %false) -> (i1) {
    %at = arith.muli %i, %c64 : index
    nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %first : !bars
    nvgpu.tma.async.load %map[%at], %full[%c0] to %tile, predicate = %first : !map, !bars -> memref<64xf32, #wg>
    nvgpu.mbarrier.try_wait.parity %full[%c0], %phase, %c64 : !bars
    %v = memref.load %tile[%t] : memref<64xf32, #wg>
    memref.store %v, %out[%i, %t] : memref<?x64xf32>
    gpu.barrier
    %flip = arith.xori %phase, %true : i1
    scf.yield %flip : i1
  } {async_pipe.num_stages = 2 : i64, async_pipe.roles = "specialised"}
  return
}


// -----

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>
func.func @tile_of_a_thread(%map_: !llvm.ptr, %out: memref<?x64xf32> {llvm.noalias}, %n: index)
    attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %map = builtin.unrealized_conversion_cast %map_ : !llvm.ptr to !map
  %tile = memref.alloc() : memref<64xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %bytes = arith.constant 256 : index
  %false = arith.constant false
  %true = arith.constant true
  %t = gpu.thread_id x
  %first = arith.cmpi eq, %t, %c0 : index
  %full = nvgpu.mbarrier.create -> !bars
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %first : !bars
  gpu.barrier
  // expected-note @below {{the loop}}
  %last = scf.for %i = %c0 to %n step %c1 iter_args(%phase = %false) -> (i1) {
    %at = arith.muli %t, %c64 : index
    nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %first : !bars
    // expected-error @below {{cannot let warps of their own copy: what is copied depends on the thread, by 'nvgpu.tma.async.load' [roles-values]}}
    // expected-note @below {{let coordinates, bytes and conditions be the same in all threads}}
    nvgpu.tma.async.load %map[%at], %full[%c0] to %tile, predicate = %first : !map, !bars -> memref<64xf32, #wg>
    nvgpu.mbarrier.try_wait.parity %full[%c0], %phase, %c64 : !bars
    %v = memref.load %tile[%t] : memref<64xf32, #wg>
    memref.store %v, %out[%i, %t] : memref<?x64xf32>
    gpu.barrier
    %flip = arith.xori %phase, %true : i1
    scf.yield %flip : i1
  } {async_pipe.num_stages = 2 : i64, async_pipe.roles = "specialised"}
  return
}


// -----

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>
// expected-error @below {{cannot let warps of their own copy: a block of 48 x 1 x 1 cannot get 32 threads more [roles-block]}}
// expected-note @below {{give the kernel a known_block_size along x, a multiple of 32 of at most 992}}
func.func @odd_block(%map_: !llvm.ptr, %out: memref<?x64xf32> {llvm.noalias}, %n: index)
    attributes {gpu.known_block_size = array<i32: 48, 1, 1>} {
  %map = builtin.unrealized_conversion_cast %map_ : !llvm.ptr to !map
  %tile = memref.alloc() : memref<64xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %bytes = arith.constant 256 : index
  %false = arith.constant false
  %true = arith.constant true
  %t = gpu.thread_id x
  %first = arith.cmpi eq, %t, %c0 : index
  %full = nvgpu.mbarrier.create -> !bars
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %first : !bars
  gpu.barrier
  // expected-note @below {{the loop}}
  %last = scf.for %i = %c0 to %n step %c1 iter_args(%phase = %false) -> (i1) {
    %at = arith.muli %i, %c64 : index
    nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %first : !bars
    nvgpu.tma.async.load %map[%at], %full[%c0] to %tile, predicate = %first : !map, !bars -> memref<64xf32, #wg>
    nvgpu.mbarrier.try_wait.parity %full[%c0], %phase, %c64 : !bars
    %v = memref.load %tile[%t] : memref<64xf32, #wg>
    memref.store %v, %out[%i, %t] : memref<?x64xf32>
    gpu.barrier
    %flip = arith.xori %phase, %true : i1
    scf.yield %flip : i1
  } {async_pipe.num_stages = 2 : i64, async_pipe.roles = "specialised"}
  return
}


// -----

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>
func.func @all_threads_count(%map_: !llvm.ptr, %out: memref<?x64xf32> {llvm.noalias}, %n: index)
    attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %map = builtin.unrealized_conversion_cast %map_ : !llvm.ptr to !map
  %tile = memref.alloc() : memref<64xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %bytes = arith.constant 256 : index
  %false = arith.constant false
  %true = arith.constant true
  %t = gpu.thread_id x
  %first = arith.cmpi eq, %t, %c0 : index
  %full = nvgpu.mbarrier.create -> !bars
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %first : !bars
  gpu.barrier
  // expected-note @below {{the loop}}
  %last = scf.for %i = %c0 to %n step %c1 iter_args(%phase = %false) -> (i1) {
    %at = arith.muli %i, %c64 : index
    nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %first : !bars
    nvgpu.tma.async.load %map[%at], %full[%c0] to %tile, predicate = %first : !map, !bars -> memref<64xf32, #wg>
    nvgpu.mbarrier.try_wait.parity %full[%c0], %phase, %c64 : !bars
    %v = memref.load %tile[%t] : memref<64xf32, #wg>
    memref.store %v, %out[%i, %t] : memref<?x64xf32>
    gpu.barrier
    %flip = arith.xori %phase, %true : i1
    scf.yield %flip : i1
  } {async_pipe.num_stages = 2 : i64, async_pipe.roles = "specialised"}
  // expected-error @below {{cannot let warps of their own copy: 'gpu.num_subgroups' may be about all threads of the block, which become more [roles-block]}}
  // expected-note @below {{without 'async_pipe.roles' all warps copy and compute}}
  %warps = gpu.num_subgroups : index
  return
}

// -----

#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>
func.func @no_tiles(%map_: !llvm.ptr, %out: memref<?x64xf32> {llvm.noalias}, %n: index)
    attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %map = builtin.unrealized_conversion_cast %map_ : !llvm.ptr to !map
  %tile = memref.alloc() : memref<64xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %bytes = arith.constant 256 : index
  %false = arith.constant false
  %true = arith.constant true
  %t = gpu.thread_id x
  %first = arith.cmpi eq, %t, %c0 : index
  %full = nvgpu.mbarrier.create -> !bars
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %first : !bars
  gpu.barrier
  // expected-error @below {{cannot let warps of their own copy: no loop, or more than one op, stands between the mbarriers and this one, and two groups would take the iterations of a loop around in turn [roles-unsupported]}}
  // expected-note @below {{write a persistent kernel: one loop over tiles, the loop of copies in its body}}
  %last = scf.for %i = %c0 to %n step %c1 iter_args(%phase = %false) -> (i1) {
    %at = arith.muli %i, %c64 : index
    nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %first : !bars
    nvgpu.tma.async.load %map[%at], %full[%c0] to %tile, predicate = %first : !map, !bars -> memref<64xf32, #wg>
    nvgpu.mbarrier.try_wait.parity %full[%c0], %phase, %c64 : !bars
    %v = memref.load %tile[%t] : memref<64xf32, #wg>
    memref.store %v, %out[%i, %t] : memref<?x64xf32>
    gpu.barrier
    %flip = arith.xori %phase, %true : i1
    scf.yield %flip : i1
  } {async_pipe.num_stages = 2 : i64, async_pipe.roles = "ping-pong"}
  return
}
