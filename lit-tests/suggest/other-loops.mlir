// Loops that are no scf.for: why nothing can be suggested, in place.
// RUN: async-pipe-opt %s --suggest 2>&1 | FileCheck %s --implicit-check-not=remark
// RUN: async-pipe-opt %s --async-pipe-raise-loops --suggest 2>&1 | FileCheck %s --check-prefix=RAISED

// CHECK-DAG: [[@LINE+3]]:3: remark: 3 stages do not help this loop: {{.*}} [dependence-violated] [no-suggestion]
// CHECK-DAG: [[@LINE+6]]:3: remark: 'async_pipe.num_stages = 3' on this loop: loads 2 iterations ahead
func.func @affine(%A: memref<64xf32> {llvm.noalias}, %C: memref<64xf32> {llvm.noalias}, %D: memref<64xf32>) {
  affine.for %k = 0 to 16 {
    %x = affine.load %D[%k] : memref<64xf32>
    affine.store %x, %D[%k + 2] : memref<64xf32>
  }
  affine.for %k = 0 to 16 {
    %x = affine.load %A[%k] : memref<64xf32>
    affine.store %x, %C[%k] : memref<64xf32>
  }
  affine.for %k = 0 to 16 {
    %x = affine.load %A[%k] : memref<64xf32>
    affine.store %x, %C[%k] : memref<64xf32>
  } {async_pipe.num_stages = 3 : i64}
  return
}

// The outer one reads nothing itself.
// CHECK-DAG: [[@LINE+3]]:5: remark: nothing can be suggested for this loop: nobody counts the iterations of an 'scf.while'; what is pipelined is 'scf.for' [loop-not-counted] [no-suggestion]
func.func @while(%A: memref<64xf32>, %C: memref<64xf32>, %n: index, %go: i1) {
  scf.while : () -> () { scf.condition(%go) } do {
    scf.while : () -> () {
      %x = memref.load %A[%n] : memref<64xf32>
      memref.store %x, %C[%n] : memref<64xf32>
      scf.condition(%go)
    } do {
      scf.yield
    }
    scf.yield
  }
  return
}

// CHECK-DAG:  [[@LINE+8]]:3: remark: nothing can be suggested for this loop: 'async-pipe-raise-loops' makes an 'scf.for' of it, which can be tried [raise-first] [no-suggestion]
// RAISED-DAG: [[@LINE+7]]:3: remark: 'async_pipe.num_stages = 3' on this loop: loads 2 iterations ahead
func.func @blocks(%A: memref<64xf32> {llvm.noalias}, %C: memref<64xf32> {llvm.noalias}, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  cf.br ^head(%c0 : index)
^head(%i: index):
  %more = arith.cmpi slt, %i, %n : index
  cf.cond_br %more, ^body, ^end
^body:
  %x = memref.load %A[%i] : memref<64xf32>
  memref.store %x, %C[%i] : memref<64xf32>
  %next = arith.addi %i, %c1 : index
  cf.br ^head(%next : index)
^end:
  return
}

// CHECK-DAG:  [[@LINE+8]]:3: remark: nothing can be suggested for this loop: the loop stays as branches: it is left from here, too [loop-early-exit] [no-suggestion]
// RAISED-DAG: remark: nothing can be suggested for this loop: the loop stays as branches: it is left from here, too [loop-early-exit] [no-suggestion]
func.func @break(%A: memref<64xf32> {llvm.noalias}, %C: memref<64xf32> {llvm.noalias}, %n: index, %stop: i1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  cf.br ^head(%c0 : index)
^head(%i: index):
  %more = arith.cmpi slt, %i, %n : index
  cf.cond_br %more, ^body, ^end
^body:
  %x = memref.load %A[%i] : memref<64xf32>
  memref.store %x, %C[%i] : memref<64xf32>
  %next = arith.addi %i, %c1 : index
  cf.cond_br %stop, ^head(%next : index), ^end
^end:
  return
}
