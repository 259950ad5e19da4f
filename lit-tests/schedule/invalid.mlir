// What async-pipe-schedule refuses, one reason a function.
// RUN: async-pipe-opt %s --split-input-file --verify-diagnostics --async-pipe-schedule

func.func @stage_too_short(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %B = memref.alloca() : memref<1xf32>
  // expected-error @below {{'async_pipe.stage' has 3 entries, but the loop has 4 statements [annotation-length]}}
  scf.for %i = %c0 to %c16 step %c1 {
    // expected-note @below {{statement 0 is 'memref.load'}}
    %a = memref.load %A[%i] : memref<16xf32>
    // expected-note @below {{statement 1 is 'memref.store'}}
    memref.store %a, %B[%c0] : memref<1xf32>
    // expected-note @below {{statement 2 is 'memref.load'}}
    %b = memref.load %B[%c0] : memref<1xf32>
    // expected-note @below {{statement 3 is 'memref.store'}}
    memref.store %b, %C[%i] : memref<16xf32>
  } {async_pipe.stage = [0, 0, 1]}
  return
}

// -----

func.func @order_too_long(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %B = memref.alloca() : memref<1xf32>
  // expected-error @below {{'async_pipe.order' has 5 entries, but the loop has 4 statements [annotation-length]}}
  scf.for %i = %c0 to %c16 step %c1 {
    // expected-note @below {{statement 0}}
    %a = memref.load %A[%i] : memref<16xf32>
    // expected-note @below {{statement 1}}
    memref.store %a, %B[%c0] : memref<1xf32>
    // expected-note @below {{statement 2}}
    %b = memref.load %B[%c0] : memref<1xf32>
    // expected-note @below {{statement 3}}
    memref.store %b, %C[%i] : memref<16xf32>
  } {async_pipe.stage = [0, 0, 1, 1], async_pipe.order = [0, 1, 2, 3, 4]}
  return
}

// -----

func.func @negative_stage(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %B = memref.alloca() : memref<1xf32>
  // expected-error @below {{'async_pipe.stage' of statement 1 is -1, expected 0 or more [negative-stage]}}
  scf.for %i = %c0 to %c16 step %c1 {
    %a = memref.load %A[%i] : memref<16xf32>
    // expected-note @below {{statement 1}}
    memref.store %a, %B[%c0] : memref<1xf32>
    %b = memref.load %B[%c0] : memref<1xf32>
    memref.store %b, %C[%i] : memref<16xf32>
  } {async_pipe.stage = [0, -1, 1, 1]}
  return
}

// -----

func.func @negative_stage_on_an_op(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %B = memref.alloca() : memref<1xf32>
  scf.for %i = %c0 to %c16 step %c1 {
    %a = memref.load %A[%i] {async_pipe.stage = 0} : memref<16xf32>
    // expected-error @below {{'async_pipe.stage' is -2, expected 0 or more [negative-stage]}}
    memref.store %a, %C[%i] {async_pipe.stage = -2} : memref<16xf32>
  }
  return
}

// -----

func.func @order_repeats(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %B = memref.alloca() : memref<1xf32>
  // expected-error @below {{'async_pipe.order' is [0, 1, 1, 2], expected a permutation of 0..3 [order-not-permutation]}}
  scf.for %i = %c0 to %c16 step %c1 {
    %a = memref.load %A[%i] : memref<16xf32>
    memref.store %a, %B[%c0] : memref<1xf32>
    %b = memref.load %B[%c0] : memref<1xf32>
    memref.store %b, %C[%i] : memref<16xf32>
  } {async_pipe.stage = [0, 0, 1, 1], async_pipe.order = [0, 1, 1, 2]}
  return
}

// -----

func.func @no_such_async_stage(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %B = memref.alloca() : memref<1xf32>
  // expected-error @below {{'async_pipe.async_stages' holds 1, but no statement is in that stage [async-stage-unknown]}}
  // expected-note @below {{the stages are [0, 2]}}
  scf.for %i = %c0 to %c16 step %c1 {
    %a = memref.load %A[%i] : memref<16xf32>
    memref.store %a, %B[%c0] : memref<1xf32>
    %b = memref.load %B[%c0] : memref<1xf32>
    memref.store %b, %C[%i] : memref<16xf32>
  } {async_pipe.stage = [0, 0, 2, 2], async_pipe.async_stages = [1]}
  return
}

// -----

func.func @async_stage_twice(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %B = memref.alloca() : memref<1xf32>
  // expected-error @below {{'async_pipe.async_stages' holds 0 more than once [async-stage-repeated]}}
  scf.for %i = %c0 to %c16 step %c1 {
    %a = memref.load %A[%i] : memref<16xf32>
    memref.store %a, %B[%c0] : memref<1xf32>
    %b = memref.load %B[%c0] : memref<1xf32>
    memref.store %b, %C[%i] : memref<16xf32>
  } {async_pipe.stage = [0, 0, 1, 1], async_pipe.async_stages = [0, 0]}
  return
}

