// flashinfer-ai/flashinfer#4533, mended: each group has a barrier of its own.
// async-pipe-opt FILE --target=nvvm:sm_100a --run=reductions --arg=128xf32:1 --arg=zeros:128xf32
#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  gpu.func @reductions(%x: memref<128xf32> {llvm.noalias}, %out: memref<128xf32> {llvm.noalias})
      workgroup(%partial: memref<4xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 160, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %c64 = arith.constant 64 : index
    %c128 = arith.constant 128 : index
    %id = arith.constant 1 : i32
    %second = arith.constant 2 : i32
    %threads = arith.constant 64 : i32
    %t = gpu.thread_id x
    %warp = arith.divui %t, %c32 : index
    %lane = arith.remui %t, %c32 : index
    %speaks = arith.cmpi eq, %lane, %c0 : index
    %other = arith.xori %warp, %c1 : index
    %reduces = arith.cmpi ult, %t, %c128 : index
    %is_first = arith.cmpi ult, %t, %c64 : index
    scf.if %reduces {
      %v = memref.load %x[%t] : memref<128xf32>
      %sum = gpu.subgroup_reduce add %v : (f32) -> f32
      scf.if %is_first {
        scf.if %speaks {
          memref.store %sum, %partial[%warp] : memref<4xf32, #wg>
        }
        nvvm.barrier id = %id number_of_threads = %threads
        %of_other = memref.load %partial[%other] : memref<4xf32, #wg>
        %both = arith.addf %sum, %of_other : f32
        memref.store %both, %out[%t] : memref<128xf32>
      } else {
        scf.if %speaks {
          memref.store %sum, %partial[%warp] : memref<4xf32, #wg>
        }
        nvvm.barrier id = %second number_of_threads = %threads
        %of_other = memref.load %partial[%other] : memref<4xf32, #wg>
        %both = arith.addf %sum, %of_other : f32
        memref.store %both, %out[%t] : memref<128xf32>
      }
    }
    gpu.return
  }
}
