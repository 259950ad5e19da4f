// What a flag may order is no error; what no flag can order is one.
// RUN: async-pipe-opt %s --split-input-file --verify-diagnostics --async-pipe-check

// The last block to come reads what all have stored: that the counter tells it so is not followed.
func.func @last_block(%x: memref<?xf32> {llvm.noalias}, %count: memref<1xi32> {llvm.noalias}) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c63 = arith.constant 63 : i32
  %c64 = arith.constant 64 : index
  %v = arith.constant 1.0 : f32
  %one = arith.constant 1 : i32
  %t = gpu.thread_id x
  %b = gpu.block_id x
  %first = arith.cmpi eq, %t, %c0 : index
  %start = arith.muli %b, %c64 : index
  %mine = arith.addi %start, %t : index
  // expected-note @below {{the other access, in another block of the grid}}
  memref.store %v, %x[%mine] : memref<?xf32>
  gpu.barrier
  scf.if %first {
    %old = memref.atomic_rmw addi %one, %count[%c0] : (i32, memref<1xi32>) -> i32
    %last = arith.cmpi eq, %old, %c63 : i32
    scf.if %last {
      // expected-warning @below {{of another block touch the same memory (memory-order)}}
      // expected-note @below {{blocks run in any order}}
      // expected-note @below {{a release and an acquire may order the two}}
      %w = memref.load %x[%c0] : memref<?xf32>
    }
  }
  return
}

// -----

// The counter comes too early: what is stored after it is told to nobody.
func.func @counted_before(%x: memref<?xf32> {llvm.noalias}, %count: memref<1xi32> {llvm.noalias}) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %v = arith.constant 1.0 : f32
  %one = arith.constant 1 : i32
  %t = gpu.thread_id x
  %b = gpu.block_id x
  %start = arith.muli %b, %c64 : index
  %mine = arith.addi %start, %t : index
  %after = arith.addi %mine, %c64 : index
  %old = memref.atomic_rmw addi %one, %count[%c0] : (i32, memref<1xi32>) -> i32
  // expected-note @below {{the other access, in another block of the grid}}
  memref.store %v, %x[%mine] : memref<?xf32>
  // expected-error @below {{of another block touch the same memory}}
  // expected-note @below {{blocks run in any order}}
  %w = memref.load %x[%after] : memref<?xf32>
  return
}
