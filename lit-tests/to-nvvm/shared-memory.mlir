// RUN: async-pipe-opt %s --split-input-file --async-pipe-to-nvvm=chip=sm_80 | FileCheck %s

// An allocation in workgroup space is a global, not a call of malloc.
#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  // CHECK:       llvm.mlir.global private @kernel_shared() {addr_space = 3 : i32, alignment = 16 : i64}
  // CHECK-LABEL: llvm.func @kernel
  // CHECK:         llvm.mlir.addressof @kernel_shared
  // CHECK-NOT:     llvm.call
  // CHECK:         llvm.return
  gpu.func @kernel(%C : memref<?xf32>) kernel {
    %tile = memref.alloc() : memref<128xf32, #wg>
    %tid = gpu.thread_id x
    %x = memref.load %C[%tid] : memref<?xf32>
    memref.store %x, %tile[%tid] : memref<128xf32, #wg>
    memref.dealloc %tile : memref<128xf32, #wg>
    gpu.return
  }
}

// -----

// A versioned buffer is given back through the view of its first slot.
#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  // CHECK:       llvm.mlir.global private @kernel_shared() {{.*}} : !llvm.array<3 x array<128 x f32>>
  // CHECK-LABEL: llvm.func @kernel
  // CHECK-NOT:     llvm.call
  // CHECK:         llvm.return
  gpu.func @kernel(%C : memref<?xf32>) kernel {
    %tile = memref.alloc() : memref<3x128xf32, #wg>
    %first = memref.subview %tile[0, 0] [1, 128] [1, 1]
      : memref<3x128xf32, #wg> to memref<128xf32, strided<[1]>, #wg>
    %slot = memref.cast %first : memref<128xf32, strided<[1]>, #wg> to memref<128xf32, #wg>
    %tid = gpu.thread_id x
    %x = memref.load %C[%tid] : memref<?xf32>
    memref.store %x, %slot[%tid] : memref<128xf32, #wg>
    memref.dealloc %slot : memref<128xf32, #wg>
    gpu.return
  }
}

// -----

// 64 KiB: above what a kernel may declare, so all its buffers are one dynamic allocation, whose
// size stands on the kernel and in the launch.
#wg = #gpu.address_space<workgroup>
module attributes {gpu.container_module} {
  gpu.module @kernels {
    memref.global "private" @second : memref<8192xf32, #wg> {alignment = 16 : i64}
    // CHECK:       llvm.mlir.global external @__dynamic_shmem__0() {addr_space = 3 : i32, alignment = 128 : i64} : !llvm.array<0 x i8>
    // CHECK-LABEL: llvm.func @large
    // CHECK-SAME:    async_pipe.dynamic_shared_bytes = 65536 : i64
    // CHECK-DAG:     llvm.mlir.addressof @__dynamic_shmem__0
    // CHECK-DAG:     llvm.getelementptr {{.*}}[32768]
    // CHECK-NOT:     llvm.mlir.addressof @second
    // CHECK:         llvm.return
    gpu.func @large(%C : memref<?xf32>) workgroup(%first : memref<8192xf32, #wg>) kernel {
      %second = memref.get_global @second : memref<8192xf32, #wg>
      %tid = gpu.thread_id x
      %x = memref.load %C[%tid] : memref<?xf32>
      memref.store %x, %first[%tid] : memref<8192xf32, #wg>
      memref.store %x, %second[%tid] : memref<8192xf32, #wg>
      gpu.return
    }
  }
  // CHECK-LABEL: func.func @launch
  // CHECK:         %[[BYTES:.*]] = arith.constant 65536 : i32
  // CHECK:         gpu.launch_func @kernels::@large
  // CHECK-SAME:    dynamic_shared_memory_size %[[BYTES]]
  func.func @launch(%n : index, %C : memref<?xf32>) {
    gpu.launch_func @kernels::@large blocks in (%n, %n, %n) threads in (%n, %n, %n)
      args(%C : memref<?xf32>)
    return
  }
}

// -----

// 48 KiB fit: nothing changes.
#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  // CHECK-NOT:   __dynamic_shmem
  // CHECK-LABEL: llvm.func @fits
  // CHECK-NOT:     dynamic_shared_bytes
  // CHECK:         llvm.return
  gpu.func @fits(%C : memref<?xf32>) workgroup(%tile : memref<12288xf32, #wg>) kernel {
    %tid = gpu.thread_id x
    %x = memref.load %C[%tid] : memref<?xf32>
    memref.store %x, %tile[%tid] : memref<12288xf32, #wg>
    gpu.return
  }
}
