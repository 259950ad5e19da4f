// Copies to LDS that the compiler tracks (no `async`) are made asynchronous, and get one mark.
// RUN: async-pipe-opt %s --async-pipe-schedule --async-pipe-expand=chip=gfx950 --async-pipe-count-waits=chip=gfx950 | FileCheck %s
// RUN: async-pipe-opt %s --async-pipe --target=rocdl:gfx950 --emit=isa | FileCheck %s --check-prefix=ISA

// CHECK-LABEL: gpu.func @waves
// CHECK-SAME:    memref<3x256xf32, #gpu.address_space<workgroup>>
// CHECK-COUNT-2: amdgpu.gather_to_lds async
// CHECK:         commit_queue
// CHECK-COUNT-2: amdgpu.gather_to_lds async
// CHECK:         commit_queue
// CHECK:         scf.for
// CHECK-NEXT:      wait_queue{{.*}}count = 1
// CHECK:           gpu.barrier
// CHECK-COUNT-2:   amdgpu.gather_to_lds async
// CHECK:           commit_queue
// CHECK:           memref.load
// CHECK:         wait_queue{{.*}}count = 1
// CHECK:         wait_queue{{.*}}count = 0

// One group of two copies stays in flight.
// ISA: global_load_lds_dword
// ISA: s_waitcnt vmcnt(2)
#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  gpu.func @waves(%A : memref<16x256xf32> {llvm.noalias}, %C : memref<16x256xf32> {llvm.noalias})
      workgroup(%rows : memref<256xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %c64 = arith.constant 64 : index
    %c127 = arith.constant 127 : index
    %c128 = arith.constant 128 : index
    %t = gpu.thread_id x
    %t2 = arith.addi %t, %c128 : index
    %wave = arith.divui %t, %c64 : index
    %low = arith.muli %wave, %c64 : index
    %high = arith.addi %low, %c128 : index
    %mirror = arith.subi %c127, %t : index
    scf.for %i = %c0 to %c16 step %c1 {
      amdgpu.gather_to_lds %A[%i, %t], %rows[%low] : f32, memref<16x256xf32>, memref<256xf32, #wg>
      amdgpu.gather_to_lds %A[%i, %t2], %rows[%high] : f32, memref<16x256xf32>, memref<256xf32, #wg>
      gpu.barrier
      %x = memref.load %rows[%mirror] : memref<256xf32, #wg>
      memref.store %x, %C[%i, %t] : memref<16x256xf32>
      gpu.barrier
    } {async_pipe.num_stages = 3 : i64}
    gpu.return
  }
}
