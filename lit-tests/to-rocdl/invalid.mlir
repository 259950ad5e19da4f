// RUN: async-pipe-opt %s --split-input-file --verify-diagnostics --async-pipe-to-rocdl=chip=gfx942

#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  gpu.func @unknown_block(%A : memref<?xf32>) workgroup(%tile : memref<64xf32, #wg>) kernel {
    %t = gpu.thread_id x
    // expected-error @below {{gfx942 copies to one LDS address a wave, and the number of threads in a block is not known}}
    // expected-note @below {{give the kernel the attribute known_block_size = array<i32: x, y, z>}}
    %a = nvgpu.device_async_copy %A[%t], %tile[%t], 1 : memref<?xf32> to memref<64xf32, #wg>
    gpu.return
  }
}

// -----

#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  gpu.func @apart(%A : memref<?xf32>) workgroup(%tile : memref<128xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c2 = arith.constant 2 : index
    %t = gpu.thread_id x
    %even = arith.muli %t, %c2 : index
    // expected-error @below {{the lanes of wave 0 do not write 1 neighbouring elements each: their destinations begin at elements 0, 2, 4, 6}}
    // expected-note @below {{this chip copies to one LDS address a wave}}
    %a = nvgpu.device_async_copy %A[%t], %tile[%even], 1 : memref<?xf32> to memref<128xf32, #wg>
    gpu.return
  }
}

// -----

#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  gpu.func @divergent_group(%A : memref<?xf32>) workgroup(%tile : memref<64xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c8 = arith.constant 8 : index
    %t = gpu.thread_id x
    %some = arith.cmpi ult, %t, %c8 : index
    // expected-note @below {{threads part here}}
    scf.if %some {
      %a = nvgpu.device_async_copy %A[%t], %tile[%t], 1 : memref<?xf32> to memref<64xf32, #wg>
      // expected-error @below {{a group of async copies stands where only some threads of a wave may come}}
      // expected-note @below {{put the condition around the copies only, and the group outside}}
      %g = nvgpu.device_async_create_group %a
    }
    gpu.return
  }
}

// -----

#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  gpu.func @divergent_wait(%A : memref<?xf32>) workgroup(%tile : memref<64xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %t = gpu.thread_id x
    %a = nvgpu.device_async_copy %A[%t], %tile[%t], 1 : memref<?xf32> to memref<64xf32, #wg>
    %g = nvgpu.device_async_create_group %a
    // expected-note @below {{threads part here}}
    scf.for %i = %c0 to %t step %c1 {
      // expected-error @below {{a wait of async copies stands where only some threads of a wave may come}}
      // expected-note @below {{put the condition around the copies only, and the wait outside}}
      nvgpu.device_async_wait %g
    }
    gpu.return
  }
}

// -----

#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  gpu.func @nvidia_op(%x : memref<8x16xf16, #wg>) kernel {
    %c0 = arith.constant 0 : index
    // expected-error @below {{'nvgpu.ldmatrix' has no counterpart on gfx942}}
    // expected-note @below {{write the tile operations with vector or amdgpu ops}}
    %v = nvgpu.ldmatrix %x[%c0, %c0] {numTiles = 1 : i32, transpose = false} : memref<8x16xf16, #wg> -> vector<1x2xf16>
    gpu.return
  }
}

// -----

#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  // expected-error @below {{kernel 'large' needs 65540 bytes of workgroup memory, and gfx942 has 65536 a block}}
  // expected-note @below {{use fewer stages or smaller tiles, or set --smem-limit}}
  gpu.func @large(%A : memref<?xf32>) workgroup(%tile : memref<16385xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    gpu.return
  }
}

// -----

#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  gpu.func @negative(%A : memref<?xf32>) workgroup(%tile : memref<64xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %t = gpu.thread_id x
    %a = nvgpu.device_async_copy %A[%t], %tile[%t], 1 : memref<?xf32> to memref<64xf32, #wg>
    %g = nvgpu.device_async_create_group %a
    // expected-error @below {{a wait cannot leave -1 groups in flight}}
    nvgpu.device_async_wait %g {numGroups = -1 : i32}
    gpu.return
  }
}

// -----

gpu.module @kernels {
  // expected-note @below {{they come from here}}
  func.func @wait_for(%t : !nvgpu.device.async.token) {
    // expected-error @below {{this wait relies on groups that another function commits, and marks count in their own function only}}
    // expected-note @below {{inline the call first (--inline)}}
    nvgpu.device_async_wait %t {numGroups = 0 : i32}
    return
  }
}

// -----

#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  func.func @commits(%A : memref<?xf32>, %tile : memref<64xf32, #wg>) -> !nvgpu.device.async.token {
    %c0 = arith.constant 0 : index
    %a = nvgpu.device_async_copy %A[%c0], %tile[%c0], 1 : memref<?xf32> to memref<64xf32, #wg>
    %g = nvgpu.device_async_create_group %a
    return %g : !nvgpu.device.async.token
  }
  gpu.func @waits(%A : memref<?xf32>) workgroup(%tile : memref<64xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 1, 1, 1>} {
    // expected-note @below {{they come from here}}
    %g = func.call @commits(%A, %tile) : (memref<?xf32>, memref<64xf32, #wg>) -> !nvgpu.device.async.token
    // expected-error @below {{this wait relies on groups that another function commits}}
    // expected-note @below {{inline the call first (--inline)}}
    nvgpu.device_async_wait %g {numGroups = 0 : i32}
    gpu.return
  }
}

// -----

// expected-error @below {{'nvgpu.device_async_create_group' stands in no function [no-function]}}
%a = nvgpu.device_async_create_group {async_pipe.empty}
