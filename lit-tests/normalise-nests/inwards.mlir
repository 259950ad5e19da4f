// RUN: async-pipe-opt %s --async-pipe-normalise-nests --verify-diagnostics | FileCheck %s

// `num_stages` of a loop that loads nothing itself is that of the loop inside; one that loads keeps it.

#wg = #gpu.address_space<workgroup>

// CHECK-LABEL: func.func @tiles
// CHECK:         memref.store %{{.*}}, %arg2
// CHECK:       } {async_pipe.num_stages = 3 : i64}
// CHECK-NEXT:  }
// CHECK-NEXT:  return
func.func @tiles(%A: memref<64x64xf32>, %tile: memref<64xf32, #wg>, %O: memref<64xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // expected-remark @below {{this loop loads nothing itself, so its 'async_pipe.num_stages' is that of the loop inside}}
  scf.for %t = %c0 to %n step %c1 {
    // expected-note @below {{this loop is pipelined}}
    scf.for %i = %c0 to %n step %c1 {
      %v = memref.load %A[%t, %i] : memref<64x64xf32>
      memref.store %v, %tile[%i] : memref<64xf32, #wg>
      %w = memref.load %tile[%c0] : memref<64xf32, #wg>
      memref.store %w, %O[%i] : memref<64xf32>
    }
  } {async_pipe.num_stages = 3 : i64}
  return
}

// CHECK-LABEL: func.func @itself
// CHECK:         memref.store %{{.*}}, %arg2
// CHECK-NEXT:  }
// CHECK-NEXT:  } {async_pipe.num_stages = 3 : i64}
func.func @itself(%A: memref<64x64xf32>, %tile: memref<64xf32, #wg>, %O: memref<64xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %t = %c0 to %n step %c1 {
    %v = memref.load %A[%t, %c0] : memref<64x64xf32>
    memref.store %v, %tile[%c0] : memref<64xf32, #wg>
    scf.for %i = %c0 to %n step %c1 {
      %w = memref.load %tile[%c0] : memref<64xf32, #wg>
      memref.store %w, %O[%i] : memref<64xf32>
    }
  } {async_pipe.num_stages = 3 : i64}
  return
}
