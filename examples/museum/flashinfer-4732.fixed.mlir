// flashinfer-ai/flashinfer#4732, mended: two barriers take turns, so that the next arrival is at the other
// one.
// async-pipe-opt FILE --target=nvvm:sm_120a --run=sparse_mla --arg=512xf32:1 --arg=zeros:64x8xf32 --arg=4
#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg, num_barriers = 2>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>
!view = memref<64xf32, strided<[1], offset: ?>, #wg>
gpu.module @kernels {
  gpu.func @sparse_mla(%x_: !llvm.ptr, %out: memref<64x?xf32> {llvm.noalias}, %n: index)
      workgroup(%tiles: memref<2x64xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %x = builtin.unrealized_conversion_cast %x_ : !llvm.ptr to !map
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c63 = arith.constant 63 : index
    %c64 = arith.constant 64 : index
    %bytes = arith.constant 256 : index
    %ticks = arith.constant 10000000 : index
    %false = arith.constant false
    %c96 = arith.constant 96 : index
    %one = arith.constant 1 : i32
    %threads = arith.constant 96 : i32
    %t = gpu.thread_id x
    %leader = arith.cmpi eq, %t, %c64 : index
    %full = nvgpu.mbarrier.create -> !bars
    scf.for %s = %c0 to %c2 step %c1 {
      nvgpu.mbarrier.init %full[%s], %c1, predicate = %leader : !bars
    }
    nvvm.fence.mbarrier.init
    gpu.barrier
    %computes = arith.cmpi ult, %t, %c64 : index
    scf.if %computes {
      %mirror = arith.subi %c63, %t : index
      scf.for %i = %c0 to %n step %c1 iter_args(%slot = %c0, %phase = %false) -> (index, i1) {
        nvgpu.mbarrier.try_wait.parity %full[%slot], %phase, %ticks : !bars
        %v = memref.load %tiles[%slot, %mirror] : memref<2x64xf32, #wg>
        memref.store %v, %out[%t, %i] : memref<64x?xf32>
        %number = arith.index_cast %slot : index to i32
        %id = arith.addi %number, %one : i32
        nvvm.barrier.arrive id = %id number_of_threads = %threads
        %next = arith.addi %slot, %c1 : index
        %wraps = arith.cmpi eq, %next, %c2 : index
        %slot_ = arith.select %wraps, %c0, %next : index
        %phase_ = arith.xori %phase, %wraps : i1
        scf.yield %slot_, %phase_ : index, i1
      }
    } else {
      %copies = arith.cmpi ult, %t, %c96 : index
      scf.if %copies {
        scf.for %i = %c0 to %n step %c1 iter_args(%slot = %c0, %phase = %false) -> (index, i1) {
          %is_later = arith.cmpi uge, %i, %c2 : index
          scf.if %is_later {
            %number = arith.index_cast %slot : index to i32
            %id = arith.addi %number, %one : i32
            nvvm.barrier id = %id number_of_threads = %threads
          }
          %from = arith.muli %i, %c64 : index
          %tile = memref.subview %tiles[%slot, 0] [1, 64] [1, 1] : memref<2x64xf32, #wg> to !view
          nvgpu.mbarrier.arrive.expect_tx %full[%slot], %bytes, predicate = %leader : !bars
          nvgpu.tma.async.load %x[%from], %full[%slot] to %tile, predicate = %leader : !map, !bars -> !view
          %next = arith.addi %slot, %c1 : index
          %wraps = arith.cmpi eq, %next, %c2 : index
          %slot_ = arith.select %wraps, %c0, %next : index
          %phase_ = arith.xori %phase, %wraps : i1
          scf.yield %slot_, %phase_ : index, i1
        }
      }
    }
    gpu.return
  }
}
