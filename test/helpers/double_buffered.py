"""A kernel with two slots, and the counts of its waits."""

from __future__ import annotations

# Two slots: while one is read the other is filled. Wait for at most one group, then for none.
DOUBLE_BUFFERED = """
#wg = #gpu.address_space<workgroup>
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%A : memref<?x128xf32> {llvm.noalias}, %C : memref<?x128xf32> {llvm.noalias})
        workgroup(%tile : memref<2x128xf32, #wg> {llvm.align = 16 : i64})
        kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %c127 = arith.constant 127 : index
      %tid = gpu.thread_id x
      %opposite = arith.subi %c127, %tid : index
      %n = memref.dim %A, %c0 : memref<?x128xf32>
      %last = arith.subi %n, %c1 : index
      %p = nvgpu.device_async_copy %A[%c0, %tid], %tile[%c0, %tid], 1
        : memref<?x128xf32> to memref<2x128xf32, #wg>
      %first = nvgpu.device_async_create_group %p
      %final = scf.for %i = %c0 to %last step %c1 iter_args(%t = %first)
          -> (!nvgpu.device.async.token) {
        %j = arith.addi %i, %c1 : index
        %slot = arith.remui %i, %c2 : index
        %next = arith.remui %j, %c2 : index
        gpu.barrier
        %q = nvgpu.device_async_copy %A[%j, %tid], %tile[%next, %tid], 1
          : memref<?x128xf32> to memref<2x128xf32, #wg>
        %u = nvgpu.device_async_create_group %q
        nvgpu.device_async_wait %t {numGroups = 1 : i32}
        gpu.barrier
        %x = memref.load %tile[%slot, %opposite] : memref<2x128xf32, #wg>
        memref.store %x, %C[%i, %tid] : memref<?x128xf32>
        scf.yield %u : !nvgpu.device.async.token
      }
      nvgpu.device_async_wait %final {numGroups = 0 : i32}
      gpu.barrier
      %slot = arith.remui %last, %c2 : index
      %x = memref.load %tile[%slot, %opposite] : memref<2x128xf32, #wg>
      memref.store %x, %C[%last, %tid] : memref<?x128xf32>
      gpu.return
    }
  }
}
"""