// -----

func.func @order_alone(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %B = memref.alloca() : memref<1xf32>
  // expected-error @below {{the loop has 'async_pipe.order' or 'async_pipe.async_stages' but no 'async_pipe.stage' [stage-missing]}}
  scf.for %i = %c0 to %c16 step %c1 {
    %a = memref.load %A[%i] : memref<16xf32>
    memref.store %a, %B[%c0] : memref<1xf32>
    %b = memref.load %B[%c0] : memref<1xf32>
    memref.store %b, %C[%i] : memref<16xf32>
  } {async_pipe.order = [0, 1, 2, 3], async_pipe.async_stages = [0]}
  return
}

// -----

func.func @stage_on_some_ops(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %B = memref.alloca() : memref<1xf32>
  scf.for %i = %c0 to %c16 step %c1 {
    // expected-note @below {{another statement of the loop has one}}
    %a = memref.load %A[%i] {async_pipe.stage = 0} : memref<16xf32>
    // expected-error @below {{statement 1, 'memref.store', has no 'async_pipe.stage' [stage-missing]}}
    memref.store %a, %C[%i] : memref<16xf32>
  }
  return
}

// -----

func.func @misspelt(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %B = memref.alloca() : memref<1xf32>
  // expected-error @below {{unknown attribute 'async_pipe.stages' on 'scf.for' [unknown-annotation]}}
  // expected-note @below {{did you mean 'async_pipe.stage'?}}
  scf.for %i = %c0 to %c16 step %c1 {
    %a = memref.load %A[%i] : memref<16xf32>
    memref.store %a, %B[%c0] : memref<1xf32>
    %b = memref.load %B[%c0] : memref<1xf32>
    memref.store %b, %C[%i] : memref<16xf32>
  } {async_pipe.stages = [0, 0, 1, 1], async_pipe.stage = [0, 0, 1, 1]}
  return
}

// -----

func.func @misspelt_on_an_op(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %B = memref.alloca() : memref<1xf32>
  scf.for %i = %c0 to %c16 step %c1 {
    %a = memref.load %A[%i] : memref<16xf32>
    // expected-error @below {{unknown attribute 'async_pipe.asynch' on 'memref.store' [unknown-annotation]}}
    // expected-note @below {{did you mean 'async_pipe.async'?}}
    memref.store %a, %C[%i] {async_pipe.asynch} : memref<16xf32>
  } {async_pipe.stage = [0, 1]}
  return
}

// -----

func.func @not_a_number(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %B = memref.alloca() : memref<1xf32>
  // expected-error @below {{'async_pipe.num_stages' is "three", expected a whole number [bad-annotation]}}
  scf.for %i = %c0 to %c16 step %c1 {
    %a = memref.load %A[%i] : memref<16xf32>
    memref.store %a, %B[%c0] : memref<1xf32>
    %b = memref.load %B[%c0] : memref<1xf32>
    memref.store %b, %C[%i] : memref<16xf32>
  } {async_pipe.num_stages = "three"}
  return
}

// -----

func.func @not_numbers(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %B = memref.alloca() : memref<1xf32>
  // expected-error @below {{expected array<i64: …> or [ … ] of whole numbers [bad-annotation]}}
  scf.for %i = %c0 to %c16 step %c1 {
    %a = memref.load %A[%i] : memref<16xf32>
    memref.store %a, %B[%c0] : memref<1xf32>
    %b = memref.load %B[%c0] : memref<1xf32>
    memref.store %b, %C[%i] : memref<16xf32>
  } {async_pipe.stage = [0, "one", 1, 1]}
  return
}

// -----

func.func @no_such_choice(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %B = memref.alloca() : memref<1xf32>
  // expected-error @below {{'async_pipe.wait_at' is "never", expected "consumer" or "iteration" [bad-annotation]}}
  scf.for %i = %c0 to %c16 step %c1 {
    %a = memref.load %A[%i] : memref<16xf32>
    memref.store %a, %B[%c0] : memref<1xf32>
    %b = memref.load %B[%c0] : memref<1xf32>
    memref.store %b, %C[%i] : memref<16xf32>
  } {async_pipe.stage = [0, 0, 1, 1], async_pipe.wait_at = "never"}
  return
}

// -----

func.func @two_forms(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %B = memref.alloca() : memref<1xf32>
  // expected-error @below {{'async_pipe.num_stages' and 'async_pipe.stage' exclude each other [conflicting-annotations]}}
  // expected-note @below {{keep 'async_pipe.num_stages' for the default schedule}}
  scf.for %i = %c0 to %c16 step %c1 {
    %a = memref.load %A[%i] : memref<16xf32>
    memref.store %a, %B[%c0] : memref<1xf32>
    %b = memref.load %B[%c0] : memref<1xf32>
    memref.store %b, %C[%i] : memref<16xf32>
  } {async_pipe.stage = [0, 0, 1, 1], async_pipe.num_stages = 3}
  return
}

