// Where not one version of the buffers fits, no schedule does.
// RUN: async-pipe-opt %s --verify-diagnostics --async-pipe-schedule --smem-limit=2

#wg = #gpu.address_space<workgroup>

func.func @nothing_fits(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %tile = memref.alloca() : memref<1xf32, #wg>
  // expected-error @below {{the versions need 4 bytes of workgroup memory, the limit is 2 [smem-limit]}}
  // expected-note @below {{not even one version of every buffer fits}}
  scf.for %i = %c0 to %c16 step %c1 {
    %copy = nvgpu.device_async_copy %A[%i], %tile[%c0], 1 {async_pipe.latency = 500 : i64} : memref<16xf32> to memref<1xf32, #wg>
    %v = memref.load %tile[%c0] : memref<1xf32, #wg>
    memref.store %v, %C[%i] : memref<16xf32>
  }
  return
}
