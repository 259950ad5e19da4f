// RUN: async-pipe-opt %s --async-pipe --target=nvvm:sm_80 --emit=ptx | FileCheck %s --check-prefix=PTX
// RUN: async-pipe-opt %s --async-pipe --async-pipe-to-rocdl=chip=gfx950 | FileCheck %s --check-prefix=AMD
// RUN: async-pipe-opt %s --run=sum --threads=128 --arg=128x64xf32:1 --arg=zeros:128x4xf32 --run-output=%t.0
// RUN: async-pipe-opt %s --async-pipe --run=sum --threads=128 --completion=late --arg=128x64xf32:1 --arg=zeros:128x4xf32 --run-output=%t.1
// RUN: %python -c "import numpy, sys; a, b = (numpy.load(f'{d}/argument1.npy') for d in sys.argv[1:]); assert a.any() and numpy.array_equal(a, b)" %t.0 %t.1

// Copies as the vectoriser writes them: a transfer from global and one to workgroup memory.

// PTX-LABEL: .entry sum(
// PTX-COUNT-3: cp.async.cg.shared.global.L2::128B [{{.*}}], [{{.*}}], 16;
// PTX: cp.async.wait_group {{.*}}2;
// PTX: cp.async.wait_group {{.*}}1;
// PTX: cp.async.wait_group {{.*}}0;

// AMD-LABEL: gpu.func @sum
// AMD-COUNT-3: amdgpu.gather_to_lds async {{.*}} vector<4xf32>
// AMD: scf.for
// AMD:   rocdl.wait.asyncmark 2
// AMD: rocdl.wait.asyncmark 1
// AMD: rocdl.wait.asyncmark 0
gpu.module @kernels {
  gpu.func @sum(%A: memref<128x64xf32> {llvm.align = 16 : i64, llvm.noalias}, %O: memref<128x4xf32>)
      workgroup(%tile: memref<128x4xf32, #gpu.address_space<workgroup>>)
      kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c4 = arith.constant 4 : index
    %c64 = arith.constant 64 : index
    %c127 = arith.constant 127 : index
    %zero = arith.constant 0.0 : f32
    %zeros = arith.constant dense<0.0> : vector<4xf32>
    %mine = gpu.thread_id x
    %other = arith.subi %c127, %mine : index
    %total = scf.for %i = %c0 to %c64 step %c4 iter_args(%sum = %zeros) -> (vector<4xf32>) {
      %row = vector.transfer_read %A[%mine, %i], %zero {in_bounds = [true]} : memref<128x64xf32>, vector<4xf32>
      vector.transfer_write %row, %tile[%mine, %c0] {in_bounds = [true]} : vector<4xf32>, memref<128x4xf32, #gpu.address_space<workgroup>>
      gpu.barrier
      %read = vector.transfer_read %tile[%other, %c0], %zero {in_bounds = [true]} : memref<128x4xf32, #gpu.address_space<workgroup>>, vector<4xf32>
      %next = arith.addf %sum, %read : vector<4xf32>
      gpu.barrier
      scf.yield %next : vector<4xf32>
    } {async_pipe.num_stages = 4 : i64}
    vector.transfer_write %total, %O[%mine, %c0] {in_bounds = [true]} : vector<4xf32>, memref<128x4xf32>
    gpu.return
  }
}
