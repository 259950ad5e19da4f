// RUN: async-pipe-opt %s --async-pipe-normalise-tile-copies | FileCheck %s

// A copy of a tile becomes a load and a store a row; between other memory, or in another loop, it stays.

#wg = #gpu.address_space<workgroup>

// CHECK-LABEL: func.func @tile
// CHECK:       scf.for
// CHECK:         %[[V:.*]] = vector.load %arg0[%c0{{.*}}, %c0{{.*}}] : memref<2x8xf16>, vector<8xf16>
// CHECK:         vector.store %[[V]], %arg1[%c0{{.*}}, %c0{{.*}}]
// CHECK:         vector.load %arg0[%c1{{.*}}, %c0
// CHECK:         vector.store
// CHECK:         memref.copy %arg0, %arg2
// CHECK:       } {async_pipe.num_stages = 2 : i64}
// CHECK:       scf.for
// CHECK-NEXT:    memref.copy %arg0, %arg1
func.func @tile(%src: memref<2x8xf16>, %tile: memref<2x8xf16, #wg>, %out: memref<2x8xf16>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    memref.copy %src, %tile : memref<2x8xf16> to memref<2x8xf16, #wg>
    memref.copy %src, %out : memref<2x8xf16> to memref<2x8xf16>
  } {async_pipe.num_stages = 2 : i64}
  scf.for %i = %c0 to %n step %c1 {
    memref.copy %src, %tile : memref<2x8xf16> to memref<2x8xf16, #wg>
  }
  return
}
