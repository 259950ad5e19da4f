// One wave copies for the block: its own counter says how many of its copies may stay in flight, where marks would
// have the back end wait for all of them, which some path may not issue. No other wave has any in flight.
//
// RUN: async-pipe-opt %s --target=rocdl:gfx1250 --pass-pipeline='builtin.module(async-pipe,async-pipe-to-rocdl,async-pipe-check)' | FileCheck %s
// REQUIRES: bindings-flydsl
// RUN: async-pipe-opt %s --target=rocdl:gfx1250 --pass-pipeline='builtin.module(async-pipe)' --emit=isa | FileCheck %s --check-prefix=ISA

// CHECK-LABEL: gpu.func @sum
// CHECK-NOT: asyncmark
// CHECK: scf.for
// CHECK: rocdl.s.wait.tensorcnt 1
// CHECK: rocdl.s.wait.tensorcnt 1
// CHECK: rocdl.s.wait.tensorcnt 0

// ISA: tensor_load_to_lds
// ISA: tensor_load_to_lds
// ISA: s_wait_tensorcnt 0x1
// ISA: s_barrier_wait
// ISA: tensor_load_to_lds
// ISA: s_wait_tensorcnt 0x1
// ISA: ds_load_b128
// ISA: s_wait_tensorcnt 0x0
#wg = #gpu.address_space<workgroup>
#global = #gpu.address_space<global>

gpu.module @kernels {
  gpu.func @sum(%src: memref<32x1024xf16, #global> {llvm.noalias}, %out: memref<32x64xf32, #global> {llvm.noalias}, %n: index)
      workgroup(%tile: memref<32x64xf16, #wg>) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c4 = arith.constant 4 : index
    %c16 = arith.constant 16 : index
    %c32 = arith.constant 32 : index
    %c64 = arith.constant 64 : index
    %t = gpu.thread_id x
    %row = arith.divui %t, %c4 : index
    %quarter = arith.remui %t, %c4 : index
    %column = arith.muli %quarter, %c16 : index
    %first_wave = arith.cmpi ult, %t, %c32 : index
    %zero = arith.constant dense<0.0> : vector<16xf32>
    %r = scf.for %k = %c0 to %n step %c64 iter_args(%acc = %zero) -> vector<16xf32> {
      %base = amdgpu.make_dma_base %src[%c0, %k], %tile[%c0, %c0] : memref<32x1024xf16, #global>, memref<32x64xf16, #wg> -> !amdgpu.tdm_base<f16>
      %d = amdgpu.make_dma_descriptor %base globalSize [32, 64] globalStride [1024, 1] sharedSize [32, 64] : !amdgpu.tdm_base<f16> -> !amdgpu.tdm_descriptor
      scf.if %first_wave {
        amdgpu.tensor_load_to_lds %d : !amdgpu.tdm_descriptor
      }
      rocdl.s.wait.tensorcnt 0
      gpu.barrier
      %v = vector.load %tile[%row, %column] : memref<32x64xf16, #wg>, vector<16xf16>
      %x = arith.extf %v : vector<16xf16> to vector<16xf32>
      %s = arith.addf %acc, %x : vector<16xf32>
      gpu.barrier
      scf.yield %s : vector<16xf32>
    } {async_pipe.num_stages = 3 : i64}
    vector.store %r, %out[%row, %column] : memref<32x64xf32, #global>, vector<16xf32>
    gpu.return
  }
}
