// What async-pipe-expand refuses, one reason a function.
// RUN: async-pipe-opt %s --split-input-file --verify-diagnostics --async-pipe-schedule --async-pipe-expand

func.func @later_stage_makes_the_value(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %B = memref.alloca() : memref<1xf32>
  scf.for %i = %c0 to %c16 step %c1 {
    // expected-note @below {{the value is made here}}
    %a = memref.load %A[%i] : memref<16xf32>
    // expected-error @below {{cannot pipeline: 'memref.store' in stage 0 uses a value that is made later in the pipeline, in stage 1 [dependence-violated]}}
    memref.store %a, %C[%i] : memref<16xf32>
  } {async_pipe.stage = [1, 0]}
  return
}

// -----

func.func @reads_before_it_is_written(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %B = memref.alloca() : memref<1xf32>
  scf.for %i = %c0 to %c16 step %c1 {
    %a = memref.load %A[%i] : memref<16xf32>
    // expected-note @below {{the 'memref.store' that writes it}}
    memref.store %a, %B[%c0] : memref<1xf32>
    // expected-error @below {{cannot pipeline: 'memref.load' in stage 0 reads what 'memref.store' in stage 1 writes in the same iteration, and would run before it [dependence-violated]}}
    %b = memref.load %B[%c0] : memref<1xf32>
    memref.store %b, %C[%i] : memref<16xf32>
  } {async_pipe.stage = [0, 1, 0, 0]}
  return
}

// -----

func.func @accumulator_in_memory(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %B = memref.alloca() : memref<1xf32>
  scf.for %i = %c0 to %c16 step %c1 {
    // expected-error @below {{cannot pipeline: 'memref.load' in stage 0 reads what 'memref.store' in stage 1 writes 1 iteration before, and would run before it [dependence-violated]}}
    %c = memref.load %C[%c0] : memref<16xf32>
    %a = memref.load %A[%i] : memref<16xf32>
    %sum = arith.addf %c, %a : f32
    // expected-note @below {{the 'memref.store' that writes it}}
    memref.store %sum, %C[%c0] : memref<16xf32>
  } {async_pipe.stage = [0, 1, 1], async_pipe.independent}
  return
}

// -----

func.func @arguments_may_alias(%A : memref<16xf32>, %C : memref<16xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  // expected-note @below {{assert `async_pipe.independent` on this loop if they never overlap}}
  scf.for %i = %c0 to %c16 step %c1 {
    // expected-note @+2 {{give arguments `llvm.noalias`, or the option assume-noalias-arguments}}
    // expected-error @below {{cannot pipeline: 'memref.load' in stage 0 may read what 'memref.store' in stage 1 writes 1 iteration before, and would run before it [unproven-independence]}}
    %a = memref.load %A[%i] : memref<16xf32>
    // expected-note @below {{the 'memref.store' that may write it}}
    memref.store %a, %C[%i] : memref<16xf32>
  } {async_pipe.stage = [0, 1]}
  return
}

// -----

func.func @an_older_iterations_value(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  // expected-note @+1 {{say so with `async_pipe.private` on the allocation}}
  %B = memref.alloca() : memref<1xf32>
  scf.for %i = %c0 to %c16 step %c1 {
    // expected-error @below {{cannot pipeline: the buffer needs a version an iteration, but 'memref.load' may read what its iteration did not write [not-privatisable]}}
    // expected-note @below {{this 'memref.load' reads it}}
    %b = memref.load %B[%c0] : memref<1xf32>
    memref.store %b, %C[%i] : memref<16xf32>
    %a = memref.load %A[%i] : memref<16xf32>
    memref.store %a, %B[%c0] : memref<1xf32>
  } {async_pipe.stage = [1, 1, 0, 0]}
  return
}

// -----

func.func @value_leaves_its_scope(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %B = memref.alloca() : memref<1xf32>
  scf.for %i = %c0 to %c16 step %c1 {
    // expected-error @below {{cannot pipeline: the value of async 'memref.load' is used outside its async stage by 'memref.store'; async statements hand on memory only [async-value-escapes]}}
    %a = memref.load %A[%i] : memref<16xf32>
    // expected-note @below {{the user}}
    memref.store %a, %C[%i] : memref<16xf32>
  } {async_pipe.stage = [0, 1], async_pipe.async_stages = [0]}
  return
}

