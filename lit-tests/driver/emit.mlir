// One command from the annotated loop to code; --target reaches every pass.
// REQUIRES: ptxas
// RUN: async-pipe-opt %s --async-pipe --target=nvvm:sm_80 --emit=llvm | FileCheck %s --check-prefix=LLVM
// RUN: async-pipe-opt %s --async-pipe --target=nvvm:sm_80 --emit=ptx | FileCheck %s --check-prefix=PTX
// RUN: async-pipe-opt %s --async-pipe --target=nvvm:sm_80 --emit=cubin -o %t.cubin --report=text 2>&1 | FileCheck %s --check-prefix=REPORT
// RUN: %python -c "import sys; sys.exit(open(sys.argv[1], 'rb').read(4) != b'\x7fELF')" %t.cubin
// RUN: async-pipe-opt %s --async-pipe --target=nvvm:sm_80 --mlir-timing -o %t.mlir 2>&1 | FileCheck %s --check-prefix=TIMING
// RUN: async-pipe-opt %s --async-pipe --target=nvvm:sm_80 --emit=ptx --resources --mlir-timing -o %t.ptx 2>&1 | FileCheck %s --check-prefix=CODE-TIMING
// RUN: async-pipe-opt %s --async-pipe --target=nvvm:sm_80 --emit=ptx --mlir-timing -o %t.ptx 2>&1 | FileCheck %s --check-prefix=NO-PTXAS
// RUN: async-pipe-opt %s --async-pipe --target=nvvm:sm_80 --emit=ptx --resources=false --mlir-timing -o %t.ptx 2>&1 | FileCheck %s --check-prefix=NO-PTXAS
// RUN: not async-pipe-opt %s --async-pipe --emit=ptx 2>&1 | FileCheck %s --check-prefix=NO-TARGET
// RUN: not async-pipe-opt %s --async-pipe --target=nvvm:sm_80 --emit=hsaco 2>&1 | FileCheck %s --check-prefix=WRONG-KIND

// LLVM-LABEL: llvm.func @add_one
// LLVM:         nvvm.cp.async.wait.group 1

// PTX:     .target sm_80
// PTX:     cp.async.cg.shared.global
// PTX:     cp.async.wait_group 1;
// PTX:     cp.async.wait_group 1;
// PTX:     cp.async.wait_group 0;
// PTX-NOT: cp.async.wait_group

// REPORT: loops:
// REPORT: waits:
// REPORT: kernels:
// REPORT:   add_one

// TIMING: async-pipe-expand
// TIMING: async-pipe-check
// TIMING: Total

// CODE-TIMING: {{[)]  Output}}
// CODE-TIMING: {{[)]    convert}}
// CODE-TIMING: {{[)]    back end: code}}
// CODE-TIMING: {{[)]    ptxas}}
// CODE-TIMING: Total

// NO-PTXAS:     back end: code
// NO-PTXAS-NOT: ptxas

// NO-TARGET:  error: '--emit=ptx' needs '--target' [missing-target]
// WRONG-KIND: error: target 'nvvm:sm_80' cannot emit 'hsaco' [emit-kind]
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
