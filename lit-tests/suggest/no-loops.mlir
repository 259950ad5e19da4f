// RUN: async-pipe-opt %s --suggest 2>&1 | FileCheck %s
// RUN: async-pipe-opt %s --async-pipe 2>&1 | FileCheck %s --check-prefix=WARN

// CHECK: remark: no loop here reads global memory without being annotated [no-loops]
// WARN:  warning: no loop here asks to be pipelined [no-annotated-loops]
func.func @f() {
  return
}
