// RUN: async-pipe-opt %s --async-pipe-to-nvvm=chip=sm_100a --split-input-file | FileCheck %s
// RUN: async-pipe-opt %s --target=nvvm:sm_100a --emit=ptx --split-input-file | FileCheck %s --check-prefix=PTX
// REQUIRES: bindings-numba-cuda-mlir

// What a load from tensor memory fills is read after its wait, though LLVM packs pairs for their stores.

// CHECK-LABEL: llvm.func @pairs
// CHECK:       %[[LOADED:.*]] = nvvm.tcgen05.ld
// CHECK-NEXT:  nvvm.tcgen05.wait <load>
// CHECK:       %[[ONE:.*]] = llvm.extractelement %[[LOADED]]
// CHECK:       llvm.inline_asm has_side_effects "", "=r,=r,=r,=r,0,1,2,3" %[[ONE]], {{.*}}
// CHECK-NOT:   %[[LOADED]]
// CHECK:       llvm.return
// PTX-LABEL:   .entry pairs
// PTX:         tcgen05.ld.sync.aligned.32x32b.x4.b32
// PTX-NOT:     mov.b64 {{.*}}, {%r
// PTX:         tcgen05.wait::ld.sync.aligned;
// PTX:         st.global
gpu.module @kernels {
  gpu.func @pairs(%at: !llvm.ptr<6>, %to: !llvm.ptr<1>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %loaded = nvvm.tcgen05.ld %at {shape = #nvvm.tcgen05_ldst_shape<shape_32x32b>} : vector<4xi32>
    nvvm.tcgen05.wait <load>
    llvm.store %loaded, %to {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
    gpu.return
  }
}

// -----

// One register; and what reads it before the wait still does: that is the author's to see.

// CHECK-LABEL: llvm.func @early
// CHECK:       %[[LOADED:.*]] = nvvm.tcgen05.ld
// CHECK:       llvm.store %[[LOADED]]
// CHECK:       nvvm.tcgen05.wait <load>
// CHECK:       %[[READ:.*]] = llvm.inline_asm has_side_effects "", "=r,0" %[[LOADED]]
// CHECK:       llvm.store %[[READ]]
// PTX-LABEL:   .entry early
gpu.module @kernels {
  gpu.func @early(%at: !llvm.ptr<6>, %to: !llvm.ptr<1>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %loaded = nvvm.tcgen05.ld %at {shape = #nvvm.tcgen05_ldst_shape<shape_32x32b>} : i32
    llvm.store %loaded, %to : i32, !llvm.ptr<1>
    nvvm.tcgen05.wait <load>
    llvm.store %loaded, %to : i32, !llvm.ptr<1>
    gpu.return
  }
}
