// RUN: async-pipe-opt %s --async-pipe-warn-unannotated --split-input-file --verify-diagnostics

// Loops of which none asks to be pipelined get a warning, at the first one.

func.func @none(%n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // expected-warning @below {{no loop here asks to be pipelined}}
  scf.for %i = %c0 to %n step %c1 {
    // expected-note @above {{annotate one}}
  }
  scf.for %i = %c0 to %n step %c1 {
  }
  return
}

// -----

func.func @blocks(%n: i1) {
  cf.br ^header
^header:
  cf.cond_br %n, ^header, ^end
^end:
  return
}
// expected-warning @-7 {{no loop here asks to be pipelined}}
// expected-note @-8 {{annotate one}}

// -----

// No loop, nothing to ask for.
func.func @straight() {
  return
}

// -----

module {
  func.func @one(%n: index) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    scf.for %i = %c0 to %n step %c1 {
    } {async_pipe.num_stages = 3 : i64}
    return
  }
}

// -----

// It asks, though it cannot be pipelined: that is said once, by what refuses it.
func.func @asks(%n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %e = scf.while (%i = %c0) : (index) -> index {
    %c = arith.cmpi slt, %i, %n : index
    scf.condition(%c) %i : index
  } do {
  ^bb0(%i: index):
    %next = arith.addi %i, %c1 : index
    scf.yield %next : index
  } attributes {async_pipe.num_stages = 3 : i64}
  return
}
