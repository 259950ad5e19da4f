// Parts are processed on their own and joined by the output marker; a failing part leaves no output.
// RUN: async-pipe-opt %s --split-input-file --cse | FileCheck %s
// RUN: async-pipe-opt %s --split-input-file --output-split-marker="// next" | FileCheck %s --check-prefix=MARKER
// RUN: not async-pipe-opt %s | FileCheck %s --check-prefix=WHOLE --allow-empty

// The same name twice is fine in two parts, and an error in one.
// WHOLE-NOT: module

// CHECK-LABEL: func.func @same
// CHECK:         return
// CHECK:       // -----
// CHECK-LABEL: func.func @same
// MARKER-LABEL: func.func @same
// MARKER:       {{^}}// next{{$}}
// MARKER-LABEL: func.func @same
func.func @same() {
  return
}

// -----

func.func @same() {
  return
}
