// Hand-written marks: uneven blocks (2), a software pipeline (2, then 2, 1, 0), a call (1, 0) and
// the same call inlined are all proven; the waits of the pipeline stay in the instructions.
//
// RUN: async-pipe-opt %S/../../examples/handwritten/amd_uneven_blocks.mlir --async-pipe-check=chip=gfx950 | FileCheck %s --check-prefix=UNEVEN
// RUN: async-pipe-opt %S/../../examples/handwritten/amd_software_pipeline.mlir --async-pipe-check=chip=gfx942 | FileCheck %s --check-prefix=PIPELINE
// RUN: async-pipe-opt %S/../../examples/handwritten/amd_call.mlir --async-pipe-check=chip=gfx950 | FileCheck %s --check-prefix=CALL
// RUN: async-pipe-opt %S/../../examples/handwritten/amd_call.mlir --inline --async-pipe-check=chip=gfx950 | FileCheck %s --check-prefix=INLINED
// RUN: async-pipe-opt %S/../../examples/handwritten/amd_call.mlir --async-pipe-count-waits="chip=gfx950 check" | FileCheck %s --check-prefix=CALL

// UNEVEN: rocdl.wait.asyncmark 2

// PIPELINE: scf.for
// PIPELINE-NEXT: rocdl.wait.asyncmark 2
// PIPELINE: }
// PIPELINE: rocdl.wait.asyncmark 2
// PIPELINE: rocdl.wait.asyncmark 1
// PIPELINE: rocdl.wait.asyncmark 0

// CALL-LABEL: func.func @amd_call
// CALL: call @other
// CALL: rocdl.wait.asyncmark 1
// CALL: rocdl.wait.asyncmark 0

// The callee's mark stands between the second and the third now: the wait for 1 retires the
// callee's copy too, which is more than before, and safe.
// INLINED-LABEL: func.func @amd_call
// INLINED-NOT: call @other
// INLINED-COUNT-4: rocdl.asyncmark
// INLINED: rocdl.wait.asyncmark 1
