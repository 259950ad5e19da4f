// RUN: async-pipe-opt %s --split-input-file --verify-diagnostics --async-pipe-to-nvvm="chip=sm_80 strict"

#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  gpu.func @computes(%C : memref<?xf32>, %x : f32, %i : index) kernel {
    // expected-error @below {{sm_80 cannot run this scope asynchronously}}
    "async_pipe.scope"() ({
      // expected-note @below {{'memref.store' does not write workgroup memory}}
      memref.store %x, %C[%i] : memref<?xf32>
      "async_pipe.yield"() : () -> ()
    }) {queue = 0 : i64} : () -> ()
    gpu.return
  }
}

// -----

#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  gpu.func @same_element(%A : memref<?xf32>, %i : index)
      workgroup(%tile : memref<128xf32, #wg>) kernel {
    // expected-error @below {{sm_80 cannot run this scope asynchronously}}
    "async_pipe.scope"() ({
      %a = memref.load %A[%i] : memref<?xf32>
      memref.store %a, %tile[%i] : memref<128xf32, #wg>
      %b = memref.load %A[%i] : memref<?xf32>
      // expected-note @below {{copies of one group may write the same element}}
      memref.store %b, %tile[%i] : memref<128xf32, #wg>
      "async_pipe.yield"() : () -> ()
    }) {queue = 0 : i64} : () -> ()
    gpu.return
  }
}

// -----

#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  gpu.func @same_element_in_a_loop(%A : memref<?xf32>, %n : index, %t : index)
      workgroup(%tile : memref<128xf32, #wg>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    // expected-error @below {{sm_80 cannot run this scope asynchronously}}
    "async_pipe.scope"() ({
      scf.for %i = %c0 to %n step %c1 {
        %a = memref.load %A[%i] : memref<?xf32>
        // expected-note @below {{copies of one group may write the same element}}
        memref.store %a, %tile[%t] : memref<128xf32, #wg>
      }
      "async_pipe.yield"() : () -> ()
    }) {queue = 0 : i64} : () -> ()
    gpu.return
  }
}

// -----

#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  gpu.func @two_bytes(%A : memref<?xf16>, %i : index)
      workgroup(%tile : memref<128xf16, #wg>) kernel {
    // expected-error @below {{sm_80 cannot run this scope asynchronously}}
    "async_pipe.scope"() ({
      %a = memref.load %A[%i] : memref<?xf16>
      // expected-note @below {{sm_80 copies 4, 8, 16 bytes, and this copy has 2 bytes at addresses that are known to be aligned to 2}}
      memref.store %a, %tile[%i] : memref<128xf16, #wg>
      "async_pipe.yield"() : () -> ()
    }) {queue = 0 : i64} : () -> ()
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @too_large(%x : f32, %i : index) kernel {
    // expected-error @below {{a workgroup allocation needs a static size}}
    %tile = memref.alloc(%i) : memref<?xf32, #gpu.address_space<workgroup>>
    memref.store %x, %tile[%i] : memref<?xf32, #gpu.address_space<workgroup>>
    gpu.return
  }
}

// -----

gpu.module @kernels {
  // expected-note @below {{use fewer stages or smaller tiles, or set --smem-limit}}
  // expected-error @below {{kernel 'too_large' needs 262144 bytes of workgroup memory, and sm_80 has 166912 a block}}
  gpu.func @too_large(%x : f32, %i : index)
      workgroup(%tile : memref<65536xf32, #gpu.address_space<workgroup>>) kernel {
    memref.store %x, %tile[%i] : memref<65536xf32, #gpu.address_space<workgroup>>
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @negative() kernel {
    // expected-error @below {{a wait for at most -1 groups in flight}}
    nvvm.cp.async.wait.group -1
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @foreign(%x : tensor<4xf32>) kernel {
    // expected-note @below {{lower it to arith, memref, vector, scf, gpu or nvgpu ops first}}
    // expected-error @below {{'tensor.cast' cannot be lowered to NVVM}}
    %y = tensor.cast %x : tensor<4xf32> to tensor<?xf32>
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @unregistered() kernel {
    // expected-note @below {{lower it to arith, memref, vector, scf, gpu or nvgpu ops first}}
    // expected-error @below {{'mine.op' cannot be lowered to NVVM}}
    "mine.op"() : () -> ()
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @used_as(%p : !llvm.ptr, %i : i64) kernel {
    // expected-error @below {{MLIR's conversions to NVVM leave a value that is used as !llvm.struct<(i32)> and i64}}
    %x = builtin.unrealized_conversion_cast %i : i64 to !llvm.struct<(i32)>
    llvm.store %x, %p : !llvm.struct<(i32)>, !llvm.ptr
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @no_such_arithmetic(%A : memref<?xf8E4M3FN>, %i : index) kernel {
    %x = memref.load %A[%i] : memref<?xf8E4M3FN>
    // expected-error @below {{'arith.addf' computes with f8E4M3FN, and no conversion of MLIR lowers that}}
    // expected-note @below {{convert by ops of the target}}
    %y = arith.addf %x, %x : f8E4M3FN
    memref.store %y, %A[%i] : memref<?xf8E4M3FN>
    gpu.return
  }
}

// -----

#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  gpu.func @tensor_copy(%map : !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>)
      workgroup(%tile : memref<64xf32, #wg>) kernel {
    %c0 = arith.constant 0 : index
    %full = nvgpu.mbarrier.create -> !nvgpu.mbarrier.group<memorySpace = #wg>
    // expected-error @+2 {{sm_80 has no copies that complete on an mbarrier: 'nvgpu.tma.async.load' [no-tensor-copies]}}
    // expected-note @+1 {{sm_90 and later have}}
    nvgpu.tma.async.load %map[%c0], %full[%c0] to %tile : !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>, !nvgpu.mbarrier.group<memorySpace = #wg> -> memref<64xf32, #wg>
    gpu.return
  }
}

// -----

// Tensor memory for a chip that has none.
gpu.module @kernels {
  gpu.func @g(%sums: !llvm.ptr<6>) kernel {
    // expected-error @+2 {{sm_80 has no tensor memory: 'nvvm.tcgen05.shift' [no-tensor-memory]}}
    // expected-note @+1 {{sm_100a, sm_103a and sm_110a have}}
    nvvm.tcgen05.shift %sums : !llvm.ptr<6>
    gpu.return
  }
}
