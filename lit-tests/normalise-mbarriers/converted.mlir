// RUN: async-pipe-opt %s --async-pipe-normalise-mbarriers | FileCheck %s

// The mbarrier of a loop of tensor copies, as upstream converts it to nvvm, becomes one of nvgpu.

// CHECK:       %[[G:.*]] = nvgpu.mbarrier.create
// CHECK-NOT:   nvvm.mbarrier
// CHECK:       nvgpu.mbarrier.init %[[G]]
// CHECK:       scf.for
// CHECK:         nvgpu.mbarrier.arrive.expect_tx %[[G]][%{{.*}}], %c256{{.*}}, predicate
// CHECK:         %[[P:.*]] = nvgpu.mbarrier.get %[[G]]
// CHECK:         %[[Q:.*]] = llvm.inttoptr %[[P]]
// CHECK:         nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}}, %{{.*}}, %[[Q]],
// CHECK:         nvgpu.mbarrier.try_wait.parity %[[G]]
module {
  memref.global "private" @__mbarrier : memref<1xi64, 3> {alignment = 8 : i64}
  func.func @f(%arg0: !llvm.ptr, %arg1: memref<?x64xf32> {llvm.noalias}, %arg2: index) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
%typed0 = builtin.unrealized_conversion_cast %arg0 : !llvm.ptr to !nvgpu.tensormap.descriptor<tensor = memref<2x32xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>
%map0 = builtin.unrealized_conversion_cast %typed0 : !nvgpu.tensormap.descriptor<tensor = memref<2x32xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none> to !llvm.ptr
    %cst = arith.constant 0.000000e+00 : f32
    %true = arith.constant true
    %false = arith.constant false
    %c256 = arith.constant 256 : index
    %c64 = arith.constant 64 : index
    %c63 = arith.constant 63 : index
    %c32 = arith.constant 32 : index
    %c4 = arith.constant 4 : index
    %c1 = arith.constant 1 : index
    %c0 = arith.constant 0 : index
    %0 = builtin.unrealized_conversion_cast %arg2 : index to i64
    %alloc = memref.alloc() : memref<2x32xf32, #gpu.address_space<workgroup>>
    %1 = builtin.unrealized_conversion_cast %alloc : memref<2x32xf32, #gpu.address_space<workgroup>> to !llvm.struct<(ptr<3>, ptr<3>, i64, array<2 x i64>, array<2 x i64>)>
    %2 = builtin.unrealized_conversion_cast %c0 : index to i64
    %3 = builtin.unrealized_conversion_cast %c1 : index to i64
    %4 = builtin.unrealized_conversion_cast %c64 : index to i64
    %5 = builtin.unrealized_conversion_cast %c256 : index to i64
    %thread_id_x = gpu.thread_id x
    %6 = arith.cmpi eq, %thread_id_x, %c0 : index
    %7 = memref.get_global @__mbarrier : memref<1xi64, 3>
    %8 = builtin.unrealized_conversion_cast %7 : memref<1xi64, 3> to !llvm.struct<(ptr<3>, ptr<3>, i64, array<1 x i64>, array<1 x i64>)>
    %9 = llvm.extractvalue %8[1] : !llvm.struct<(ptr<3>, ptr<3>, i64, array<1 x i64>, array<1 x i64>)> 
    %10 = llvm.getelementptr %9[%2] : (!llvm.ptr<3>, i64) -> !llvm.ptr<3>, i64
    %11 = llvm.trunc %3 : i64 to i32
    nvvm.mbarrier.init %10, %11, predicate = %6 : !llvm.ptr<3>, i32, i1
    nvvm.fence.mbarrier.init
    gpu.barrier
    %12:2 = scf.for %arg3 = %2 to %0 step %3 iter_args(%arg4 = %2, %arg5 = %false) -> (i64, i1)  : i64 {
      %13 = builtin.unrealized_conversion_cast %arg4 : i64 to index
      %14 = builtin.unrealized_conversion_cast %arg3 : i64 to index
      %15 = llvm.trunc %5 : i64 to i32
      nvvm.mbarrier.arrive.expect_tx %10, %15, predicate = %6 : !llvm.ptr<3>, i32, i1
      %16 = arith.muli %14, %c32 : index
      %17 = builtin.unrealized_conversion_cast %16 : index to i64
      %18 = llvm.extractvalue %1[1] : !llvm.struct<(ptr<3>, ptr<3>, i64, array<2 x i64>, array<2 x i64>)> 
      %19 = llvm.addrspacecast %18 : !llvm.ptr<3> to !llvm.ptr<7>
      %20 = llvm.trunc %17 : i64 to i32
      %21 = llvm.trunc %2 : i64 to i32
      nvvm.cp.async.bulk.tensor.shared.cluster.global %19, %map0, %10, box[%20, %21] predicate = %6 : !llvm.ptr<7>, !llvm.ptr
      %22 = llvm.trunc %4 : i64 to i32
      %23 = llvm.zext %arg5 : i1 to i32
      nvvm.mbarrier.try_wait.parity %10, %23, %22 : !llvm.ptr<3>, i32, i32
      %24 = arith.cmpi ult, %thread_id_x, %c64 : index
      %25 = arith.subi %c63, %thread_id_x : index
      %26 = arith.select %24, %25, %c0 : index
      %27 = arith.divui %26, %c32 : index
      %28 = arith.remui %26, %c32 : index
      %29 = arith.divui %28, %c4 : index
      %30 = arith.remui %28, %c4 : index
      %31 = arith.muli %29, %c4 : index
      %32 = arith.addi %31, %30 : index
      %33 = memref.load %alloc[%27, %32] : memref<2x32xf32, #gpu.address_space<workgroup>>
      %34 = arith.select %24, %33, %cst : f32
      %35 = arith.addf %34, %cst : f32
      memref.store %35, %arg1[%14, %thread_id_x] : memref<?x64xf32>
      gpu.barrier
      %36 = arith.addi %13, %c1 : index
      %37 = builtin.unrealized_conversion_cast %36 : index to i64
      %38 = arith.xori %arg5, %true : i1
      scf.yield %37, %38 : i64, i1
    } {async_pipe.num_stages = 3 : i64}
    return
  }
}
