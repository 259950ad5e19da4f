// Remarks as LLVM's YAML, with the flags of mlir-opt.
// RUN: async-pipe-opt %s --async-pipe --target=nvvm:sm_80 --remark-format=yaml --remarks-output-file=%t.yaml -o %t.mlir
// RUN: FileCheck %s --input-file=%t.yaml
// RUN: async-pipe-opt %s --async-pipe --target=nvvm:sm_80 --remark-format=yaml --remarks-filter-passed=pipelined -o %t.mlir 2>&1 | FileCheck %s --check-prefix=PASSED
// RUN: not async-pipe-opt %s --async-pipe --target=nvvm:sm_80 --remark-format=bitstream 2>&1 | FileCheck %s --check-prefix=FORMAT

// CHECK:      --- !Passed
// CHECK-NEXT: Pass:            async-pipe
// CHECK-NEXT: Name:            pipelined
// CHECK-NEXT: DebugLoc:        { File: '{{.*}}remarks.mlir', Line: [[@LINE+30]], Column: 5 }
// CHECK-NEXT: Function:        'add_one'
// CHECK-NEXT: Args:
// CHECK-NEXT:   - String:          'in 3 stages'
// CHECK:      --- !Analysis
// CHECK-NEXT: Pass:            async-pipe-count-waits
// CHECK-NEXT: Name:            exact
// CHECK:        - String:          '1 group of queue cp.async may stay in flight: {{.*}}'
// CHECK-NEXT:   - NumGroups:       '1'
// CHECK-NEXT:   - Witness:
// CHECK:      --- !Passed
// CHECK-NEXT: Pass:            async-pipe-check
// CHECK-NEXT: Name:            proven

// PASSED:     --- !Passed
// PASSED-NOT: --- !

// FORMAT: 'emitRemark', 'yaml'

gpu.module @kernels {
  gpu.func @add_one(%from: memref<8192xf32> {llvm.noalias}, %to: memref<8192xf32> {llvm.noalias})
      workgroup(%tile: memref<512xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64})
      kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c4 = arith.constant 4 : index
    %c512 = arith.constant 512 : index
    %c8192 = arith.constant 8192 : index
    %one = arith.constant dense<1.0> : vector<4xf32>
    %tid = gpu.thread_id x
    %mine = arith.muli %tid, %c4 : index
    scf.for %i = %c0 to %c8192 step %c512 {
      %at = arith.addi %i, %mine : index
      %copy = nvgpu.device_async_copy %from[%at], %tile[%mine], 4 {bypassL1} : memref<8192xf32> to memref<512xf32, #gpu.address_space<workgroup>>
      %group = nvgpu.device_async_create_group %copy
      nvgpu.device_async_wait %group
      gpu.barrier
      %v = vector.load %tile[%mine] : memref<512xf32, #gpu.address_space<workgroup>>, vector<4xf32>
      %w = arith.addf %v, %one : vector<4xf32>
      vector.store %w, %to[%at] : memref<8192xf32>, vector<4xf32>
      gpu.barrier
    } {async_pipe.num_stages = 3 : i64}
    gpu.return
  }
}
