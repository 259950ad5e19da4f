// RUN: async-pipe-opt %s --async-pipe-to-nvvm=chip=sm_80 | FileCheck %s

// Vector accesses get the alignment that is known, so that they stay whole.

#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  // CHECK-LABEL: llvm.func @vectors
  // CHECK:         llvm.load {{.*}} {alignment = 2 : i64} : !llvm.ptr -> vector<8xf16>
  // CHECK:         llvm.store {{.*}} {alignment = 16 : i64} : vector<8xf16>, !llvm.ptr<3>
  // CHECK:         llvm.load {{.*}} {alignment = 8 : i64} : !llvm.ptr<3> -> vector<4xf16>
  gpu.func @vectors(%A : memref<?x?xf16>)
      workgroup(%tile : memref<64x64xf16, #wg> {llvm.align = 16 : i64}) kernel {
    %c0 = arith.constant 0 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %tid = gpu.thread_id x
    %column = arith.muli %tid, %c8 : index
    %v = vector.load %A[%c0, %column] : memref<?x?xf16>, vector<8xf16>
    vector.store %v, %tile[%tid, %c0] : memref<64x64xf16, #wg>, vector<8xf16>
    %w = vector.load %tile[%tid, %c4] : memref<64x64xf16, #wg>, vector<4xf16>
    vector.store %w, %A[%c0, %column] : memref<?x?xf16>, vector<4xf16>
    gpu.return
  }
}
