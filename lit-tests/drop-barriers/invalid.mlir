// RUN: not async-pipe-opt %s --async-pipe-drop-barriers=chip=sm_0 2>&1 | FileCheck %s
// RUN: not async-pipe-opt %s --async-pipe-drop-barriers=chips=sm_80 2>&1 \
// RUN:   | FileCheck %s --check-prefix=OPTION

// CHECK:  error: {{.*}}'sm_0'{{.*}} [unknown-target]
// OPTION: error: pass 'async-pipe-drop-barriers' has no option 'chips' [unknown-option]
module {
}
