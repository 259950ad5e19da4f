// Barriers that stay: of a kernel that is not proven with them, of one with atomic accesses, of a
// function whose callers see its memory, and, in the one-shot pass, where nothing is pipelined.
// RUN: async-pipe-opt %s --async-pipe-drop-barriers | FileCheck %s
// RUN: async-pipe-opt %s --async-pipe-drop-barriers=trials=0 | FileCheck %s
// RUN: async-pipe-opt %s --async-pipe --check=warn 2>/dev/null | FileCheck %s

#wg = #gpu.address_space<workgroup>

gpu.module @kernels {
  // CHECK-LABEL: gpu.func @races
  // CHECK-COUNT-2: gpu.barrier
  gpu.func @races(%to: memref<64xf32>) workgroup(%a: memref<32xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c31 = arith.constant 31 : index
    %tid = gpu.thread_id x
    %other = arith.subi %c31, %tid : index
    %v = memref.load %to[%tid] : memref<64xf32>
    memref.store %v, %a[%tid] : memref<32xf32, #wg>
    %x = memref.load %a[%other] : memref<32xf32, #wg>
    gpu.barrier
    memref.store %x, %to[%tid] : memref<64xf32>
    gpu.barrier
    gpu.return
  }

  // Two adds never race, but the second one returns what all threads have added.
  // CHECK-LABEL: gpu.func @atomic
  // CHECK:         memref.atomic_rmw
  // CHECK-NEXT:    gpu.barrier
  // CHECK-NEXT:    memref.atomic_rmw
  gpu.func @atomic(%to: memref<64xi32>) workgroup(%a: memref<1xi32, #wg>)
      kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c0 = arith.constant 0 : index
    %one = arith.constant 1 : i32
    %none = arith.constant 0 : i32
    %tid = gpu.thread_id x
    %x = memref.atomic_rmw addi %one, %a[%c0] : (i32, memref<1xi32, #wg>) -> i32
    gpu.barrier
    %y = memref.atomic_rmw addi %none, %a[%c0] : (i32, memref<1xi32, #wg>) -> i32
    memref.store %y, %to[%tid] : memref<64xi32>
    gpu.return
  }
}

// CHECK-LABEL: func.func @not_a_kernel
// CHECK:         gpu.barrier
func.func @not_a_kernel(%a: memref<32xf32, #wg>) attributes {known_block_size = array<i32: 32, 1, 1>} {
  %tid = gpu.thread_id x
  %v = memref.load %a[%tid] : memref<32xf32, #wg>
  gpu.barrier
  memref.store %v, %a[%tid] : memref<32xf32, #wg>
  return
}
