// RUN: async-pipe-opt %s --async-pipe-normalise-slots --verify-diagnostics | FileCheck %s

// A buffer whose two slots the loop counts itself gets one, and a barrier; a loop of fewer iterations than are kept in flight stays.

#wg = #gpu.address_space<workgroup>

// CHECK-LABEL: func.func @two
// CHECK:       %[[B:.*]] = memref.alloc() : memref<64xf32
// CHECK:       scf.for
// CHECK:         memref.store %{{.*}}, %[[B]][%{{.*}}] : memref<64xf32
// CHECK:         gpu.barrier
// CHECK:         memref.load %[[B]][%{{.*}}] : memref<64xf32
// CHECK:         gpu.barrier memfence
// CHECK-NEXT:  } {async_pipe.num_stages = 3 : i64}
func.func @two(%A: memref<64x64xf32> {llvm.noalias}, %O: memref<64x64xf32> {llvm.noalias}) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c16 = arith.constant 16 : index
  %t = gpu.thread_id x
  // expected-note @below {{the buffer}}
  %b = memref.alloc() : memref<2x64xf32, #wg>
  // expected-remark @below {{the loop counts 2 slots of a buffer itself; they go}}
  scf.for %i = %c0 to %c16 step %c1 {
    %s = arith.remui %i, %c2 : index
    %v = memref.load %A[%i, %t] : memref<64x64xf32>
    memref.store %v, %b[%s, %t] : memref<2x64xf32, #wg>
    gpu.barrier
    %w = memref.load %b[%s, %t] : memref<2x64xf32, #wg>
    memref.store %w, %O[%i, %t] : memref<64x64xf32>
  } {async_pipe.num_stages = 3 : i64}
  return
}

// CHECK-LABEL: func.func @short
// CHECK:       memref.alloc() : memref<2x64xf32
func.func @short(%A: memref<64x64xf32> {llvm.noalias}, %O: memref<64x64xf32> {llvm.noalias}) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %t = gpu.thread_id x
  %b = memref.alloc() : memref<2x64xf32, #wg>
  scf.for %i = %c0 to %c1 step %c1 {
    %s = arith.remui %i, %c2 : index
    %v = memref.load %A[%i, %t] : memref<64x64xf32>
    memref.store %v, %b[%s, %t] : memref<2x64xf32, #wg>
    gpu.barrier
    %w = memref.load %b[%s, %t] : memref<2x64xf32, #wg>
    memref.store %w, %O[%i, %t] : memref<64x64xf32>
  } {async_pipe.num_stages = 3 : i64}
  return}