// -----

func.func @step_of_zero(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  // expected-error @below {{cannot pipeline: the step is 0, expected 1 or more [bad-step]}}
  scf.for %i = %c0 to %c16 step %c0 {
    %a = memref.load %A[%i] : memref<16xf32>
    memref.store %a, %C[%i] : memref<16xf32>
  } {async_pipe.stage = [0, 1]}
  return
}

// -----

func.func @dynamic_buffer(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias},
                          %n : index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %B = memref.alloca(%n) {async_pipe.private} : memref<?xf32>
  scf.for %i = %c0 to %c16 step %c1 {
    %a = memref.load %A[%i] : memref<16xf32>
    // expected-error @below {{needs 2 versions, but its type memref<?xf32> is not a dense array of static shape [buffer-not-versionable]}}
    memref.store %a, %B[%c0] : memref<?xf32>
    %b = memref.load %B[%c0] : memref<?xf32>
    memref.store %b, %C[%i] : memref<16xf32>
  } {async_pipe.stage = [0, 0, 1, 1]}
  return
}

// -----

func.func @view_from_outside(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %buffer = memref.alloca() {async_pipe.private} : memref<4xf32>
  %B = memref.subview %buffer[1] [2] [1] : memref<4xf32> to memref<2xf32, strided<[1], offset: 1>>
  scf.for %i = %c0 to %c16 step %c1 {
    %a = memref.load %A[%i] : memref<16xf32>
    // expected-error @below {{needs 2 versions, but 'memref.store' reaches it through a view that cannot take a slot [escapes]}}
    memref.store %a, %B[%c0] : memref<2xf32, strided<[1], offset: 1>>
    %b = memref.load %B[%c0] : memref<2xf32, strided<[1], offset: 1>>
    memref.store %b, %C[%i] : memref<16xf32>
  } {async_pipe.stage = [0, 0, 1, 1]}
  return
}

// -----

func.func @no_neutral_value(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %one = arith.constant 1.0 : f32
  %B = memref.alloca() : memref<1xf32>
  scf.for %i = %c0 to %c16 step %c1 {
    // expected-error @below {{cannot be predicated, its result of type memref<1xf32> has no neutral value [predicate-unsupported]}}
    // expected-note @below {{use async_pipe.epilogue = "peel"}}
    %near = memref.alloca() : memref<1xf32>
    memref.store %one, %near[%c0] : memref<1xf32>
  } {async_pipe.stage = [0, 1], async_pipe.epilogue = "predicate"}
  return
}

// -----

#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  gpu.func @store_in_an_async_stage(%A : !nvgpu.tensormap.descriptor<tensor = memref<64xf32, #gpu.address_space<workgroup>>, swizzle = none, l2promo = none, oob = zero, interleave = none>,
      %C : memref<64xf32> {llvm.noalias})
      workgroup(%B : memref<64xf32, #wg> {async_pipe.private}) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    scf.for %i = %c0 to %c16 step %c1 {
      %b = memref.load %C[%i] : memref<64xf32>
      memref.store %b, %B[%c0] : memref<64xf32, #wg>
      // expected-error @below {{cannot pipeline: 'nvgpu.tma.async.store' has no token form that groups can be made of [async-op-unsupported]}}
      // expected-note @below {{write the copy as nvgpu.device_async_copy}}
      nvgpu.tma.async.store %B to %A[%i] : memref<64xf32, #wg> -> !nvgpu.tensormap.descriptor<tensor = memref<64xf32, #gpu.address_space<workgroup>>, swizzle = none, l2promo = none, oob = zero, interleave = none>
    } {async_pipe.stage = [0, 0, 1], async_pipe.async_stages = [1]}
    gpu.return
  }
}

// -----

