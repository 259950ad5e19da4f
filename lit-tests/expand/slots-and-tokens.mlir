// Copy in stage 0, reader in stage 2 and later in order: three versions. The copy's slot is the
// one that the reader had one step before, so one counter and one register are enough.
// RUN: async-pipe-opt %s --async-pipe-schedule --async-pipe-expand | FileCheck %s

#wg = #gpu.address_space<workgroup>
// CHECK-LABEL: func.func @three_versions
// CHECK:         %[[B:.*]] = memref.alloca() : memref<3x4xf32, #gpu.address_space<workgroup>>
// CHECK-COUNT-2: nvgpu.device_async_create_group
// CHECK:         scf.for %{{.*}} iter_args(%[[NEXT:.*]] = %{{.*}}, %[[OLDEST:.*]] = %{{.*}}, %[[READ:.*]] = %c0{{.*}}, %[[WRITE:.*]] = %c2{{.*}}) ->
// CHECK:           nvgpu.device_async_copy %{{.*}}, %[[B]][%[[WRITE]], %{{.*}}], 4
// CHECK-NEXT:      %[[GROUP:.*]] = nvgpu.device_async_create_group
// CHECK-NEXT:      nvgpu.device_async_wait %[[OLDEST]]
// CHECK-NEXT:      memref.load %[[B]][%[[READ]], %{{.*}}]
// CHECK:           %[[INCREASED:.*]] = arith.addi %[[READ]], %c1
// CHECK:           %[[FOLLOWING:.*]] = arith.select %{{.*}}, %c0{{.*}}, %[[INCREASED]]
// CHECK-NEXT:      scf.yield %[[GROUP]], %[[NEXT]], %[[FOLLOWING]], %[[READ]]
func.func @three_versions(%A : memref<64xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %B = memref.alloca() : memref<4xf32, #wg>
  scf.for %i = %c0 to %c16 step %c1 {
    nvgpu.device_async_copy %A[%i], %B[%c0], 4 : memref<64xf32> to memref<4xf32, #wg>
    %b = memref.load %B[%c0] : memref<4xf32, #wg>
    memref.store %b, %C[%i] : memref<16xf32>
  } {async_pipe.stage = [0, 2, 2], async_pipe.async_stages = [0]}
  return
}
