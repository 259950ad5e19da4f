// A barrier goes where the checker proves the kernel without it.
// RUN: async-pipe-opt %s --async-pipe-drop-barriers 2>/dev/null | FileCheck %s
// RUN: async-pipe-opt %s --async-pipe-drop-barriers --async-pipe-check 2>/dev/null | FileCheck %s
// RUN: async-pipe-opt %s --async-pipe-drop-barriers --report=json --report-file=- -o %t 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REPORT
// RUN: async-pipe-opt %s --async-pipe-drop-barriers -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// REPORT:      "needless": [
// REPORT-NEXT:   {
// REPORT:        "op": "gpu.barrier"

// REMARK: remark: 'gpu.barrier' is dropped: no two threads need it [needless-barrier]

#wg = #gpu.address_space<workgroup>

gpu.module @kernels {
  // The first barrier stands between accesses of one thread, and of two in a row one is enough.
  // CHECK-LABEL: gpu.func @straight
  // CHECK:         memref.store
  // CHECK-NEXT:    memref.load
  // CHECK-NEXT:    gpu.barrier
  // CHECK-NEXT:    memref.load
  // CHECK-NOT:     gpu.barrier
  // CHECK:         gpu.return
  gpu.func @straight(%to: memref<64xf32>) workgroup(%a: memref<32xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c31 = arith.constant 31 : index
    %tid = gpu.thread_id x
    %other = arith.subi %c31, %tid : index
    %v = memref.load %to[%tid] : memref<64xf32>
    memref.store %v, %a[%tid] : memref<32xf32, #wg>
    gpu.barrier
    %x = memref.load %a[%tid] : memref<32xf32, #wg>
    gpu.barrier
    gpu.barrier
    %y = memref.load %a[%other] : memref<32xf32, #wg>
    %sum = arith.addf %x, %y : f32
    memref.store %sum, %to[%tid] : memref<64xf32>
    gpu.barrier
    gpu.return
  }

  // Of two that are each enough, that of the loop goes: it runs more often.
  // CHECK-LABEL: gpu.func @out_of_the_loop
  // CHECK:         scf.for
  // CHECK-NEXT:      memref.store
  // CHECK-NEXT:    }
  // CHECK-NEXT:    gpu.barrier
  // CHECK-NEXT:    memref.load
  gpu.func @out_of_the_loop(%to: memref<64xf32>, %n: index) workgroup(%a: memref<32xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c31 = arith.constant 31 : index
    %tid = gpu.thread_id x
    %other = arith.subi %c31, %tid : index
    %v = memref.load %to[%tid] : memref<64xf32>
    scf.for %i = %c0 to %n step %c1 {
      memref.store %v, %a[%tid] : memref<32xf32, #wg>
      gpu.barrier
    }
    gpu.barrier
    %y = memref.load %a[%other] : memref<32xf32, #wg>
    memref.store %y, %to[%tid] : memref<64xf32>
    gpu.return
  }
}
