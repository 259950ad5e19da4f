// A barrier between calls of which nothing is known stays what it is, before the next
// statement and in its stage.
// RUN: async-pipe-opt %s --async-pipe-schedule --async-pipe-expand | FileCheck %s

func.func private @produce()
func.func private @consume()

// The barrier runs with the consumer: once in each step of the kernel, once in the epilogue.
// CHECK-LABEL: func.func @stays_with_the_consumer
// CHECK:         call @produce()
// CHECK-NOT:     barrier
// CHECK:         scf.for
// CHECK-NEXT:      nvvm.barrier
// CHECK-NEXT:      func.call @consume()
// CHECK-NEXT:      func.call @produce()
// CHECK-NEXT:    }
// CHECK-NEXT:    nvvm.barrier
// CHECK-NEXT:    call @consume()
// CHECK-NEXT:    return
func.func @stays_with_the_consumer() {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  scf.for %i = %c0 to %c16 step %c1 {
    func.call @produce() : () -> ()
    nvvm.barrier
    func.call @consume() : () -> ()
  } {async_pipe.stage = [0, 1], async_pipe.order = [1, 0]}
  return
}

// A barrier that fences workgroup memory only does not order what the calls may do to global
// memory; a derived one stands after it.
// CHECK-LABEL: func.func @fences_less
// CHECK:         scf.for
// CHECK:           call @produce()
// CHECK-NEXT:      gpu.barrier memfence [#gpu.address_space<global>, #gpu.address_space<workgroup>]
// CHECK-NEXT:      gpu.barrier memfence [#gpu.address_space<workgroup>]
// CHECK-NEXT:      call @consume()
func.func @fences_less() {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  scf.for %i = %c0 to %c16 step %c1 {
    func.call @produce() : () -> ()
    gpu.barrier memfence [#gpu.address_space<workgroup>]
    func.call @consume() : () -> ()
  } {async_pipe.stage = [0, 0]}
  return
}

// With a predicated kernel the calls are guarded, the barrier is not: all threads come.
// CHECK-LABEL: func.func @is_not_guarded
// CHECK:         scf.for
// CHECK:           nvvm.barrier
// CHECK-NEXT:      func.call @consume()
// CHECK-NEXT:      %[[EXISTS:.*]] = arith.cmpi
// CHECK-NEXT:      scf.if %[[EXISTS]]
// CHECK-NEXT:        func.call @produce()
func.func @is_not_guarded() {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  scf.for %i = %c0 to %c16 step %c1 {
    func.call @produce() : () -> ()
    nvvm.barrier
    func.call @consume() : () -> ()
  } {async_pipe.stage = [0, 1], async_pipe.order = [1, 0], async_pipe.epilogue = "predicate"}
  return
}

// One call alone: the barrier orders it against itself, and is derived again.
// CHECK-LABEL: func.func @one_call
// CHECK:         scf.for
// CHECK:           gpu.barrier memfence
// CHECK-NOT:       nvvm.barrier
func.func @one_call(%C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %zero = arith.constant 0.0 : f32
  scf.for %i = %c0 to %c16 step %c1 {
    func.call @produce() : () -> ()
    nvvm.barrier
    memref.store %zero, %C[%i] : memref<16xf32>
  } {async_pipe.stage = [0, 0]}
  return
}
