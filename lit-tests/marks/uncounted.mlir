// A mark that no wait of its function body can count goes; one that a later wait counts stays,
// also where the wait comes round in the next iteration.
//
// RUN: async-pipe-opt %s --async-pipe-simplify-waits=chip=gfx950 | FileCheck %s

#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
  // CHECK-LABEL: gpu.func @after_the_last_wait
  // CHECK:       rocdl.asyncmark
  // CHECK-NEXT:  rocdl.wait.asyncmark 0
  // CHECK-NOT:   rocdl.asyncmark
  // CHECK:       gpu.return
  gpu.func @after_the_last_wait(%G: memref<8x64xf32> {llvm.noalias})
      workgroup(%L: memref<8x64xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %t = gpu.thread_id x
    amdgpu.gather_to_lds async %G[%c0, %t], %L[%c0, %c0] : f32, memref<8x64xf32>, memref<8x64xf32, #wg>
    rocdl.asyncmark
    rocdl.wait.asyncmark 0
    amdgpu.gather_to_lds async %G[%c1, %t], %L[%c1, %c0] : f32, memref<8x64xf32>, memref<8x64xf32, #wg>
    rocdl.asyncmark
    gpu.return
  }

  // CHECK-LABEL: gpu.func @next_iteration
  // CHECK:       scf.for
  // CHECK:         rocdl.wait.asyncmark 0
  // CHECK:         rocdl.asyncmark
  gpu.func @next_iteration(%G: memref<8x64xf32> {llvm.noalias}, %n: index)
      workgroup(%L: memref<8x64xf32, #wg>)
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %t = gpu.thread_id x
    amdgpu.gather_to_lds async %G[%c0, %t], %L[%c0, %c0] : f32, memref<8x64xf32>, memref<8x64xf32, #wg>
    rocdl.asyncmark
    scf.for %i = %c0 to %n step %c1 {
      rocdl.wait.asyncmark 0
      amdgpu.gather_to_lds async %G[%c1, %t], %L[%c1, %c0] : f32, memref<8x64xf32>, memref<8x64xf32, #wg>
      rocdl.asyncmark
    }
    gpu.return
  }

  // CHECK-LABEL: func.func @callee
  // CHECK-NOT:   rocdl.asyncmark
  // CHECK:       return
  // The marks of a callee do not count in the caller.
  func.func @callee(%G: memref<8x64xf32>, %L: memref<8x64xf32, #wg>) {
    %c0 = arith.constant 0 : index
    amdgpu.gather_to_lds async %G[%c0, %c0], %L[%c0, %c0] : f32, memref<8x64xf32>, memref<8x64xf32, #wg>
    rocdl.asyncmark
    return
  }
}

// In a graph of blocks "after" is what control can come to; a wait on one side of a branch only
// still counts the mark there.
gpu.module @graphs {
  // CHECK-LABEL: gpu.func @no_wait_can_be_reached
  // CHECK:       ^bb1:
  // CHECK-NEXT:  rocdl.asyncmark
  // CHECK-NEXT:  rocdl.wait.asyncmark 0
  // CHECK:       ^bb2:
  // CHECK-NEXT:  cf.br ^bb3
  gpu.func @no_wait_can_be_reached(%c: i1) kernel {
    cf.cond_br %c, ^waits, ^marks
  ^waits:
    rocdl.asyncmark
    rocdl.wait.asyncmark 0
    cf.br ^end
  ^marks:
    rocdl.asyncmark
    cf.br ^end
  ^end:
    gpu.return
  }

  // CHECK-LABEL: gpu.func @some_path_leads_to_a_wait
  // CHECK:       rocdl.asyncmark
  gpu.func @some_path_leads_to_a_wait(%c: i1) kernel {
    rocdl.asyncmark
    scf.if %c {
      rocdl.wait.asyncmark 0
    }
    gpu.return
  }

  // CHECK-LABEL: gpu.func @cycle
  // CHECK:       rocdl.asyncmark
  // CHECK:       gpu.return
  gpu.func @cycle(%c: i1) kernel {
    cf.br ^loop
  ^loop:
    rocdl.wait.asyncmark 0
    rocdl.asyncmark
    cf.cond_br %c, ^loop, ^end
  ^end:
    gpu.return
  }

  // CHECK-LABEL: gpu.func @after_the_wait_in_one_branch
  // CHECK:       rocdl.wait.asyncmark 0
  // CHECK-NOT:   rocdl.asyncmark
  // CHECK:       gpu.return
  gpu.func @after_the_wait_in_one_branch(%c: i1) kernel {
    rocdl.asyncmark
    scf.if %c {
      rocdl.wait.asyncmark 0
      rocdl.asyncmark
    }
    gpu.return
  }

  // A wait for more marks than can be outstanding does nothing.
  // CHECK-LABEL: gpu.func @more_than_outstanding
  // CHECK:       rocdl.asyncmark
  // CHECK-NOT:   rocdl.wait.asyncmark 2
  // CHECK:       rocdl.wait.asyncmark 0
  gpu.func @more_than_outstanding() kernel {
    rocdl.asyncmark
    rocdl.wait.asyncmark 2
    rocdl.wait.asyncmark 0
    gpu.return
  }
}
