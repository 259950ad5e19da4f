// RUN: async-pipe-opt %s --async-pipe-normalise-buffers | FileCheck %s

// Windows of one allocation become allocations; those that overlap stay.

#wg = #gpu.address_space<workgroup>

// CHECK-LABEL: func.func @apart
// CHECK:       %[[A:.*]] = memref.alloc() {alignment = 16 : i64} : memref<64xf32
// CHECK-NEXT:  %[[B:.*]] = memref.alloc() {alignment = 16 : i64} : memref<32xf32
// CHECK-NOT:   memref.view
// CHECK:       scf.for
// CHECK:         memref.store %{{.*}}, %[[A]]
// CHECK:         memref.store %{{.*}}, %[[B]]
func.func @apart(%v: f32, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c256 = arith.constant 256 : index
  %bytes = memref.alloc() : memref<384xi8, #wg>
  %a = memref.view %bytes[%c0][] : memref<384xi8, #wg> to memref<64xf32, #wg>
  %b = memref.view %bytes[%c256][] : memref<384xi8, #wg> to memref<32xf32, #wg>
  scf.for %i = %c0 to %n step %c1 {
    memref.store %v, %a[%c0] : memref<64xf32, #wg>
    memref.store %v, %b[%c0] : memref<32xf32, #wg>
  } {async_pipe.num_stages = 2 : i64}
  return
}

// CHECK-LABEL: func.func @overlapping
// CHECK:       memref.alloc() : memref<384xi8
// CHECK-COUNT-2: memref.view
// CHECK:       scf.for
func.func @overlapping(%v: f32, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %bytes = memref.alloc() : memref<384xi8, #wg>
  %a = memref.view %bytes[%c0][] : memref<384xi8, #wg> to memref<64xf32, #wg>
  %b = memref.view %bytes[%c128][] : memref<384xi8, #wg> to memref<64xf32, #wg>
  scf.for %i = %c0 to %n step %c1 {
    memref.store %v, %a[%c0] : memref<64xf32, #wg>
    memref.store %v, %b[%c0] : memref<64xf32, #wg>
  } {async_pipe.num_stages = 2 : i64}
  return
}
