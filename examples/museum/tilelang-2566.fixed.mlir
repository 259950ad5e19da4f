// tile-ai/tilelang#2566, mended: the thread arrives where it announces the bytes.
// async-pipe-opt FILE --target=nvvm:sm_90a --run=one_iteration --arg=64xf32:1 --arg=zeros:64xf32
#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg>
gpu.module @kernels {
  gpu.func @one_iteration(%x: !llvm.ptr<1>, %out: memref<64xf32> {llvm.noalias})
      workgroup(%tile: memref<64xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 96, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c63 = arith.constant 63 : index
    %c64 = arith.constant 64 : index
    %ticks = arith.constant 10000000 : index
    %bytes = arith.constant 256 : i32
    %false = arith.constant false
    %t = gpu.thread_id x
    %copies = arith.cmpi eq, %t, %c64 : index
    %reads = arith.cmpi ult, %t, %c64 : index
    %full = nvgpu.mbarrier.create -> !bars
    %address = nvgpu.mbarrier.get %full[%c0] : !bars -> i64
    %bar = llvm.inttoptr %address : i64 to !llvm.ptr<3>
    nvgpu.mbarrier.init %full[%c0], %c1, predicate = %copies : !bars
    nvvm.fence.mbarrier.init
    gpu.barrier
    scf.if %copies {
      %at = memref.extract_aligned_pointer_as_index %tile : memref<64xf32, #wg> -> index
      %at_ = arith.index_cast %at : index to i64
      %to = llvm.inttoptr %at_ : i64 to !llvm.ptr<3>
      %there = llvm.addrspacecast %to : !llvm.ptr<3> to !llvm.ptr<7>
      %state = nvvm.mbarrier.arrive.expect_tx %bar, %bytes : !llvm.ptr<3>, i32 -> i64
      nvvm.cp.async.bulk.shared.cluster.global %there, %x, %bar, %bytes : !llvm.ptr<7>, !llvm.ptr<1>
    }
    scf.if %reads {
      %mirror = arith.subi %c63, %t : index
      nvgpu.mbarrier.try_wait.parity %full[%c0], %false, %ticks : !bars
      %v = memref.load %tile[%mirror] : memref<64xf32, #wg>
      memref.store %v, %out[%t] : memref<64xf32>
    }
    gpu.return
  }
}
