// RUN: async-pipe-opt %s --async-pipe-cursors --split-input-file --verify-diagnostics | FileCheck %s

// CHECK-LABEL: func.func @in_parallel
// CHECK:         memref.load
func.func @in_parallel(%n: index) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  // expected-remark @below {{the number of a slot stays in memory: it is used in a region that can be handed nothing more [cursor-in-memory]}}
  %cell = memref.alloca() {async_pipe.cursor} : memref<index>
  memref.store %zero, %cell[] : memref<index>
  scf.forall (%i) in (8) {
    %slot = memref.load %cell[] : memref<index>
    "test.use"(%slot) : (index) -> ()
  }
  return
}

// -----

func.func @handed_on() {
  // expected-remark @below {{the number of a slot stays in memory}}
  %cell = memref.alloca() {async_pipe.cursor} : memref<index>
  "test.use"(%cell) : (memref<index>) -> ()
  return
}
