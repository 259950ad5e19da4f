
func.func @f(%x_: !llvm.ptr, %out: memref<?x?x32xf32> {llvm.noalias}, %n: index, %b: i1) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %x = builtin.unrealized_conversion_cast %x_ : !llvm.ptr to !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>
  %buf = memref.alloc() : memref<2x64xf32, #gpu.address_space<workgroup>>
  
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %c5 = arith.constant 5 : index
  %c6 = arith.constant 6 : index
  %c7 = arith.constant 7 : index
  %c8 = arith.constant 8 : index
  %c9 = arith.constant 9 : index
  %c10 = arith.constant 10 : index
  %c11 = arith.constant 11 : index
  %c12 = arith.constant 12 : index
  %c31 = arith.constant 31 : index
  %c32 = arith.constant 32 : index
  %c63 = arith.constant 63 : index
  %c64 = arith.constant 64 : index
  %c96 = arith.constant 96 : index
  %c128 = arith.constant 128 : index
  %c256 = arith.constant 256 : index
  %i0 = arith.constant 0 : i32
  %i1 = arith.constant 1 : i32
  %i2 = arith.constant 2 : i32
  %i3 = arith.constant 3 : i32
  %i4 = arith.constant 4 : i32
  %i5 = arith.constant 5 : i32
  %i6 = arith.constant 6 : i32
  %i7 = arith.constant 7 : i32
  %i8 = arith.constant 8 : i32
  %i32 = arith.constant 32 : i32
  %i64 = arith.constant 64 : i32
  %i96 = arith.constant 96 : i32
  %i128 = arith.constant 128 : i32
  %V = arith.constant 2 : index
  %bytes = arith.constant 256 : index
  %false = arith.constant false
  %true = arith.constant true
  %f = arith.constant 1.0 : f32
  %ce = arith.constant 1 : index
  %cf = arith.constant 1 : index
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %warp = arith.divui %t, %c32 : index
  %lane = arith.remui %t, %c32 : index
  %lane0 = arith.cmpi eq, %lane, %c0 : index
  %full = nvgpu.mbarrier.create -> !nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>, num_barriers = 2>
  %empty = nvgpu.mbarrier.create -> !nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>, num_barriers = 2>
  %all = arith.constant -1 : i32
%sz = arith.extsi %b : i1 to i32
%g = arith.cmpi sge, %sz, %i0 : i32
  scf.for %s = %c0 to %V step %c1 {
    nvgpu.mbarrier.init %full[%s], %cf, predicate = %leader : !nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>, num_barriers = 2>
    nvgpu.mbarrier.init %empty[%s], %ce, predicate = %leader : !nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>, num_barriers = 2>
  }
  nvvm.fence.mbarrier.init
  gpu.barrier
  
  %w0 = arith.cmpi eq, %warp, %c0 : index
  %w1 = arith.cmpi eq, %warp, %c1 : index
scf.if %w0 {
scf.for %tile = %c0 to %n step %c1 {
%slot = arith.remui %tile, %V : index
%rdu8 = arith.divui %tile, %V : index
%odu8 = arith.remui %rdu8, %c2 : index
%phase = arith.cmpi ne, %odu8, %c0 : index
nvgpu.mbarrier.try_wait.parity %full[%slot], %phase, %c64 : !nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>, num_barriers = 2>
%u6m = arith.subi %c63, %lane : index
%u6v = memref.load %buf[%slot, %u6m] : memref<2x64xf32, #gpu.address_space<workgroup>>
memref.store %u6v, %out[%warp, %tile, %lane] : memref<?x?x32xf32>
nvvm.bar.warp.sync %all : i32
scf.if %lane0 {
 %u7tok = nvgpu.mbarrier.arrive %empty[%slot] : !nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>, num_barriers = 2> -> !nvgpu.mbarrier.token
}
}
} else {
scf.if %g {
scf.for %tile = %c0 to %n step %c1 {
%slot = arith.remui %tile, %V : index
%rdu10 = arith.divui %tile, %V : index
%odu10 = arith.remui %rdu10, %c2 : index
%phase = arith.cmpi eq, %odu10, %c0 : index
nvgpu.mbarrier.try_wait.parity %empty[%slot], %phase, %c64 : !nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>, num_barriers = 2>
scf.if %lane0 {
 nvgpu.mbarrier.arrive.expect_tx %full[%slot], %bytes : !nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>, num_barriers = 2>
 %u9st = arith.muli %tile, %c64 : index
 %u9to = memref.subview %buf[%slot, 0][1, 64][1, 1] : memref<2x64xf32, #gpu.address_space<workgroup>> to memref<64xf32, strided<[1], offset: ?>, #gpu.address_space<workgroup>>
 nvgpu.tma.async.load %x[%u9st], %full[%slot] to %u9to : !nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>, !nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>, num_barriers = 2> -> memref<64xf32, strided<[1], offset: ?>, #gpu.address_space<workgroup>>
}
}
}
}

  return
}
