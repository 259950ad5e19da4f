// Numbers of slots that stand in memory become values: of loops, of branches, between blocks.
// RUN: async-pipe-opt %s --async-pipe-cursors | FileCheck %s
// RUN: async-pipe-opt %s --async-pipe-cursors --async-pipe-cursors | FileCheck %s

// CHECK-LABEL: func.func @loop
// CHECK-NOT:     memref.alloca
// CHECK:         scf.for {{.*}} iter_args(%[[S:.*]] = %c0{{.*}}) -> (index)
// CHECK-NEXT:      "test.use"(%[[S]])
// CHECK-NEXT:      %[[NEXT:.*]] = arith.addi %[[S]]
// CHECK-NEXT:      scf.yield %[[NEXT]]
func.func @loop(%n: index) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %cell = memref.alloca() {async_pipe.cursor} : memref<index>
  memref.store %zero, %cell[] : memref<index>
  scf.for %i = %zero to %n step %one {
    %slot = memref.load %cell[] : memref<index>
    "test.use"(%slot) : (index) -> ()
    %next = arith.addi %slot, %one : index
    memref.store %next, %cell[] : memref<index>
  }
  return
}

// CHECK-LABEL: func.func @branch
// CHECK:         %[[CELL:.*]] = scf.if %{{.*}} -> (index)
// CHECK:           scf.yield %{{.*}}
// CHECK-NEXT:    } else {
// CHECK-NEXT:      scf.yield %{{.*}}
// CHECK:         "test.use"(%[[CELL]])
func.func @branch(%p: i1) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %cell = memref.alloca() {async_pipe.cursor} : memref<index>
  memref.store %zero, %cell[] : memref<index>
  scf.if %p {
    memref.store %one, %cell[] : memref<index>
  }
  %slot = memref.load %cell[] : memref<index>
  "test.use"(%slot) : (index) -> ()
  return
}

// CHECK-LABEL: func.func @blocks
// CHECK:         cf.cond_br %{{.*}}, ^bb1, ^bb2(%[[A:.*]] : index)
// CHECK:         cf.br ^bb2(%[[B:.*]] : index)
// CHECK:       ^bb2(%[[SLOT:.*]]: index):
// CHECK:         "test.use"(%[[SLOT]])
func.func @blocks(%p: i1) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %cell = memref.alloca() {async_pipe.cursor} : memref<index>
  memref.store %zero, %cell[] : memref<index>
  cf.cond_br %p, ^more, ^out
^more:
  memref.store %one, %cell[] : memref<index>
  cf.br ^out
^out:
  %slot = memref.load %cell[] : memref<index>
  "test.use"(%slot) : (index) -> ()
  return
}
