// What latencies may not be, one reason a function.
// RUN: async-pipe-opt %s --split-input-file --verify-diagnostics --async-pipe-schedule

func.func @negative(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  scf.for %i = %c0 to %c16 step %c1 {
    // expected-error @below {{'async_pipe.latency' is -5, expected 0 or more cycles [negative-latency]}}
    %a = memref.load %A[%i] {async_pipe.latency = -5 : i64} : memref<16xf32>
    memref.store %a, %C[%i] : memref<16xf32>
  }
  return
}

// -----

func.func @no_number(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  scf.for %i = %c0 to %c16 step %c1 {
    // expected-error @below {{'async_pipe.latency' is "long", expected a whole number [bad-annotation]}}
    %a = memref.load %A[%i] {async_pipe.latency = "long"} : memref<16xf32>
    memref.store %a, %C[%i] : memref<16xf32>
  }
  return
}

// -----

func.func @beside_stages(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  // expected-error @below {{'async_pipe.latency' on ops asks for a schedule, and the loop gives one [conflicting-annotations]}}
  // expected-note @below {{'async_pipe.cycles' says what an op costs and asks for nothing}}
  scf.for %i = %c0 to %c16 step %c1 {
    // expected-note @below {{'async_pipe.latency' here}}
    %a = memref.load %A[%i] {async_pipe.latency = 5 : i64} : memref<16xf32>
    memref.store %a, %C[%i] : memref<16xf32>
  } {async_pipe.stage = [0, 1]}
  return
}

// -----

func.func @pure(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  scf.for %i = %c0 to %c16 step %c1 {
    %a = memref.load %A[%i] : memref<16xf32>
    // expected-error @below {{'async_pipe.latency' stands on 'math.exp', which is no statement but a pure op [latency-without-statement]}}
    // expected-note @below {{'async_pipe.cycles' says what an op costs; an 'scf.execute_region' around pure ops makes them a statement}}
    %e = math.exp %a {async_pipe.latency = 40 : i64} : f32
    memref.store %e, %C[%i] : memref<16xf32>
  }
  return
}

// -----

func.func @barrier(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  scf.for %i = %c0 to %c16 step %c1 {
    %a = memref.load %A[%i] : memref<16xf32>
    // expected-error @below {{'async_pipe.latency' stands on 'gpu.barrier', which is no statement but synchronisation [latency-without-statement]}}
    // expected-note @below {{'async_pipe.cycles' says what an op costs; an 'scf.execute_region' around pure ops makes them a statement}}
    gpu.barrier {async_pipe.latency = 20 : i64}
    memref.store %a, %C[%i] : memref<16xf32>
  }
  return
}