#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  gpu.func @copy_without_size(%A : memref<64xf32> {llvm.noalias}, %C : memref<64xf32> {llvm.noalias})
      workgroup(%B : memref<64xf32, #wg> {async_pipe.private}) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    scf.for %i = %c0 to %c16 step %c1 {
      // expected-error @below {{cannot pipeline: 'amdgpu.gather_to_lds' cannot be predicated, it has no source size [predicate-unsupported]}}
      // expected-note @below {{use async_pipe.epilogue = "peel"}}
      amdgpu.gather_to_lds async %A[%i], %B[%c0] : f32, memref<64xf32>, memref<64xf32, #wg>
      %b = memref.load %B[%c0] : memref<64xf32, #wg>
      memref.store %b, %C[%i] : memref<64xf32>
    } {async_pipe.stage = [0, 1, 1], async_pipe.async_stages = [0], async_pipe.epilogue = "predicate"}
    gpu.return
  }
}

// -----

func.func private @produce()
func.func private @consume()
func.func @calls_may_order_memory() {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  scf.for %i = %c0 to %c16 step %c1 {
    // expected-error @below {{cannot pipeline: 'func.call' in stage 0 would run before 'func.call' in stage 1, 1 iteration before, and other threads may rely on their order [memory-order]}}
    func.call @produce() : () -> ()
    // expected-note @below {{'func.call' may order any memory for other threads}}
    func.call @consume() : () -> ()
  } {async_pipe.stage = [0, 1], async_pipe.independent}
  return
}

// -----

func.func @barrier_loses_a_side(%p: !llvm.ptr, %q: !llvm.ptr, %n: i64) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  scf.for %i = %c0 to %c16 step %c1 {
    // expected-note @below {{nothing is known of the memory that this 'nvvm.st.bulk' touches}}
    nvvm.st.bulk %p, size = %n : !llvm.ptr
    // expected-error @below {{cannot pipeline: 'gpu.barrier' stands between accesses that cannot be analysed, and the schedule moves 'nvvm.st.bulk', which is before it, away from it [opaque-barrier]}}
    // expected-note @below {{give both sides of the barrier, and what stands between them, one stage}}
    gpu.barrier
    // expected-note @below {{the barrier runs before this statement and in its stage}}
    nvvm.st.bulk %q, size = %n : !llvm.ptr
  } {async_pipe.stage = [0, 1], async_pipe.independent}
  return
}

// -----

func.func @barrier_goes_with_another_statement(%p: !llvm.ptr, %q: !llvm.ptr, %n: i64) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %x = arith.constant 1.0 : f32
  scf.for %i = %c0 to %c16 step %c1 {
    // expected-note @below {{nothing is known of the memory that this 'nvvm.st.bulk' touches}}
    nvvm.st.bulk %p, size = %n : !llvm.ptr
    // expected-error @below {{the schedule moves 'nvvm.st.bulk', which is before it, away from it [opaque-barrier]}}
    // expected-note @below {{give both sides of the barrier, and what stands between them, one stage}}
    gpu.barrier
    // expected-note @below {{the barrier runs before this statement and in its stage}}
    %y = scf.execute_region -> f32 no_inline {
      %sum = arith.addf %x, %x : f32
      scf.yield %sum : f32
    }
    nvvm.st.bulk %q, size = %n : !llvm.ptr
  } {async_pipe.stage = [0, 2, 0], async_pipe.independent}
  return
}

// -----

// Threads may not disagree on a loop whose pipeline has barriers.
#wg = #gpu.address_space<workgroup>
func.func @some_threads_only(%A: memref<32x4xf32> {llvm.noalias}, %O: memref<32x4xf32> {llvm.noalias}, %n: index)
    attributes {known_block_size = array<i32: 4, 1, 1>} {
  %B = memref.alloc() : memref<4xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %t = gpu.thread_id x
  %other = arith.subi %c3, %t : index
  %first = arith.cmpi eq, %t, %c0 : index
  // expected-error @below {{cannot pipeline: the pipeline needs barriers, but this 'scf.if' depends on the thread [divergent-barrier]}}
  scf.if %first {
    // expected-note @below {{the loop}}
    scf.for %i = %c0 to %n step %c1 {
      %x = memref.load %A[%i, %t] : memref<32x4xf32>
      memref.store %x, %B[%t] : memref<4xf32, #wg>
      gpu.barrier
      %v = memref.load %B[%other] : memref<4xf32, #wg>
      memref.store %v, %O[%i, %t] : memref<32x4xf32>
      gpu.barrier
    } {async_pipe.stage = [0, 1, 2, 2]}
  }
  return
}
