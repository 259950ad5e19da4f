// Two groups of four waves take memory and products in turn. The loop is pipelined already: its wait moves to the end of the
// part before the last products, with the token of the next iteration, and a barrier that counts waves ends each part.
//
// RUN: async-pipe-opt %s --target=rocdl:gfx950 --pass-pipeline='builtin.module(async-pipe-schedule,async-pipe-expand,async-pipe-turns,async-pipe-count-waits)' | FileCheck %s

#wg = #gpu.address_space<workgroup>

// CHECK-LABEL: gpu.func @sums
// Both groups see the first tile; then the late one passes a barrier alone.
// CHECK: nvgpu.device_async_wait %{{.*}} {numGroups = 1 : i32}
// CHECK: gpu.barrier memfence [#gpu.address_space<workgroup>]
// CHECK: %[[T:.*]] = gpu.thread_id
// CHECK: %[[WAVE:.*]] = rocdl.readfirstlane
// CHECK: %[[LATE:.*]] = arith.cmpi uge, %[[WAVE]], %{{.*}} : i32
// CHECK: scf.if %[[LATE]] {
// CHECK-NEXT: llvm.fence syncscope("workgroup") release
// CHECK-NEXT: rocdl.s.barrier
// CHECK-NEXT: llvm.fence syncscope("workgroup") acquire
// CHECK: scf.for {{.*}} iter_args({{.*}}, %[[NEXT:[^ ,)]*]] = %{{[^ ,)]*}}, %[[SLOT:[^ ,)]*]] = %{{[^ ,)]*}}, %{{[^ ,)]*}} = %{{[^ ,)]*}})
// CHECK-NOT: wait
// CHECK-NOT: gpu.barrier
// CHECK: nvgpu.device_async_copy
// CHECK-NOT: nvgpu.device_async_copy
// CHECK: vector.load
// CHECK: vector.load
// CHECK-NOT: vector.load
// CHECK: rocdl.s.barrier
// CHECK: rocdl.s.setprio 1
// CHECK-NEXT: amdgpu.mfma
// CHECK-NEXT: rocdl.s.setprio 0
// CHECK: rocdl.s.barrier
// CHECK: nvgpu.device_async_copy
// CHECK: nvgpu.device_async_create_group
// CHECK: vector.load
// CHECK: nvgpu.device_async_wait %{{.*}} {numGroups = 1 : i32}
// CHECK: rocdl.s.barrier
// CHECK: rocdl.s.setprio 1
// CHECK-NEXT: amdgpu.mfma
// CHECK: rocdl.s.setprio 0
// CHECK: rocdl.s.barrier
// CHECK: scf.yield
// CHECK: }
// CHECK: scf.if %{{.*}} {
// CHECK-NEXT: llvm.fence
// CHECK-NEXT: rocdl.s.barrier
// What the loop has waited for is not waited for again.
// CHECK-NOT: wait
// CHECK: amdgpu.mfma
// CHECK: nvgpu.device_async_wait %{{.*}} {numGroups = 0 : i32}
gpu.module @kernels {
  gpu.func @sums(%A: memref<64x4096xf16> {llvm.noalias}, %B: memref<64x4096xf16> {llvm.noalias},
                 %C: memref<512x16xf32> {llvm.noalias}, %n: index)
      workgroup(%a: memref<64x64xf16, #wg> {llvm.align = 16 : i64}, %b: memref<64x64xf16, #wg> {llvm.align = 16 : i64})
      kernel attributes {known_block_size = array<i32: 512, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c8 = arith.constant 8 : index
    %c16 = arith.constant 16 : index
    %c32 = arith.constant 32 : index
    %c64 = arith.constant 64 : index
    %zeros = arith.constant dense<0.0> : vector<16xf32>
    %t = gpu.thread_id x
    %row = arith.divui %t, %c8 : index
    %eighth = arith.remui %t, %c8 : index
    %place = arith.muli %eighth, %c8 : index
    %lane = arith.remui %t, %c32 : index
    %more = arith.addi %place, %c0 : index
    %sum = scf.for %k = %c0 to %n step %c64 iter_args(%acc = %zeros) -> vector<16xf32> {
      %at = arith.addi %k, %place : index
      %one = nvgpu.device_async_copy %A[%row, %at], %a[%row, %place], 8 : memref<64x4096xf16> to memref<64x64xf16, #wg>
      %two = nvgpu.device_async_copy %B[%row, %at], %b[%row, %place], 8 : memref<64x4096xf16> to memref<64x64xf16, #wg>
      %group = nvgpu.device_async_create_group %one, %two
      nvgpu.device_async_wait %group
      gpu.barrier
      %x = vector.load %a[%lane, %more] : memref<64x64xf16, #wg>, vector<8xf16>
      %y = vector.load %b[%lane, %more] : memref<64x64xf16, #wg>, vector<8xf16>
      %first = amdgpu.mfma 32x32x16 %x * %y + %acc blgp = none : vector<8xf16>, vector<8xf16>, vector<16xf32>
      %z = vector.load %a[%row, %place] : memref<64x64xf16, #wg>, vector<8xf16>
      %both = amdgpu.mfma 32x32x16 %z * %y + %first blgp = none : vector<8xf16>, vector<8xf16>, vector<16xf32>
      gpu.barrier
      scf.yield %both : vector<16xf32>
    } {async_pipe.num_stages = 3 : i64, async_pipe.roles = "ping-pong"}
    vector.store %sum, %C[%t, %c0] : memref<512x16xf32>, vector<16xf32>
    gpu.return
  }
}