// -----

func.func @count_and_order(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %B = memref.alloca() : memref<1xf32>
  // expected-error @below {{'async_pipe.num_stages' makes its own order and async stages [conflicting-annotations]}}
  scf.for %i = %c0 to %c16 step %c1 {
    %a = memref.load %A[%i] : memref<16xf32>
    memref.store %a, %B[%c0] : memref<1xf32>
    %b = memref.load %B[%c0] : memref<1xf32>
    memref.store %b, %C[%i] : memref<16xf32>
  } {async_pipe.order = [0, 1, 2, 3], async_pipe.num_stages = 3}
  return
}

// -----

func.func @loop_and_ops(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %B = memref.alloca() : memref<1xf32>
  // expected-error @below {{the loop and its ops both carry stages [conflicting-annotations]}}
  scf.for %i = %c0 to %c16 step %c1 {
    // expected-note @below {{'async_pipe.stage' here}}
    %a = memref.load %A[%i] {async_pipe.stage = 0} : memref<16xf32>
    memref.store %a, %C[%i] : memref<16xf32>
  } {async_pipe.stage = [0, 1]}
  return
}

// -----

func.func @no_stage_at_all(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %B = memref.alloca() : memref<1xf32>
  // expected-error @below {{'async_pipe.num_stages' is 0, expected 1 or more [num-stages-too-small]}}
  scf.for %i = %c0 to %c16 step %c1 {
    %a = memref.load %A[%i] : memref<16xf32>
    memref.store %a, %B[%c0] : memref<1xf32>
    %b = memref.load %B[%c0] : memref<1xf32>
    memref.store %b, %C[%i] : memref<16xf32>
  } {async_pipe.num_stages = 0}
  return
}

// -----

func.func @nothing_to_copy(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %B = memref.alloca() : memref<1xf32>
  // expected-error @below {{cannot pipeline: the loop copies nothing from global to workgroup memory}}
  // expected-note @below {{give the schedule yourself}}
  scf.for %i = %c0 to %c16 step %c1 {
    // expected-note @below {{statement 0}}
    %a = memref.load %A[%i] : memref<16xf32>
    // expected-note @below {{statement 1}}
    memref.store %a, %C[%i] : memref<16xf32>
  } {async_pipe.stage_through = "async", async_pipe.num_stages = 3}
  return
}

// -----

func.func @affine(%A : memref<16xf32>, %C : memref<16xf32>) {
  // expected-error @below {{only 'scf.for' can be pipelined, this is 'affine.for' [not-a-loop]}}
  // expected-note @below {{turn it into 'scf.for' first}}
  affine.for %i = 0 to 16 {
    affine.if affine_set<(d0) : (d0 - 3 >= 0)>(%i) {
      %a = affine.load %A[%i] : memref<16xf32>
      affine.store %a, %C[%i] : memref<16xf32>
    }
  } {async_pipe.num_stages = 3}
  return
}

// -----

func.func @parallel(%A : memref<16xf32>, %C : memref<16xf32>, %n : index) {
  // expected-error @below {{only 'scf.for' can be pipelined, this is 'scf.forall' [not-a-loop]}}
  // expected-note @below {{turn it into 'scf.for' first}}
  scf.forall (%i) in (%n) {
    %a = memref.load %A[%i] : memref<16xf32>
    memref.store %a, %C[%i] : memref<16xf32>
  } {async_pipe.stage = [0, 1]}
  return
}

// -----

func.func @bulk_copy(%to: !llvm.ptr<7>, %from: !llvm.ptr<1>, %full: !llvm.ptr<3>, %B : memref<64xf32>, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %bytes = arith.constant 256 : i32
  scf.for %i = %c0 to %c16 step %c1 {
    // expected-error @below {{cannot pipeline: 'nvvm.cp.async.bulk.shared.cluster.global' completes on an mbarrier, and is not made to run ahead: it has no predicate, which ends the copies [async-op-unsupported]}}
    // expected-note @below {{write it as 'nvgpu.tma.async.load' of a tiled map into this block, or as nvgpu.device_async_copy}}
    nvvm.cp.async.bulk.shared.cluster.global %to, %from, %full, %bytes : !llvm.ptr<7>, !llvm.ptr<1>
    %b = memref.load %B[%c0] : memref<64xf32>
    memref.store %b, %C[%i] : memref<16xf32>
  } {async_pipe.num_stages = 3}
  return
}

// -----

func.func @no_tensor_copies(%B : memref<64xf32>, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  // expected-error @below {{'async_pipe.in_flight' stands on a loop without tensor copies [bad-annotation]}}
  // expected-note @below {{it says how many iterations' products run beside tensor copies}}
  scf.for %i = %c0 to %c16 step %c1 {
    %b = memref.load %B[%i] : memref<64xf32>
    memref.store %b, %C[%i] : memref<16xf32>
  } {async_pipe.num_stages = 3, async_pipe.in_flight = 1}
  return
}
