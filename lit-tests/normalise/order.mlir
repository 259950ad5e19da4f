// RUN: async-pipe-opt %s --async-pipe-normalise --mlir-print-ir-after-all -o /dev/null 2>&1 | FileCheck %s --check-prefix=ALL
// RUN: async-pipe-opt %s --async-pipe=chip=sm_80 --mlir-print-ir-after=async-pipe-normalise-guards,async-pipe-schedule -o /dev/null 2>&1 | FileCheck %s --check-prefix=SOME
// RUN: async-pipe-opt %s --async-pipe-normalise | FileCheck %s

// Each rewrite is a pass of its own in dumps: first the copy of a tile under a condition, then the
// condition itself, which stores zeros otherwise.

#wg = #gpu.address_space<workgroup>
// ALL:       IR Dump After async-pipe-normalise-affine
// ALL:       IR Dump After async-pipe-normalise-tile-copies
// ALL-NOT:   memref.copy
// ALL:       scf.if %{{.*}} {
// ALL:       IR Dump After async-pipe-normalise-guards
// ALL:       scf.if %{{.*}} -> (vector<8xf16>) {
// ALL:       IR Dump After async-pipe-normalise-nests
// ALL:       IR Dump After async-pipe-normalise-mbarriers
// ALL:       IR Dump After async-pipe-normalise-addresses
// ALL:       IR Dump After async-pipe-normalise-predicates
// ALL:       IR Dump After async-pipe-normalise-buffers
// ALL:       IR Dump After async-pipe-normalise-loads
// ALL:       IR Dump After async-pipe-normalise-slots

// SOME:      IR Dump After async-pipe-normalise-guards
// SOME:      scf.if %{{.*}} -> (vector<8xf16>) {
// SOME:      IR Dump After async-pipe-schedule
// SOME:      async_pipe.wait_at = "iteration"

// CHECK:       %[[V:.*]] = scf.if %{{.*}} -> (vector<8xf16>) {
// CHECK:       vector.store %[[V]],
func.func @guarded(%src: memref<1x8xf16> {llvm.noalias}, %O: memref<8xf16> {llvm.noalias}, %c: i1, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zeros = arith.constant dense<0.0> : vector<8xf16>
  %tile = memref.alloc() : memref<1x8xf16, #wg>
  scf.for %i = %c0 to %n step %c1 {
    vector.store %zeros, %tile[%c0, %c0] : memref<1x8xf16, #wg>, vector<8xf16>
    scf.if %c {
      memref.copy %src, %tile : memref<1x8xf16> to memref<1x8xf16, #wg>
    }
    %v = vector.load %tile[%c0, %c0] : memref<1x8xf16, #wg>, vector<8xf16>
    vector.store %v, %O[%c0] : memref<8xf16>, vector<8xf16>
  } {async_pipe.num_stages = 2 : i64}
  return
}
