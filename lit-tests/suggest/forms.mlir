// RUN: async-pipe-opt %s --suggest --target=nvvm:sm_80 2>&1 | FileCheck %s
// RUN: async-pipe-opt %s --async-pipe-suggest=num-stages=4 --target=nvvm:sm_80 2>/dev/null \
// RUN:   | FileCheck %s --check-prefix=SAME

#wg = #gpu.address_space<workgroup>

// CHECK:      [[@LINE+12]]:3: remark: 'async_pipe.num_stages = 3' on this loop: copies 2 iterations ahead, 384 bytes of workgroup memory [suggestion]
// SAME-LABEL: func.func @copies
// SAME-NOT:   async_pipe
func.func @copies(%A : memref<512xf32> {llvm.noalias}, %C : memref<512xf32> {llvm.noalias})
    attributes {gpu.known_block_size = array<i32: 32, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %c31 = arith.constant 31 : index
  %c32 = arith.constant 32 : index
  %tile = memref.alloc() : memref<32xf32, #wg>
  %t = gpu.thread_id x
  scf.for %i = %c0 to %c16 step %c1 {
    %o = arith.muli %i, %c32 : index
    %x = arith.addi %o, %t : index
    %v = memref.load %A[%x] : memref<512xf32>
    memref.store %v, %tile[%t] : memref<32xf32, #wg>
    gpu.barrier
    %m = arith.subi %c31, %t : index
    %w = memref.load %tile[%m] : memref<32xf32, #wg>
    memref.store %w, %C[%x] : memref<512xf32>
    gpu.barrier
  }
  return
}

// CHECK: remark: 'async_pipe.num_stages = 3' on this loop: loads 2 iterations ahead, 2 registers a thread (nothing that it loads goes to workgroup memory unchanged) [suggestion]
func.func @loads(%A : memref<512xf32> {llvm.noalias}, %C : memref<512xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c512 = arith.constant 512 : index
  scf.for %i = %c0 to %c512 step %c1 {
    %v = memref.load %A[%i] : memref<512xf32>
    %w = arith.addf %v, %v : f32
    memref.store %w, %C[%i] : memref<512xf32>
  }
  return
}

// CHECK: remark: 3 stages do not help this loop: cannot pipeline: {{.*}} [no-suggestion]
func.func @in_place(%A : memref<512xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c511 = arith.constant 511 : index
  scf.for %i = %c0 to %c511 step %c1 {
    %v = memref.load %A[%i] : memref<512xf32>
    %w = arith.addf %v, %v : f32
    %n = arith.addi %i, %c1 : index
    memref.store %w, %A[%n] : memref<512xf32>
  }
  return
}
