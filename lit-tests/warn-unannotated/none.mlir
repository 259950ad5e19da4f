// RUN: async-pipe-opt %s --async-pipe-warn-unannotated --split-input-file --verify-diagnostics

// A module in which nothing asks to be pipelined gets a warning, one that asks none.

// expected-warning @below {{no loop here asks to be pipelined}}
module {
  // expected-note @above {{annotate one}}
  func.func @none() {
    return
  }
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
