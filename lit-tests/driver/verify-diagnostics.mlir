// Each part is parsed on its own, and its diagnostics are compared with the comments.
// RUN: async-pipe-opt %s --split-input-file --verify-diagnostics

func.func @undeclared() -> i32 {
  // expected-error @+1 {{use of undeclared SSA value name [parse-error]}}
  return %x : i32
}

// -----

func.func @wrong_type() -> i32 {
  %0 = arith.constant 0 : i64
  // expected-error-re @below {{type of return operand {{[0-9]+}} ('i64') doesn't match}}
  // expected-note @below {{see current operation}}
  return %0 : i64
}

// -----

func.func @same_line( // expected-error {{expected non-function type}}

// -----

func.func @fine() {
  return
}

// -----

func.func @above() -> i32 {
  return %x : i32
  // expected-error @above {{use of undeclared}}
}
