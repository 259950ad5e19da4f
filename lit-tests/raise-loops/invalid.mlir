// RUN: async-pipe-opt %s --async-pipe-raise-loops --split-input-file --verify-diagnostics | FileCheck %s

// CHECK-LABEL: func.func @no_end
// CHECK:         cf.cond_br
func.func @no_end(%n: i64) {
  %one = arith.constant 1 : i64
  cf.br ^header(%one : i64)
^header(%i: i64):
  %more = arith.cmpi ne, %i, %n : i64
  // expected-remark @below {{the loop stays as branches: how often it runs is not counted up to an end or down to 0 [loop-not-counted]}}
  cf.cond_br %more, ^body, ^out
^body:
  %i1 = arith.addi %i, %one : i64
  cf.br ^header(%i1 : i64)
^out:
  return
}

// -----

// CHECK-LABEL: func.func @break
// CHECK-NOT:     scf.for
func.func @break(%a: memref<?xi1>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  cf.br ^header(%c0 : index)
^header(%i: index):
  %more = arith.cmpi slt, %i, %n : index
  cf.cond_br %more, ^body, ^out
^body:
  %found = memref.load %a[%i] : memref<?xi1>
  %i1 = arith.addi %i, %c1 : index
  // expected-remark @below {{the loop stays as branches: it is left from here, too [loop-early-exit]}}
  cf.cond_br %found, ^out, ^header(%i1 : index)
^out:
  return
}

// -----

// CHECK-LABEL: func.func @reads_its_end
// CHECK-NOT:     scf.for
func.func @reads_its_end(%a: memref<index>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  cf.br ^header(%c0 : index)
^header(%i: index):
  // expected-remark @below {{the loop stays as branches: 'memref.load' runs once more than the rest of it [loop-header-effects]}}
  %n = memref.load %a[] : memref<index>
  %more = arith.cmpi slt, %i, %n : index
  cf.cond_br %more, ^body, ^out
^body:
  %i1 = arith.addi %i, %c1 : index
  memref.store %i1, %a[] : memref<index>
  cf.br ^header(%i1 : index)
^out:
  return
}

// -----

// Two ways into one loop.
// CHECK-LABEL: func.func @two_entries
// CHECK-NOT:     scf.for
func.func @two_entries(%a: memref<4xindex>, %p: i1, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  cf.cond_br %p, ^header(%c0 : index), ^body(%c1 : index)
^header(%i: index):
  %more = arith.cmpi slt, %i, %n : index
  // expected-remark @below {{the loop stays as branches: it is entered at two places [loop-not-structured]}}
  cf.cond_br %more, ^body(%i : index), ^out
^body(%j: index):
  memref.store %j, %a[%c0] : memref<4xindex>
  %j1 = arith.addi %j, %c1 : index
  cf.br ^header(%j1 : index)
^out:
  return
}
