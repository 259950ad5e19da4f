// RUN: async-pipe-opt %s --split-input-file --verify-diagnostics --async-pipe-to-nvvm=chip=sm_80 | FileCheck %s

// A masked load becomes a copy that reads the elements that the mask keeps and writes zeros
// after them; what keeps other elements runs in place, and another fill is refused.

#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  // CHECK-LABEL: llvm.func @masked
  // CHECK:         llvm.intr.smax
  // CHECK:         llvm.intr.smin
  // CHECK:         nvvm.cp.async.shared.global {{.*}}, 16, cache = cg, %{{[0-9]+}}
  // CHECK-NOT:     llvm.load
  // CHECK:         llvm.return
  gpu.func @masked(%A : memref<?xf32> {llvm.align = 16 : i32}, %n : index)
      workgroup(%tile : memref<32xf32, #wg> {llvm.align = 16 : i64})
      kernel attributes {known_block_size = array<i32: 8, 1, 1>} {
    %c4 = arith.constant 4 : index
    %zeros = arith.constant dense<0.0> : vector<4xf32>
    %tid = gpu.thread_id x
    %at = arith.muli %tid, %c4 : index
    %left = arith.subi %n, %at : index
    "async_pipe.scope"() ({
      %m = vector.create_mask %left : vector<4xi1>
      %v = vector.maskedload %A[%at], %m, %zeros
          : memref<?xf32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
      vector.store %v, %tile[%at] : memref<32xf32, #wg>, vector<4xf32>
      "async_pipe.yield"() : () -> ()
    }) {queue = 0 : i64} : () -> ()
    gpu.return
  }

  // CHECK-LABEL: llvm.func @transfer
  // CHECK:         llvm.intr.smax
  // CHECK:         llvm.intr.smin
  // CHECK:         nvvm.cp.async.shared.global {{.*}}, 16, cache = cg, %{{[0-9]+}}
  // CHECK-NOT:     llvm.load
  // CHECK:         llvm.return
  gpu.func @transfer(%A : memref<?xf32> {llvm.align = 16 : i32})
      workgroup(%tile : memref<32xf32, #wg> {llvm.align = 16 : i64})
      kernel attributes {known_block_size = array<i32: 8, 1, 1>} {
    %c4 = arith.constant 4 : index
    %zero = arith.constant 0.0 : f32
    %tid = gpu.thread_id x
    %at = arith.muli %tid, %c4 : index
    "async_pipe.scope"() ({
      %v = vector.transfer_read %A[%at], %zero : memref<?xf32>, vector<4xf32>
      vector.store %v, %tile[%at] : memref<32xf32, #wg>, vector<4xf32>
      "async_pipe.yield"() : () -> ()
    }) {queue = 0 : i64} : () -> ()
    gpu.return
  }

  // CHECK-LABEL: llvm.func @selected
  // CHECK:         llvm.select
  // CHECK:         nvvm.cp.async.shared.global {{.*}}, 4, cache = ca, %{{[0-9]+}}
  // CHECK-NOT:     llvm.load
  // CHECK:         llvm.return
  gpu.func @selected(%A : memref<?xf32>, %c : i1)
      workgroup(%tile : memref<32xf32, #wg>) kernel {
    %zero = arith.constant 0.0 : f32
    %tid = gpu.thread_id x
    "async_pipe.scope"() ({
      %v = scf.if %c -> (f32) {
        %a = memref.load %A[%tid] : memref<?xf32>
        scf.yield %a : f32
      } else {
        scf.yield %zero : f32
      }
      memref.store %v, %tile[%tid] : memref<32xf32, #wg>
      "async_pipe.yield"() : () -> ()
    }) {queue = 0 : i64} : () -> ()
    gpu.return
  }
}

// -----

#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  // CHECK-LABEL: llvm.func @hole
  // CHECK-NOT:     nvvm.cp.async
  // CHECK:         llvm.return
  gpu.func @hole(%A : memref<?xf32> {llvm.align = 16 : i32})
      workgroup(%tile : memref<32xf32, #wg> {llvm.align = 16 : i64}) kernel {
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0.0 : f32
    %m = arith.constant dense<[1, 0, 1, 1]> : vector<4xi1>
    // expected-warning @below {{this scope runs in place: sm_80 cannot run it asynchronously}}
    "async_pipe.scope"() ({
      // expected-note @below {{the mask of 'vector.transfer_read' may keep other elements than the leading ones}}
      %v = vector.transfer_read %A[%c0], %zero, %m {in_bounds = [true]} : memref<?xf32>, vector<4xf32>
      vector.store %v, %tile[%c0] : memref<32xf32, #wg>, vector<4xf32>
      "async_pipe.yield"() : () -> ()
    }) {queue = 0 : i64} : () -> ()
    gpu.return
  }
}

// -----

#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  gpu.func @filled_with_ones(%A : memref<?xf32> {llvm.align = 16 : i32})
      workgroup(%tile : memref<32xf32, #wg> {llvm.align = 16 : i64}) kernel {
    %c0 = arith.constant 0 : index
    %one = arith.constant 1.0 : f32
    // expected-note @below {{the scope that it is copied in}}
    "async_pipe.scope"() ({
      // expected-note @+2 {{load zeros there}}
      // expected-error @below {{sm_80 cannot copy this: 'vector.transfer_read' gives another value than zero where it does not load}}
      %v = vector.transfer_read %A[%c0], %one : memref<?xf32>, vector<4xf32>
      vector.store %v, %tile[%c0] : memref<32xf32, #wg>, vector<4xf32>
      "async_pipe.yield"() : () -> ()
    }) {queue = 0 : i64} : () -> ()
    gpu.return
  }
}
