// RUN: async-pipe-opt %s --async-pipe-normalise-affine | FileCheck %s

// An annotated affine.for becomes an scf.for, its accesses those of memref; another loop stays.

#wg = #gpu.address_space<workgroup>

// CHECK-LABEL: func.func @rows
// CHECK:       scf.for %[[I:.*]] = %
// CHECK:         %[[X:.*]] = affine.apply #{{.*}}(%[[I]])
// CHECK:         memref.load %{{.*}}[%[[X]]] : memref<128xf32>
// CHECK:         memref.store %{{.*}}[%[[I]]] : memref<32xf32, {{.*}}>
// CHECK:       } {async_pipe.num_stages = 3 : i64}
// CHECK:       affine.for
func.func @rows(%A: memref<128xf32>, %tile: memref<32xf32, #wg>) {
  affine.for %i = 0 to 32 {
    %v = affine.load %A[%i * 4] : memref<128xf32>
    affine.store %v, %tile[%i] : memref<32xf32, #wg>
  } {async_pipe.num_stages = 3 : i64}
  affine.for %i = 0 to 32 {
    %v = affine.load %A[%i] : memref<128xf32>
    affine.store %v, %A[%i + 64] : memref<128xf32>
  }
  return
}
