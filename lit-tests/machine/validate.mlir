// What a function computes is compared with what it did in the input, for all data.

// RUN: async-pipe-opt %s --async-pipe --target=nvvm:sm_80 --validate=sum 2>&1 | FileCheck %s
// RUN: not async-pipe-opt %s --cse --validate=typo 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: async-pipe-opt %s --cse --validate=branch 2>&1 | FileCheck %s --check-prefix=BRANCH
// RUN: async-pipe-opt %s --cse --validate=sum --validate-reassociate 2>&1 | FileCheck %s --check-prefix=ORDER
// RUN: not async-pipe-opt %s --cse --validate-reassociate 2>&1 | FileCheck %s --check-prefix=ALONE

// RUN: async-pipe-opt %s --cse --validate=counted --arg=0..8 --arg=8xf32 2>&1 | FileCheck %s --check-prefix=RANGE
// RUN: async-pipe-opt %s --async-pipe --target=nvvm:sm_80 --validate=any_number --arg=0..infxf32 --arg=0..inf 2>&1 | FileCheck %s --check-prefix=ALL
// RUN: async-pipe-opt %s --cse --validate=late --arg=1..infxf32 --arg=1..inf 2>&1 | FileCheck %s --check-prefix=LATE

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

// ORDER: remark: 'sum' computes what it did: 16 elements are the same terms of its input with sums in any order
// ALONE: error: '--validate-reassociate' needs '--run' or '--validate'

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

// ALL: remark: 'any_number' computes what it did: {{.*}}; and by induction for size 0 of argument 0 = 0 to {{[0-9]+}}, argument 1 = 0 to {{[0-9]+}} [equal]
func.func @any_number(%in: memref<?xf32> {llvm.noalias}, %n: index) -> f32 {
  %tile = memref.alloc() : memref<1xf32, #gpu.address_space<workgroup>>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %total = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %zero) -> f32 {
    %copy = nvgpu.device_async_copy %in[%i], %tile[%c0], 1 : memref<?xf32> to memref<1xf32, #gpu.address_space<workgroup>>
    %group = nvgpu.device_async_create_group %copy
    nvgpu.device_async_wait %group
    %value = memref.load %tile[%c0] : memref<1xf32, #gpu.address_space<workgroup>>
    %more = arith.addf %sum, %value : f32
    scf.yield %more : f32
  } {async_pipe.num_stages = 3 : i64}
  return %total : f32
}

// LATE: validate.mlir:[[@LINE+8]]:{{.*}}warning: 'late' computes what it did: {{.*}} for all of 8 launches, {{.*}}; not proven for all: 'memref.load': a branch depends on the iteration [iteration-dependent]
func.func @late(%in: memref<?xf32>, %n: index) -> f32 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c40 = arith.constant 40 : index
  %zero = arith.constant 0.0 : f32
  %total = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %zero) -> f32 {
    %place = arith.minsi %i, %c40 : index
    %value = memref.load %in[%place] : memref<?xf32>
    %more = arith.addf %sum, %value : f32
    scf.yield %more : f32
  }
  return %total : f32
}

// BRANCH: validate.mlir:[[@LINE+5]]:{{.*}}warning: the program before cannot be followed: 'scf.if': a branch depends on data [data-dependent]
func.func @branch(%in: memref<8xf32>) {
  %c0 = arith.constant 0 : index
  %value = memref.load %in[%c0] : memref<8xf32>
  %is = arith.cmpf olt, %value, %value : f32
  scf.if %is {
    gpu.barrier
  }
  return
}
