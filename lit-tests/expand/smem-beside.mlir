// Other buffers of the function take their share of the limit: 16 bytes of two versions do not fit
// beside 8 of another tile in 20, and fit in 24.

// RUN: not async-pipe-opt %s --async-pipe-schedule --async-pipe-expand="smem_limit=20" 2>&1 | FileCheck %s --check-prefix=REFUSED
// RUN: async-pipe-opt %s --async-pipe-schedule --async-pipe-expand="smem_limit=24" | FileCheck %s

// REFUSED: error: cannot pipeline: the versions need 16 bytes of workgroup memory, the limit is 20, of which other buffers take 8 [smem-limit]

// CHECK-LABEL: func.func @beside(
// CHECK:       memref<2x2xf32, #gpu.address_space<workgroup>>
func.func @beside(%A : memref<16x2xf32> {llvm.noalias}, %C : memref<16x2xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %other = memref.alloca() : memref<2xf32, #gpu.address_space<workgroup>>
  %tile = memref.alloca() : memref<2xf32, #gpu.address_space<workgroup>>
  %first = memref.load %A[%c0, %c0] : memref<16x2xf32>
  memref.store %first, %other[%c0] : memref<2xf32, #gpu.address_space<workgroup>>
  scf.for %i = %c0 to %c16 step %c1 {
    %t = nvgpu.device_async_copy %A[%i, %c0], %tile[%c0], 2 : memref<16x2xf32> to memref<2xf32, #gpu.address_space<workgroup>>
    %g = nvgpu.device_async_create_group %t
    nvgpu.device_async_wait %g
    %v = memref.load %tile[%c0] : memref<2xf32, #gpu.address_space<workgroup>>
    memref.store %v, %C[%i, %c0] : memref<16x2xf32>
  } {async_pipe.stage = array<i64: 0, 1, 1>, async_pipe.order = array<i64: 0, 1, 2>}
  %last = memref.load %other[%c0] : memref<2xf32, #gpu.address_space<workgroup>>
  memref.store %last, %C[%c0, %c1] : memref<16x2xf32>
  return
}
