// RUN: async-pipe-opt %s --async-pipe-to-nvvm=chip=sm_80 | FileCheck %s
// RUN: async-pipe-opt %s --async-pipe-to-nvvm="chip=sm_80 bypass-l1=formed l2-lines=false" | FileCheck %s --check-prefix=KEPT
// RUN: async-pipe-opt %s --target=nvvm:sm_80 --emit=ptx | FileCheck %s --check-prefix=PTX
// REQUIRES: bindings-numba-cuda-mlir

// 64 bytes of each row an iteration: 16-byte copies bypass the first-level cache, and fetch the
// line of the second that the next iteration reads too.

// CHECK:     gpu.module @kernels attributes {async_pipe.l2_whole_lines = ["cg 16"]}
// CHECK:     nvvm.cp.async.shared.global %{{.*}}, %{{.*}}, 16, cache = cg
// KEPT-NOT:  l2_whole_lines
// KEPT:      nvvm.cp.async.shared.global %{{.*}}, %{{.*}}, 16, cache = ca
// PTX:       cp.async.cg.shared.global.L2::128B [{{.*}}], [{{.*}}], 16;
#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  gpu.func @rows(%A : memref<?x?xf16> {llvm.noalias}, %n : index)
      workgroup(%tile : memref<64x32xf16, #wg> {llvm.align = 16 : i64})
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c32 = arith.constant 32 : index
    %t = gpu.thread_id x
    scf.for %k = %c0 to %n step %c32 {
      %copy = nvgpu.device_async_copy %A[%t, %k], %tile[%t, %c0], 8 : memref<?x?xf16> to memref<64x32xf16, #wg>
      %group = nvgpu.device_async_create_group %copy
      nvgpu.device_async_wait %group
    }
    gpu.return
  }
}
