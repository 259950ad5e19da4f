// RUN: async-pipe-opt %s --async-pipe-to-nvvm=chip=sm_80 | FileCheck %s

// The widest copies that both addresses are aligned for: 16 bytes where that is known, smaller
// pieces where less is.

#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  // CHECK-LABEL: llvm.func @wide
  // CHECK:         nvvm.cp.async.shared.global {{.*}}, 16, cache = cg
  // CHECK-NOT:     nvvm.cp.async.shared.global
  // CHECK:         nvvm.cp.async.commit.group
  gpu.func @wide(%A : memref<?x64xf16> {llvm.align = 16 : i64}, %row : index)
      workgroup(%tile : memref<64x64xf16, #wg> {llvm.align = 16 : i64}) kernel {
    %c8 = arith.constant 8 : index
    %tid = gpu.thread_id x
    %column = arith.muli %tid, %c8 : index
    "async_pipe.scope"() ({
      %v = vector.load %A[%row, %column] : memref<?x64xf16>, vector<8xf16>
      vector.store %v, %tile[%row, %column] : memref<64x64xf16, #wg>, vector<8xf16>
      "async_pipe.yield"() : () -> ()
    }) {queue = 0 : i64} : () -> ()
    %t = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> !nvgpu.device.async.token
    "async_pipe.wait_queue"(%t) {queue = 0 : i64, count = 0 : i64} : (!nvgpu.device.async.token) -> ()
    gpu.return
  }

  // CHECK-LABEL: llvm.func @narrow
  // CHECK-COUNT-2: nvvm.cp.async.shared.global {{.*}}, 8, cache = ca
  // CHECK-NOT:     nvvm.cp.async.shared.global
  // CHECK:         nvvm.cp.async.commit.group
  gpu.func @narrow(%A : memref<?x64xf16> {llvm.align = 8 : i64}, %row : index)
      workgroup(%tile : memref<64x64xf16, #wg> {llvm.align = 16 : i64}) kernel {
    %c8 = arith.constant 8 : index
    %tid = gpu.thread_id x
    %column = arith.muli %tid, %c8 : index
    "async_pipe.scope"() ({
      %v = vector.load %A[%row, %column] : memref<?x64xf16>, vector<8xf16>
      vector.store %v, %tile[%row, %column] : memref<64x64xf16, #wg>, vector<8xf16>
      "async_pipe.yield"() : () -> ()
    }) {queue = 0 : i64} : () -> ()
    %t = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> !nvgpu.device.async.token
    "async_pipe.wait_queue"(%t) {queue = 0 : i64, count = 0 : i64} : (!nvgpu.device.async.token) -> ()
    gpu.return
  }

  // Several copies in one scope, in a loop of the scope and beside each other.
  // CHECK-LABEL: llvm.func @several
  // CHECK:         nvvm.cp.async.shared.global {{.*}}, 4
  // CHECK:         nvvm.cp.async.shared.global {{.*}}, 4
  // CHECK:         nvvm.cp.async.shared.global {{.*}}, 4
  // CHECK-NOT:     llvm.load
  // CHECK:         nvvm.cp.async.commit.group
  gpu.func @several(%A : memref<?xf32>)
      workgroup(%one : memref<128xf32, #wg>, %two : memref<4x128xf32, #wg>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c64 = arith.constant 64 : index
    %tid = gpu.thread_id x
    %high = arith.addi %tid, %c64 : index
    "async_pipe.scope"() ({
      scf.for %i = %c0 to %c4 step %c1 {
        %a = memref.load %A[%tid] : memref<?xf32>
        memref.store %a, %two[%i, %tid] : memref<4x128xf32, #wg>
      }
      %b = memref.load %A[%tid] : memref<?xf32>
      memref.store %b, %one[%tid] : memref<128xf32, #wg>
      %c = memref.load %A[%high] : memref<?xf32>
      memref.store %c, %one[%high] : memref<128xf32, #wg>
      "async_pipe.yield"() : () -> ()
    }) {queue = 0 : i64} : () -> ()
    %t = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> !nvgpu.device.async.token
    "async_pipe.wait_queue"(%t) {queue = 0 : i64, count = 0 : i64} : (!nvgpu.device.async.token) -> ()
    gpu.return
  }
}
