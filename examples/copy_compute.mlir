// Small loops of copies and computations, with the arrays that say what overlaps.
//
// Statements are counted from 0: here every load and every store is one, additions follow the
// statement that uses them. `stage` and `order` have one entry a statement, `async_stages`
// lists stage numbers.

// B[0] = A[i] + 1; C[i] = B[0] + 1. The second half works one iteration behind the first, so
// that B needs two versions.
func.func @two_stages(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %one = arith.constant 1.0 : f32
  %B = memref.alloca() : memref<1xf32>
  scf.for %i = %c0 to %c16 step %c1 {
    %a = memref.load %A[%i] : memref<16xf32>
    %a1 = arith.addf %a, %one : f32
    memref.store %a1, %B[%c0] : memref<1xf32>
    %b = memref.load %B[%c0] : memref<1xf32>
    %b1 = arith.addf %b, %one : f32
    memref.store %b1, %C[%i] : memref<16xf32>
  } {async_pipe.stage = array<i64: 0, 0, 1, 1>, async_pipe.order = array<i64: 0, 1, 2, 3>}
  return
}

// The same with an asynchronous first half: the second waits until one group is in flight.
func.func @two_stages_async(%A : memref<16xf32> {llvm.noalias},
                            %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %one = arith.constant 1.0 : f32
  %B = memref.alloca() : memref<1xf32>
  scf.for %i = %c0 to %c16 step %c1 {
    %a = memref.load %A[%i] : memref<16xf32>
    %a1 = arith.addf %a, %one : f32
    memref.store %a1, %B[%c0] : memref<1xf32>
    %b = memref.load %B[%c0] : memref<1xf32>
    %b1 = arith.addf %b, %one : f32
    memref.store %b1, %C[%i] : memref<16xf32>
  } {async_pipe.stage = array<i64: 0, 0, 1, 1>, async_pipe.order = array<i64: 0, 1, 2, 3>,
     async_pipe.async_stages = array<i64: 0>}
  return
}

// B[0] = A[i] + 1; C[0] = B[0] + 1; D[i] = C[0] + 1, the first two asynchronous. In this order
// B needs three versions and C two, and each wait leaves one group in flight.
func.func @three_stages(%A : memref<16xf32> {llvm.noalias}, %D : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %one = arith.constant 1.0 : f32
  %B = memref.alloca() : memref<1xf32>
  %C = memref.alloca() : memref<1xf32>
  scf.for %i = %c0 to %c16 step %c1 {
    %a = memref.load %A[%i] : memref<16xf32>
    %a1 = arith.addf %a, %one : f32
    memref.store %a1, %B[%c0] : memref<1xf32>
    %b = memref.load %B[%c0] : memref<1xf32>
    %b1 = arith.addf %b, %one : f32
    memref.store %b1, %C[%c0] : memref<1xf32>
    %c = memref.load %C[%c0] : memref<1xf32>
    %c_1 = arith.addf %c, %one : f32
    memref.store %c_1, %D[%i] : memref<16xf32>
  } {async_pipe.stage = array<i64: 0, 0, 1, 1, 2, 2>,
     async_pipe.order = array<i64: 0, 1, 2, 3, 4, 5>,
     async_pipe.async_stages = array<i64: 0, 1>}
  return
}

// The last stage first, then the others: one version less of each buffer, for waits that leave
// one group and none.
func.func @three_stages_reordered(%A : memref<16xf32> {llvm.noalias},
                                  %D : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %one = arith.constant 1.0 : f32
  %B = memref.alloca() : memref<1xf32>
  %C = memref.alloca() : memref<1xf32>
  scf.for %i = %c0 to %c16 step %c1 {
    %a = memref.load %A[%i] : memref<16xf32>
    %a1 = arith.addf %a, %one : f32
    memref.store %a1, %B[%c0] : memref<1xf32>
    %b = memref.load %B[%c0] : memref<1xf32>
    %b1 = arith.addf %b, %one : f32
    memref.store %b1, %C[%c0] : memref<1xf32>
    %c = memref.load %C[%c0] : memref<1xf32>
    %c_1 = arith.addf %c, %one : f32
    memref.store %c_1, %D[%i] : memref<16xf32>
  } {async_pipe.stage = array<i64: 0, 0, 1, 1, 2, 2>,
     async_pipe.order = array<i64: 2, 3, 4, 5, 0, 1>,
     async_pipe.async_stages = array<i64: 0, 1>}
  return
}

// A kernel: each thread copies one element to workgroup memory and adds one to the element that
// the opposite thread copied. The load and the store of stage 0 become one cp.async.
gpu.module @kernels {
  gpu.func @copy_compute(%A : memref<?xf32> {llvm.noalias}, %C : memref<?xf32> {llvm.noalias})
      workgroup(%tile : memref<128xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64})
      kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c127 = arith.constant 127 : index
    %c128 = arith.constant 128 : index
    %one = arith.constant 1.0 : f32
    %tid = gpu.thread_id x
    %opposite = arith.subi %c127, %tid : index
    %size = memref.dim %A, %c0 : memref<?xf32>
    scf.for %i = %c0 to %size step %c128 {
      %here = arith.addi %i, %tid : index
      %a = memref.load %A[%here] : memref<?xf32>
      memref.store %a, %tile[%tid] : memref<128xf32, #gpu.address_space<workgroup>>
      gpu.barrier
      %t = memref.load %tile[%opposite] : memref<128xf32, #gpu.address_space<workgroup>>
      %t1 = arith.addf %t, %one : f32
      memref.store %t1, %C[%here] : memref<?xf32>
      gpu.barrier
    } {async_pipe.stage = array<i64: 0, 0, 1, 1>, async_pipe.async_stages = array<i64: 0>}
    gpu.return
  }
}
