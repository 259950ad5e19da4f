// Abstract ops become the copies of the chip; on a chip without async copies the scope runs in
// place, and its commit and wait vanish.
//
// RUN: async-pipe-opt %s --async-pipe-to-rocdl=chip=gfx942 | FileCheck %s
// RUN: async-pipe-opt %s --async-pipe-to-rocdl=chip=gfx1100 | FileCheck %s --check-prefix=SYNC

#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  // CHECK-LABEL: gpu.func @scope
  // CHECK: amdgpu.gather_to_lds async {{.*}} : f32
  // CHECK-NEXT: rocdl.asyncmark
  // CHECK: rocdl.wait.asyncmark 0
  // CHECK-NOT: async_pipe

  // SYNC-LABEL: gpu.func @scope
  // SYNC: %[[V:.*]] = memref.load
  // SYNC-NEXT: memref.store %[[V]]
  // SYNC-NOT: asyncmark
  gpu.func @scope(%A : memref<?xf32> {llvm.align = 4 : i64})
      workgroup(%tile : memref<64xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %t = gpu.thread_id x
    "async_pipe.scope"() ({
      %v = memref.load %A[%t] : memref<?xf32>
      memref.store %v, %tile[%t] : memref<64xf32, #wg>
      "async_pipe.yield"() : () -> ()
    }) {queue = 0 : i64} : () -> ()
    %token = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> !nvgpu.device.async.token
    "async_pipe.wait_queue"(%token) {queue = 0 : i64, count = 0 : i64} : (!nvgpu.device.async.token) -> ()
    gpu.return
  }
}
