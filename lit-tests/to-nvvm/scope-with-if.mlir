// RUN: async-pipe-opt %s --canonicalize --cse --convert-scf-to-cf | FileCheck %s --check-prefix=CFG
// RUN: async-pipe-opt %s --canonicalize --cse --convert-scf-to-cf --async-pipe-to-nvvm=chip=sm_80 | FileCheck %s
// RUN: async-pipe-opt %s --async-pipe-to-nvvm=chip=sm_80 | FileCheck %s

// A scope that copies under a condition: the condition's blocks stay inside the scope until it
// is lowered, and the commit and the wait stand outside of them.

#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  // CFG-LABEL: gpu.func @guarded
  // CFG:       "async_pipe.scope"() ({
  // CFG:         cf.cond_br
  // CFG:         "async_pipe.yield"
  // CFG:       "async_pipe.commit_queue"
  // CFG:       "async_pipe.wait_queue"

  // CHECK-LABEL: llvm.func @guarded
  // CHECK:         llvm.cond_br
  // CHECK:         nvvm.cp.async.shared.global {{.*}}, 4
  // CHECK-NOT:     llvm.load
  // CHECK:         llvm.br
  // CHECK:         nvvm.cp.async.commit.group
  // CHECK-NEXT:    nvvm.cp.async.wait.group 0
  // CHECK-NEXT:    nvvm.barrier
  gpu.func @guarded(%A : memref<?xf32>, %C : memref<?xf32>, %n : index)
      workgroup(%tile : memref<128xf32, #wg> {llvm.align = 16 : i64})
      kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c127 = arith.constant 127 : index
    %tid = gpu.thread_id x
    %opposite = arith.subi %c127, %tid : index
    %inside = arith.cmpi ult, %tid, %n : index
    "async_pipe.scope"() ({
      scf.if %inside {
        %a = memref.load %A[%tid] : memref<?xf32>
        memref.store %a, %tile[%tid] : memref<128xf32, #wg>
      }
      "async_pipe.yield"() : () -> ()
    }) {queue = 0 : i64} : () -> ()
    %group = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> !nvgpu.device.async.token
    "async_pipe.wait_queue"(%group) {queue = 0 : i64, count = 0 : i64} : (!nvgpu.device.async.token) -> ()
    gpu.barrier
    %t = memref.load %tile[%opposite] : memref<128xf32, #wg>
    memref.store %t, %C[%tid] : memref<?xf32>
    gpu.return
  }
}
