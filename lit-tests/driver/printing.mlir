// How the result is printed.
// RUN: async-pipe-opt %s --mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC
// RUN: async-pipe-opt %s --mlir-print-debuginfo | FileCheck %s --check-prefix=DEBUG
// RUN: async-pipe-opt %s --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s --check-prefix=LOCAL
// RUN: async-pipe-opt %s --mlir-elide-elementsattrs-if-larger=2 | FileCheck %s --check-prefix=ELIDE
// RUN: async-pipe-opt %s --verify-roundtrip | FileCheck %s --check-prefix=BYTECODE
// RUN: async-pipe-opt %s --emit-bytecode -o %t.mlirbc
// RUN: async-pipe-opt %t.mlirbc --verify-each=false | FileCheck %s --check-prefix=BYTECODE

// GENERIC: "func.func"()
// GENERIC:   "arith.constant"() <{value = dense<[1, 2, 3]>
// DEBUG:   arith.constant {{.*}} loc(#[[LOCATION:.*]])
// DEBUG:   #[[LOCATION]] = loc("{{.*}}printing.mlir":{{[1-9][0-9]*}}:8)
// LOCAL:   arith.constant {{.*}} loc("{{.*}}printing.mlir":{{[1-9][0-9]*}}:8)
// ELIDE:   dense_resource<__elided__>
// BYTECODE-LABEL: func.func @constant
// BYTECODE:         arith.constant dense<[1, 2, 3]>
func.func @constant() -> tensor<3xi32> {
  %0 = arith.constant dense<[1, 2, 3]> : tensor<3xi32>
  return %0 : tensor<3xi32>
}
