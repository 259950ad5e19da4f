// What a function computes is compared with what it did in the input, for all data.

// RUN: async-pipe-opt %s --async-pipe --target=nvvm:sm_80 --validate=sum 2>&1 | FileCheck %s
// RUN: not async-pipe-opt %s --cse --validate=typo 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: async-pipe-opt %s --cse --validate=branch 2>&1 | FileCheck %s --check-prefix=BRANCH

// RUN: async-pipe-opt %s --cse --validate=counted --arg=0..8 --arg=8xf32 2>&1 | FileCheck %s --check-prefix=RANGE

// CHECK: remark: 'sum' computes what it did: 16 elements are the same terms of its input [equal]
// CHECK: nvgpu.device_async_wait
func.func @sum(%in: memref<8xf32> {llvm.noalias}, %out: memref<8xf32> {llvm.noalias}) {
  %tile = memref.alloc() : memref<1xf32, #gpu.address_space<workgroup>>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  scf.for %i = %c0 to %c8 step %c1 {
    %copy = nvgpu.device_async_copy %in[%i], %tile[%c0], 1 : memref<8xf32> to memref<1xf32, #gpu.address_space<workgroup>>
    %group = nvgpu.device_async_create_group %copy
    nvgpu.device_async_wait %group
    %value = memref.load %tile[%c0] : memref<1xf32, #gpu.address_space<workgroup>>
    %twice = arith.addf %value, %value : f32
    memref.store %twice, %out[%i] : memref<8xf32>
  } {async_pipe.num_stages = 2 : i64}
  return
}

// NAME: error: no function 'typo'

// RANGE: remark: 'counted' computes what it did: 8 elements {{.*}} for all of 9 launches, with argument 0 = 0 to 8 [equal]
func.func @counted(%n: index, %in: memref<8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    %value = memref.load %in[%i] : memref<8xf32>
    %twice = arith.addf %value, %value : f32
    memref.store %twice, %in[%i] : memref<8xf32>
  }
  return
}

// BRANCH: validate.mlir:[[@LINE+5]]:{{.*}}warning: the program before cannot be followed: 'scf.if': a branch depends on data [data-dependent]
func.func @branch(%in: memref<8xf32>) {
  %c0 = arith.constant 0 : index
  %value = memref.load %in[%c0] : memref<8xf32>
  %is = arith.cmpf olt, %value, %value : f32
  scf.if %is {
    memref.store %value, %in[%c0] : memref<8xf32>
  }
  return
}
