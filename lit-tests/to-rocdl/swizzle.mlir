// The destination of each lane is swizzled. Its lanes swap places within the wave, so lane l
// copies for the lane that stands at place l, and the wave writes one stretch of LDS.
//
// RUN: async-pipe-opt %s --async-pipe-to-rocdl=chip=gfx950 | FileCheck %s
// RUN: async-pipe-opt %s --async-pipe-to-rocdl=chip=gfx1250 | FileCheck %s --check-prefix=LANES

#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  // CHECK-LABEL: gpu.func @swizzled
  // CHECK: %[[SCALAR:.*]] = rocdl.readfirstlane
  // CHECK: %[[WAVE:.*]] = arith.index_cast %[[SCALAR]] : i32 to index
  // CHECK: %[[FIRST:.*]] = arith.muli %[[WAVE]]
  // CHECK: %[[MINE:.*]] = arith.addi %[[FIRST]], %{{.*}}
  // CHECK: %[[PLACE:.*]] = arith.divui %{{.*}}, %c8
  // CHECK: %[[OTHER:.*]] = arith.addi %[[FIRST]], %[[PLACE]]
  // CHECK: %[[ROW:.*]] = arith.divui %[[OTHER]], %c4
  // CHECK: amdgpu.gather_to_lds async %{{.*}}[%[[ROW]], %{{.*}}], %{{.*}} : vector<8xf16>

  // LANES-LABEL: gpu.func @swizzled
  // LANES: %[[XOR:.*]] = arith.xori
  // LANES: %[[AT:.*]] = arith.muli %[[XOR]]
  // LANES: amdgpu.global_load_async_to_lds %{{.*}}, %{{.*}}[%{{.*}}, %[[AT]]] : vector<8xf16>
  gpu.func @swizzled(%A : memref<?x?xf16>)
      workgroup(%tile : memref<64x32xf16, #wg>)
      kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %t = gpu.thread_id x
    %row = arith.divui %t, %c4 : index
    %chunk = arith.remui %t, %c4 : index
    %column = arith.muli %chunk, %c8 : index
    %pair = arith.divui %row, %c2 : index
    %turn = arith.remui %pair, %c4 : index
    %place = arith.xori %chunk, %turn : index
    %at = arith.muli %place, %c8 : index
    %copy = nvgpu.device_async_copy %A[%row, %column], %tile[%row, %at], 8 : memref<?x?xf16> to memref<64x32xf16, #wg>
    gpu.return
  }
}
