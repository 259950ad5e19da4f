// facebookexperimental/triton#3472: Before the first block of a cluster multiplies, both say that their
// half of a tile is there, by two arrivals at one mbarrier. The other block copies up to three tiles ahead,
// so two arrivals of its own may end a phase that is the first block's: parities slip, and both hang.
// async-pipe-opt FILE --target=nvvm:sm_100a --run=rendezvous --grid=2 --arg=512xf32:1 --arg=zeros:2x8x32xf32
#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg, num_barriers = 3>
!map = !nvgpu.tensormap.descriptor<tensor = memref<32xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>
!view = memref<32xf32, strided<[1], offset: ?>, #wg>
gpu.module @kernels {
  gpu.func @rendezvous(%x_: !llvm.ptr, %out: memref<2x8x32xf32> {llvm.noalias})
      workgroup(%tiles: memref<3x32xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 32, 1, 1>, known_cluster_size = array<i32: 2, 1, 1>} {
    %x = builtin.unrealized_conversion_cast %x_ : !llvm.ptr to !map
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %n = arith.constant 4 : index
    %c32 = arith.constant 32 : index
    %bytes = arith.constant 128 : index
    %ticks = arith.constant 10000000 : index
    %false = arith.constant false
    %true = arith.constant true
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %lanes = arith.constant -1 : i32
    %lane = gpu.thread_id x
    %speaks = arith.cmpi eq, %lane, %c0 : index
    %block = gpu.cluster_block_id x
    %is_leader = arith.cmpi eq, %block, %c0 : index
    %full = nvgpu.mbarrier.create -> !bars
    %empty = nvgpu.mbarrier.create -> !bars
    %ready = nvgpu.mbarrier.create -> !bars
    scf.for %s = %c0 to %c3 step %c1 {
      nvgpu.mbarrier.init %full[%s], %c1, predicate = %speaks : !bars
      nvgpu.mbarrier.init %empty[%s], %c1, predicate = %speaks : !bars
      nvgpu.mbarrier.init %ready[%s], %c2, predicate = %speaks : !bars
    }
    nvvm.fence.mbarrier.init
    nvvm.cluster.arrive {aligned}
    nvvm.cluster.wait {aligned}
    scf.for %i = %c0 to %n step %c1 iter_args(%slot = %c0, %phase = %false, %once = %false) -> (index, i1, i1) {
      %free = arith.xori %phase, %true : i1
      nvgpu.mbarrier.try_wait.parity %empty[%slot], %free, %ticks : !bars
      %twice = arith.muli %i, %c2 : index
      %half = arith.addi %twice, %block : index
      %from = arith.muli %half, %c32 : index
      %tile = memref.subview %tiles[%slot, 0] [1, 32] [1, 1] : memref<3x32xf32, #wg> to !view
      nvgpu.mbarrier.arrive.expect_tx %full[%slot], %bytes, predicate = %speaks : !bars
      nvgpu.tma.async.load %x[%from], %full[%slot] to %tile, predicate = %speaks : !map, !bars -> !view
      nvgpu.mbarrier.try_wait.parity %full[%slot], %phase, %ticks : !bars
      %v = memref.load %tiles[%slot, %lane] : memref<3x32xf32, #wg>
      memref.store %v, %out[%block, %i, %lane] : memref<2x8x32xf32>
      nvvm.bar.warp.sync %lanes : i32
      scf.if %speaks {
        %address = nvgpu.mbarrier.get %ready[%c0] : !bars -> i64
        %mine = llvm.inttoptr %address : i64 to !llvm.ptr<3>
        %of_leader = nvvm.mapa %mine, %zero : !llvm.ptr<3> -> !llvm.ptr<7>
        nvvm.mbarrier.arrive %of_leader : !llvm.ptr<7>
      }
      scf.if %is_leader {
        nvgpu.mbarrier.try_wait.parity %ready[%c0], %once, %ticks : !bars
        scf.if %speaks {
          %address = nvgpu.mbarrier.get %empty[%slot] : !bars -> i64
          %mine = llvm.inttoptr %address : i64 to !llvm.ptr<3>
          %there = nvvm.mapa %mine, %one : !llvm.ptr<3> -> !llvm.ptr<7>
          nvvm.mbarrier.arrive %mine : !llvm.ptr<3>
          nvvm.mbarrier.arrive %there : !llvm.ptr<7>
        }
      }
      %once_ = arith.xori %once, %true : i1
      %next = arith.addi %slot, %c1 : index
      %wraps = arith.cmpi eq, %next, %c3 : index
      %slot_ = arith.select %wraps, %c0, %next : index
      %phase_ = arith.xori %phase, %wraps : i1
      scf.yield %slot_, %phase_, %once_ : index, i1, i1
    }
    nvvm.cluster.arrive {aligned}
    nvvm.cluster.wait {aligned}
    gpu.return
  }
}
