// RUN: async-pipe-opt %s --async-pipe --target=nvvm:sm_80 --emit=ptx | FileCheck %s
// RUN: async-pipe-opt %s --lower-affine --canonicalize --cse --async-pipe --target=nvvm:sm_80 --emit=ptx | FileCheck %s
// RUN: async-pipe-opt %s --run=delinearized --threads=128 --arg=512x32xf16:1 --arg=zeros:128xf32 --run-output=%t.0
// RUN: async-pipe-opt %s --async-pipe --run=delinearized --threads=128 --completion=late --arg=512x32xf16:1 --arg=zeros:128xf32 --run-output=%t.1
// RUN: %python -c "import numpy, sys; a, b = (numpy.load(f'{d}/argument1.npy') for d in sys.argv[1:]); assert a.any() and numpy.array_equal(a, b)" %t.0 %t.1

// A tile of 128 rows of 64 bytes that 128 threads copy in four steps, the number of a piece taken apart as
// front ends do it. Each thread's four pieces are apart, so they are asynchronous, two iterations ahead.

#wg = #gpu.address_space<workgroup>
gpu.module @k {
  // CHECK-LABEL: .entry delinearized(
  // CHECK-COUNT-8: cp.async.cg.shared.global
  // CHECK: cp.async.wait_group {{.*}}1;
  // CHECK-COUNT-4: cp.async.cg.shared.global
  // CHECK: cp.async.wait_group {{.*}}1;
  // CHECK: cp.async.wait_group {{.*}}0;
  gpu.func @delinearized(%A: memref<512x32xf16> {llvm.noalias, llvm.align = 16 : i64}, %C: memref<128xf32> {llvm.noalias})
      workgroup(%tile: memref<128x40xf16, #wg> {llvm.align = 16 : i64})
      kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %c128 = arith.constant 128 : index
    %c512 = arith.constant 512 : index
    %t = gpu.thread_id x
    %zero = arith.constant 0.0 : f16
    %sum = scf.for %i = %c0 to %c512 step %c128 iter_args(%s = %zero) -> (f16) {
      scf.for %j = %c0 to %c4 step %c1 {
        %piece = affine.linearize_index [%j, %t] by (4, 128) : index
        %at:2 = affine.delinearize_index %piece into (128, 4) : index, index
        %column = arith.muli %at#1, %c8 : index
        %row = arith.addi %i, %at#0 : index
        %v = vector.load %A[%row, %column] : memref<512x32xf16>, vector<8xf16>
        vector.store %v, %tile[%at#0, %column] : memref<128x40xf16, #wg>, vector<8xf16>
      }
      gpu.barrier
      %x = memref.load %tile[%t, %c4] : memref<128x40xf16, #wg>
      %next = arith.addf %s, %x : f16
      gpu.barrier
      scf.yield %next : f16
    } {async_pipe.num_stages = 3 : i64}
    %wide = arith.extf %sum : f16 to f32
    memref.store %wide, %C[%t] : memref<128xf32>
    gpu.return
  }

  // CHECK-LABEL: .entry from_the_id(
  // CHECK-COUNT-2: cp.async.cg.shared.global
  // CHECK: cp.async.wait_group {{.*}}1;
  // CHECK: cp.async.cg.shared.global
  // CHECK: cp.async.wait_group {{.*}}1;
  // CHECK: cp.async.wait_group {{.*}}0;
  gpu.func @from_the_id(%A: memref<512x32xf16> {llvm.noalias, llvm.align = 16 : i64}, %C: memref<128xf32> {llvm.noalias})
      workgroup(%tile: memref<128x40xf16, #wg> {llvm.align = 16 : i64})
      kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c4 = arith.constant 4 : index
    %c128 = arith.constant 128 : index
    %c512 = arith.constant 512 : index
    %t = gpu.thread_id x
    %zero = arith.constant 0.0 : f16
    %sum = scf.for %i = %c0 to %c512 step %c128 iter_args(%s = %zero) -> (f16) {
      scf.for %piece = %t to %c512 step %c128 {
        %r = affine.apply affine_map<(p) -> (p floordiv 4)>(%piece)
        %column = affine.apply affine_map<(p) -> ((p mod 4) * 8)>(%piece)
        %row = arith.addi %i, %r : index
        %v = vector.load %A[%row, %column] : memref<512x32xf16>, vector<8xf16>
        vector.store %v, %tile[%r, %column] : memref<128x40xf16, #wg>, vector<8xf16>
      }
      gpu.barrier
      %x = memref.load %tile[%t, %c4] : memref<128x40xf16, #wg>
      %next = arith.addf %s, %x : f16
      gpu.barrier
      scf.yield %next : f16
    } {async_pipe.num_stages = 3 : i64}
    %wide = arith.extf %sum : f16 to f32
    memref.store %wide, %C[%t] : memref<128xf32>
    gpu.return
  }
}
