// The report counts accesses, and says of each hazard where, why, and which count would do.
// RUN: not async-pipe-opt %s --async-pipe-check --report=json -o /dev/null 2>&1 | FileCheck %s

// CHECK: "hazards":
// CHECK: "verdict": "unsafe"
// CHECK: "code": "read-in-flight"
// CHECK: "function": "one_wait_too_weak"
// CHECK: "op": "memref.load"
// CHECK: "other_op": "nvgpu.device_async_copy"
// CHECK: "queue": "cp.async"
// CHECK: "count": 0
// CHECK: "checks":
// CHECK: "function": "one_wait_too_weak"
// CHECK: "accesses": 3
// CHECK: "unsafe": 1
// CHECK: "unknown": 0
func.func @one_wait_too_weak(%A: memref<8xf32> {llvm.noalias}) -> f32 {
  %c0 = arith.constant 0 : index
  %s = memref.alloc() : memref<8xf32, 3>
  %copy = nvgpu.device_async_copy %A[%c0], %s[%c0], 4 : memref<8xf32> to memref<8xf32, 3>
  %group = nvgpu.device_async_create_group %copy
  nvgpu.device_async_wait %group {numGroups = 1 : i32}
  %x = memref.load %s[%c0] : memref<8xf32, 3>
  return %x : f32
}
