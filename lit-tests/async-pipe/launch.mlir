// RUN: async-pipe-opt %s --async-pipe --verify-diagnostics | FileCheck %s
// RUN: async-pipe-opt %s --async-pipe --gpu-kernel-outlining --target=nvvm:sm_80 --emit=ptx | FileCheck %s --check-prefix=PTX
// RUN: async-pipe-opt %s --async-pipe --gpu-launch-sink-index-computations --gpu-kernel-outlining --run=reverse_kernel --threads=64 --completion=late --arg=4096xf32:1 --arg=zeros:4096xf32 --run-output=%t
// RUN: %python -c "import numpy, sys; a, b = (numpy.load(f'{sys.argv[1]}/argument{i}.npy') for i in (0, 1)); assert numpy.array_equal(a.reshape(-1, 64)[:, ::-1].ravel(), b)" %t

// In a launch that is not outlined yet, thread ids are block arguments.

// CHECK-LABEL: func.func @reverse
// CHECK: memref.alloc() : memref<3x64xf32, #gpu.address_space<workgroup>>
// CHECK: scf.for
// CHECK-NEXT: "async_pipe.wait_queue"(%{{.*}}) {count = 1 : i64, queue = 0 : i64}
// CHECK: "async_pipe.wait_queue"(%{{.*}}) {count = 1 : i64, queue = 0 : i64}
// CHECK: "async_pipe.wait_queue"(%{{.*}}) {count = 0 : i64, queue = 0 : i64}

// PTX-LABEL: .entry reverse_kernel(
// PTX-COUNT-3: cp.async.ca.shared.global
func.func @reverse(%A: memref<4096xf32> {llvm.noalias}, %O: memref<4096xf32> {llvm.noalias}) {
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %c0 = arith.constant 0 : index
  %c4096 = arith.constant 4096 : index
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1) threads(%tx, %ty, %tz) in (%sx = %c64, %sy = %c1, %sz = %c1) {
    %tile = memref.alloc() : memref<64xf32, #gpu.address_space<workgroup>>
    %c63 = arith.constant 63 : index
    %o = arith.subi %c63, %tx : index
    scf.for %i = %c0 to %c4096 step %c64 {
      %at = arith.addi %i, %tx : index
      %v = memref.load %A[%at] : memref<4096xf32>
      memref.store %v, %tile[%tx] : memref<64xf32, #gpu.address_space<workgroup>>
      gpu.barrier
      %w = memref.load %tile[%o] : memref<64xf32, #gpu.address_space<workgroup>>
      memref.store %w, %O[%at] : memref<4096xf32>
      gpu.barrier
    } {async_pipe.num_stages = 3 : i64}
    gpu.terminator
  }
  return
}
