// RUN: async-pipe-opt %s --suggest 2>&1 | FileCheck %s
// RUN: async-pipe-opt %s --async-pipe 2>&1 | FileCheck %s --check-prefix=QUIET

// CHECK: remark: no loop here reads global memory without being annotated [no-loops]
// QUIET-NOT: warning
// QUIET: func.func @f
func.func @f() {
  return
}
