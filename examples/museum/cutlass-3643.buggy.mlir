// NVIDIA/cutlass#3643: Two blocks of a cluster fill the slots of both, and a reader gives a slot back to
// both by an arrival. The arrival in the other block released for the scope of its own block only, so
// nothing orders its reads before the next copy of that block: 249 of 1000 runs were wrong.
// async-pipe-opt FILE --target=nvvm:sm_100a --run=two_blocks --grid=2 --arg=320xf32:1 --arg=zeros:2x5x64xf32
#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg, num_barriers = 2>
!map = !nvgpu.tensormap.descriptor<tensor = memref<32xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>
!half = memref<32xf32, strided<[1], offset: ?>, #wg>
gpu.module @kernels {
  gpu.func @two_blocks(%x_: !llvm.ptr, %out: memref<2x5x64xf32> {llvm.noalias})
      workgroup(%tiles: memref<2x64xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 64, 1, 1>, known_cluster_size = array<i32: 2, 1, 1>} {
    %x = builtin.unrealized_conversion_cast %x_ : !llvm.ptr to !map
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c5 = arith.constant 5 : index
    %c32 = arith.constant 32 : index
    %c63 = arith.constant 63 : index
    %c64 = arith.constant 64 : index
    %bytes = arith.constant 256 : index
    %ticks = arith.constant 10000000 : index
    %both = arith.constant 3 : i16
    %one = arith.constant 1 : i32
    %lanes = arith.constant -1 : i32
    %t = gpu.thread_id x
    %leader = arith.cmpi eq, %t, %c0 : index
    %rank = nvvm.read.ptx.sreg.cluster.ctarank : i32
    %other = arith.subi %one, %rank : i32
    %block = gpu.cluster_block_id x
    %full = nvgpu.mbarrier.create -> !bars
    %empty = nvgpu.mbarrier.create -> !bars
    scf.for %s = %c0 to %c2 step %c1 {
      nvgpu.mbarrier.init %full[%s], %c1, predicate = %leader : !bars
      nvgpu.mbarrier.init %empty[%s], %c2, predicate = %leader : !bars
    }
    nvvm.fence.mbarrier.init
    nvvm.cluster.arrive {aligned}
    nvvm.cluster.wait {aligned}
    %produces = arith.cmpi ult, %t, %c32 : index
    scf.if %produces {
      scf.for %tile = %c0 to %c5 step %c1 {
        %slot = arith.remui %tile, %c2 : index
        %round = arith.divui %tile, %c2 : index
        %bit = arith.remui %round, %c2 : index
        %free = arith.cmpi eq, %bit, %c0 : index
        nvgpu.mbarrier.try_wait.parity %empty[%slot], %free, %ticks : !bars
        scf.if %leader {
          nvgpu.mbarrier.arrive.expect_tx %full[%slot], %bytes : !bars
          %column = arith.muli %block, %c32 : index
          %first = arith.muli %tile, %c64 : index
          %from = arith.addi %first, %column : index
          %to = memref.subview %tiles[%slot, %column] [1, 32] [1, 1] : memref<2x64xf32, #wg> to !half
          nvgpu.tma.async.load %x[%from], %full[%slot] to %to multicast_mask = %both : !map, !bars -> !half
        }
      }
    } else {
      %lane = arith.subi %t, %c32 : index
      %speaks = arith.cmpi eq, %lane, %c0 : index
      scf.for %tile = %c0 to %c5 step %c1 {
        %slot = arith.remui %tile, %c2 : index
        %round = arith.divui %tile, %c2 : index
        %bit = arith.remui %round, %c2 : index
        %phase = arith.cmpi eq, %bit, %c1 : index
        nvgpu.mbarrier.try_wait.parity %full[%slot], %phase, %ticks : !bars
        scf.for %at = %lane to %c64 step %c32 {
          %mirror = arith.subi %c63, %at : index
          %v = memref.load %tiles[%slot, %mirror] : memref<2x64xf32, #wg>
          memref.store %v, %out[%block, %tile, %at] : memref<2x5x64xf32>
        }
        nvvm.bar.warp.sync %lanes : i32
        scf.if %speaks {
          %address = nvgpu.mbarrier.get %empty[%slot] : !bars -> i64
          %mine = llvm.inttoptr %address : i64 to !llvm.ptr<3>
          %there = nvvm.mapa %mine, %other : !llvm.ptr<3> -> !llvm.ptr<7>
          nvvm.mbarrier.arrive %mine : !llvm.ptr<3>
          llvm.inline_asm has_side_effects "mbarrier.arrive.release.cta.shared::cluster.b64 _, [$0];",
            "r" %there : (!llvm.ptr<7>) -> ()
        }
      }
    }
    nvvm.cluster.arrive {aligned}
    nvvm.cluster.wait {aligned}
    gpu.return
  }
}
