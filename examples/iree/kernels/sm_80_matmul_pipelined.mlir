module {
  gpu.module @kernels {
    gpu.func @matmul_dispatch_0_matmul_64x64x1024_f16xf16xf32(%arg0: memref<64x1024xf16, #gpu.address_space<global>> {llvm.noalias}, %arg1: memref<64x1024xf16, #gpu.address_space<global>> {llvm.noalias}, %arg2: memref<64x64xf32, #gpu.address_space<global>> {llvm.noalias}) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
      %c3 = arith.constant 3 : index
      %c896 = arith.constant 896 : index
      %c768 = arith.constant 768 : index
      %c640 = arith.constant 640 : index
      %c512 = arith.constant 512 : index
      %c384 = arith.constant 384 : index
      %c1 = arith.constant 1 : index
      %c120 = arith.constant 120 : index
      %c112 = arith.constant 112 : index
      %c104 = arith.constant 104 : index
      %c96 = arith.constant 96 : index
      %c88 = arith.constant 88 : index
      %c80 = arith.constant 80 : index
      %c72 = arith.constant 72 : index
      %c56 = arith.constant 56 : index
      %c48 = arith.constant 48 : index
      %c256 = arith.constant 256 : index
      %c128 = arith.constant 128 : index
      %c16 = arith.constant 16 : index
      %c2 = arith.constant 2 : index
      %c4 = arith.constant 4 : index
      %c64 = arith.constant 64 : index
      %c32 = arith.constant 32 : index
      %c24 = arith.constant 24 : index
      %c40 = arith.constant 40 : index
      %c8 = arith.constant 8 : index
      %c0 = arith.constant 0 : index
      %cst = arith.constant dense<0.000000e+00> : vector<2xf32>
      %alloc = memref.alloc() : memref<3x32x128xf16, #gpu.address_space<workgroup>>
      %alloc_0 = memref.alloc() : memref<3x64x128xf16, #gpu.address_space<workgroup>>
      %thread_id_x = gpu.thread_id x upper_bound 128
      %assume_align = memref.assume_alignment %arg0, 64 : memref<64x1024xf16, #gpu.address_space<global>>
      %assume_align_1 = memref.assume_alignment %arg1, 64 : memref<64x1024xf16, #gpu.address_space<global>>
      %assume_align_2 = memref.assume_alignment %arg2, 64 : memref<64x64xf32, #gpu.address_space<global>>
      %0 = arith.divui %thread_id_x, %c64 : index
      %1 = arith.remui %thread_id_x, %c64 : index
      %2 = arith.divui %1, %c32 : index
      %3 = arith.remui %thread_id_x, %c32 : index
      %4 = arith.remui %3, %c32 : index
      %5 = arith.divui %4, %c4 : index
      %6 = arith.remui %3, %c4 : index
      %7 = arith.muli %6, %c2 overflow<nsw> : index
      %8 = arith.divui %thread_id_x, %c16 : index
      %9 = arith.remui %thread_id_x, %c16 : index
      %10 = arith.addi %thread_id_x, %c128 : index
      %11 = arith.divui %10, %c16 : index
      %12 = arith.remui %10, %c16 : index
      %13 = arith.addi %thread_id_x, %c256 : index
      %14 = arith.divui %13, %c16 : index
      %15 = arith.remui %13, %c16 : index
      %16 = arith.addi %thread_id_x, %c384 : index
      %17 = arith.divui %16, %c16 : index
      %18 = arith.remui %16, %c16 : index
      %19 = arith.addi %thread_id_x, %c512 : index
      %20 = arith.divui %19, %c16 : index
      %21 = arith.remui %19, %c16 : index
      %22 = arith.addi %thread_id_x, %c640 : index
      %23 = arith.divui %22, %c16 : index
      %24 = arith.remui %22, %c16 : index
      %25 = arith.addi %thread_id_x, %c768 : index
      %26 = arith.divui %25, %c16 : index
      %27 = arith.remui %25, %c16 : index
      %28 = arith.addi %thread_id_x, %c896 : index
      %29 = arith.divui %28, %c16 : index
      %30 = arith.remui %28, %c16 : index
      %31 = arith.muli %9, %c8 overflow<nsw> : index
      %32 = arith.muli %12, %c8 overflow<nsw> : index
      %33 = arith.muli %15, %c8 overflow<nsw> : index
      %34 = arith.muli %18, %c8 overflow<nsw> : index
      %35 = arith.muli %21, %c8 overflow<nsw> : index
      %36 = arith.muli %24, %c8 overflow<nsw> : index
      %37 = arith.muli %27, %c8 overflow<nsw> : index
      %38 = arith.muli %30, %c8 overflow<nsw> : index
      %block_id_x = gpu.block_id x
      %39 = arith.muli %block_id_x, %c32 overflow<nsw> : index
      %40 = arith.addi %8, %39 : index
      %41 = arith.addi %11, %39 : index
      %42 = arith.addi %14, %39 : index
      %43 = arith.addi %17, %39 : index
      %subview = memref.subview %alloc_0[0, 0, 0] [1, 64, 128] [1, 1, 1] : memref<3x64x128xf16, #gpu.address_space<workgroup>> to memref<64x128xf16, strided<[128, 1]>, #gpu.address_space<workgroup>>
      %cast = memref.cast %subview : memref<64x128xf16, strided<[128, 1]>, #gpu.address_space<workgroup>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %subview_3 = memref.subview %alloc[0, 0, 0] [1, 32, 128] [1, 1, 1] : memref<3x32x128xf16, #gpu.address_space<workgroup>> to memref<32x128xf16, strided<[128, 1]>, #gpu.address_space<workgroup>>
      %cast_4 = memref.cast %subview_3 : memref<32x128xf16, strided<[128, 1]>, #gpu.address_space<workgroup>> to memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      gpu.barrier memfence [#gpu.address_space<workgroup>]
      %44 = nvgpu.device_async_copy %assume_align[%8, %31], %cast[%8, %31], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %45 = nvgpu.device_async_copy %assume_align[%11, %32], %cast[%11, %32], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %46 = nvgpu.device_async_copy %assume_align[%14, %33], %cast[%14, %33], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %47 = nvgpu.device_async_copy %assume_align[%17, %34], %cast[%17, %34], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %48 = nvgpu.device_async_copy %assume_align[%20, %35], %cast[%20, %35], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %49 = nvgpu.device_async_copy %assume_align[%23, %36], %cast[%23, %36], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %50 = nvgpu.device_async_copy %assume_align[%26, %37], %cast[%26, %37], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %51 = nvgpu.device_async_copy %assume_align[%29, %38], %cast[%29, %38], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %52 = nvgpu.device_async_copy %assume_align_1[%40, %31], %cast_4[%8, %31], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %53 = nvgpu.device_async_copy %assume_align_1[%41, %32], %cast_4[%11, %32], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %54 = nvgpu.device_async_copy %assume_align_1[%42, %33], %cast_4[%14, %33], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %55 = nvgpu.device_async_copy %assume_align_1[%43, %34], %cast_4[%17, %34], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %56 = nvgpu.device_async_create_group %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55
      %subview_5 = memref.subview %alloc_0[1, 0, 0] [1, 64, 128] [1, 1, 1] : memref<3x64x128xf16, #gpu.address_space<workgroup>> to memref<64x128xf16, strided<[128, 1], offset: 8192>, #gpu.address_space<workgroup>>
      %cast_6 = memref.cast %subview_5 : memref<64x128xf16, strided<[128, 1], offset: 8192>, #gpu.address_space<workgroup>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %subview_7 = memref.subview %alloc[1, 0, 0] [1, 32, 128] [1, 1, 1] : memref<3x32x128xf16, #gpu.address_space<workgroup>> to memref<32x128xf16, strided<[128, 1], offset: 4096>, #gpu.address_space<workgroup>>
      %cast_8 = memref.cast %subview_7 : memref<32x128xf16, strided<[128, 1], offset: 4096>, #gpu.address_space<workgroup>> to memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      gpu.barrier memfence [#gpu.address_space<workgroup>]
      %57 = arith.addi %31, %c128 : index
      %58 = nvgpu.device_async_copy %assume_align[%8, %57], %cast_6[%8, %31], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %59 = arith.addi %32, %c128 : index
      %60 = nvgpu.device_async_copy %assume_align[%11, %59], %cast_6[%11, %32], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %61 = arith.addi %33, %c128 : index
      %62 = nvgpu.device_async_copy %assume_align[%14, %61], %cast_6[%14, %33], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %63 = arith.addi %34, %c128 : index
      %64 = nvgpu.device_async_copy %assume_align[%17, %63], %cast_6[%17, %34], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %65 = arith.addi %35, %c128 : index
      %66 = nvgpu.device_async_copy %assume_align[%20, %65], %cast_6[%20, %35], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %67 = arith.addi %36, %c128 : index
      %68 = nvgpu.device_async_copy %assume_align[%23, %67], %cast_6[%23, %36], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %69 = arith.addi %37, %c128 : index
      %70 = nvgpu.device_async_copy %assume_align[%26, %69], %cast_6[%26, %37], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %71 = arith.addi %38, %c128 : index
      %72 = nvgpu.device_async_copy %assume_align[%29, %71], %cast_6[%29, %38], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %73 = nvgpu.device_async_copy %assume_align_1[%40, %57], %cast_8[%8, %31], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %74 = nvgpu.device_async_copy %assume_align_1[%41, %59], %cast_8[%11, %32], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %75 = nvgpu.device_async_copy %assume_align_1[%42, %61], %cast_8[%14, %33], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %76 = nvgpu.device_async_copy %assume_align_1[%43, %63], %cast_8[%17, %34], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %77 = nvgpu.device_async_create_group %58, %60, %62, %64, %66, %68, %70, %72, %73, %74, %75, %76
      %subview_9 = memref.subview %alloc_0[2, 0, 0] [1, 64, 128] [1, 1, 1] : memref<3x64x128xf16, #gpu.address_space<workgroup>> to memref<64x128xf16, strided<[128, 1], offset: 16384>, #gpu.address_space<workgroup>>
      %cast_10 = memref.cast %subview_9 : memref<64x128xf16, strided<[128, 1], offset: 16384>, #gpu.address_space<workgroup>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %subview_11 = memref.subview %alloc[2, 0, 0] [1, 32, 128] [1, 1, 1] : memref<3x32x128xf16, #gpu.address_space<workgroup>> to memref<32x128xf16, strided<[128, 1], offset: 8192>, #gpu.address_space<workgroup>>
      %cast_12 = memref.cast %subview_11 : memref<32x128xf16, strided<[128, 1], offset: 8192>, #gpu.address_space<workgroup>> to memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      gpu.barrier memfence [#gpu.address_space<workgroup>]
      %78 = arith.addi %31, %c256 : index
      %79 = nvgpu.device_async_copy %assume_align[%8, %78], %cast_10[%8, %31], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %80 = arith.addi %32, %c256 : index
      %81 = nvgpu.device_async_copy %assume_align[%11, %80], %cast_10[%11, %32], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %82 = arith.addi %33, %c256 : index
      %83 = nvgpu.device_async_copy %assume_align[%14, %82], %cast_10[%14, %33], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %84 = arith.addi %34, %c256 : index
      %85 = nvgpu.device_async_copy %assume_align[%17, %84], %cast_10[%17, %34], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %86 = arith.addi %35, %c256 : index
      %87 = nvgpu.device_async_copy %assume_align[%20, %86], %cast_10[%20, %35], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %88 = arith.addi %36, %c256 : index
      %89 = nvgpu.device_async_copy %assume_align[%23, %88], %cast_10[%23, %36], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %90 = arith.addi %37, %c256 : index
      %91 = nvgpu.device_async_copy %assume_align[%26, %90], %cast_10[%26, %37], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %92 = arith.addi %38, %c256 : index
      %93 = nvgpu.device_async_copy %assume_align[%29, %92], %cast_10[%29, %38], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %94 = nvgpu.device_async_copy %assume_align_1[%40, %78], %cast_12[%8, %31], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %95 = nvgpu.device_async_copy %assume_align_1[%41, %80], %cast_12[%11, %32], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %96 = nvgpu.device_async_copy %assume_align_1[%42, %82], %cast_12[%14, %33], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %97 = nvgpu.device_async_copy %assume_align_1[%43, %84], %cast_12[%17, %34], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %98 = nvgpu.device_async_create_group %79, %81, %83, %85, %87, %89, %91, %93, %94, %95, %96, %97
      %99:17 = scf.for %arg3 = %c0 to %c40 step %c8 iter_args(%arg4 = %cst, %arg5 = %cst, %arg6 = %cst, %arg7 = %cst, %arg8 = %cst, %arg9 = %cst, %arg10 = %cst, %arg11 = %cst, %arg12 = %56, %arg13 = %77, %arg14 = %98, %arg15 = %cast, %arg16 = %cast_6, %arg17 = %cast_10, %arg18 = %cast_4, %arg19 = %cast_8, %arg20 = %cast_12) -> (vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>, !nvgpu.device.async.token, !nvgpu.device.async.token, !nvgpu.device.async.token, memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>) {
        %966:2 = vector.to_elements %arg10 : vector<2xf32>
        %967:2 = vector.to_elements %arg11 : vector<2xf32>
        %968 = vector.from_elements %966#0, %966#1, %967#0, %967#1 : vector<2x2xf32>
        %969:2 = vector.to_elements %arg8 : vector<2xf32>
        %970:2 = vector.to_elements %arg9 : vector<2xf32>
        %971 = vector.from_elements %969#0, %969#1, %970#0, %970#1 : vector<2x2xf32>
        %972:2 = vector.to_elements %arg6 : vector<2xf32>
        %973:2 = vector.to_elements %arg7 : vector<2xf32>
        %974 = vector.from_elements %972#0, %972#1, %973#0, %973#1 : vector<2x2xf32>
        %975:2 = vector.to_elements %arg4 : vector<2xf32>
        %976:2 = vector.to_elements %arg5 : vector<2xf32>
        %977 = vector.from_elements %975#0, %975#1, %976#0, %976#1 : vector<2x2xf32>
        nvgpu.device_async_wait %arg12 {numGroups = 2 : i32}
        gpu.barrier memfence [#gpu.address_space<workgroup>]
        %978 = arith.muli %0, %c32 overflow<nsw> : index
        %979 = arith.addi %5, %978 overflow<nsw> : index
        %980 = vector.load %arg15[%979, %7] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %981 = arith.addi %7, %c8 overflow<nsw> : index
        %982 = vector.load %arg15[%979, %981] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %983 = arith.addi %7, %c16 overflow<nsw> : index
        %984 = vector.load %arg15[%979, %983] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %985 = arith.addi %7, %c24 overflow<nsw> : index
        %986 = vector.load %arg15[%979, %985] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %987 = arith.addi %7, %c32 overflow<nsw> : index
        %988 = vector.load %arg15[%979, %987] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %989 = arith.addi %7, %c40 overflow<nsw> : index
        %990 = vector.load %arg15[%979, %989] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %991 = arith.addi %7, %c48 overflow<nsw> : index
        %992 = vector.load %arg15[%979, %991] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %993 = arith.addi %7, %c56 overflow<nsw> : index
        %994 = vector.load %arg15[%979, %993] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %995 = arith.addi %7, %c64 overflow<nsw> : index
        %996 = vector.load %arg15[%979, %995] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %997 = arith.addi %7, %c72 overflow<nsw> : index
        %998 = vector.load %arg15[%979, %997] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %999 = arith.addi %7, %c80 overflow<nsw> : index
        %1000 = vector.load %arg15[%979, %999] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1001 = arith.addi %7, %c88 overflow<nsw> : index
        %1002 = vector.load %arg15[%979, %1001] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1003 = arith.addi %7, %c96 overflow<nsw> : index
        %1004 = vector.load %arg15[%979, %1003] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1005 = arith.addi %7, %c104 overflow<nsw> : index
        %1006 = vector.load %arg15[%979, %1005] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1007 = arith.addi %7, %c112 overflow<nsw> : index
        %1008 = vector.load %arg15[%979, %1007] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1009 = arith.addi %7, %c120 overflow<nsw> : index
        %1010 = vector.load %arg15[%979, %1009] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1011 = arith.addi %5, %c8 overflow<nsw> : index
        %1012 = arith.addi %1011, %978 overflow<nsw> : index
        %1013 = vector.load %arg15[%1012, %7] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1014 = vector.load %arg15[%1012, %981] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1015:2 = vector.to_elements %980 : vector<2xf16>
        %1016:2 = vector.to_elements %1013 : vector<2xf16>
        %1017:2 = vector.to_elements %982 : vector<2xf16>
        %1018:2 = vector.to_elements %1014 : vector<2xf16>
        %1019 = vector.from_elements %1015#0, %1015#1, %1016#0, %1016#1, %1017#0, %1017#1, %1018#0, %1018#1 : vector<4x2xf16>
        %1020 = vector.load %arg15[%1012, %983] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1021 = vector.load %arg15[%1012, %985] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1022:2 = vector.to_elements %984 : vector<2xf16>
        %1023:2 = vector.to_elements %1020 : vector<2xf16>
        %1024:2 = vector.to_elements %986 : vector<2xf16>
        %1025:2 = vector.to_elements %1021 : vector<2xf16>
        %1026 = vector.from_elements %1022#0, %1022#1, %1023#0, %1023#1, %1024#0, %1024#1, %1025#0, %1025#1 : vector<4x2xf16>
        %1027 = vector.load %arg15[%1012, %987] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1028 = vector.load %arg15[%1012, %989] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1029:2 = vector.to_elements %988 : vector<2xf16>
        %1030:2 = vector.to_elements %1027 : vector<2xf16>
        %1031:2 = vector.to_elements %990 : vector<2xf16>
        %1032:2 = vector.to_elements %1028 : vector<2xf16>
        %1033 = vector.from_elements %1029#0, %1029#1, %1030#0, %1030#1, %1031#0, %1031#1, %1032#0, %1032#1 : vector<4x2xf16>
        %1034 = vector.load %arg15[%1012, %991] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1035 = vector.load %arg15[%1012, %993] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1036:2 = vector.to_elements %992 : vector<2xf16>
        %1037:2 = vector.to_elements %1034 : vector<2xf16>
        %1038:2 = vector.to_elements %994 : vector<2xf16>
        %1039:2 = vector.to_elements %1035 : vector<2xf16>
        %1040 = vector.from_elements %1036#0, %1036#1, %1037#0, %1037#1, %1038#0, %1038#1, %1039#0, %1039#1 : vector<4x2xf16>
        %1041 = vector.load %arg15[%1012, %995] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1042 = vector.load %arg15[%1012, %997] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1043:2 = vector.to_elements %996 : vector<2xf16>
        %1044:2 = vector.to_elements %1041 : vector<2xf16>
        %1045:2 = vector.to_elements %998 : vector<2xf16>
        %1046:2 = vector.to_elements %1042 : vector<2xf16>
        %1047 = vector.from_elements %1043#0, %1043#1, %1044#0, %1044#1, %1045#0, %1045#1, %1046#0, %1046#1 : vector<4x2xf16>
        %1048 = vector.load %arg15[%1012, %999] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1049 = vector.load %arg15[%1012, %1001] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1050:2 = vector.to_elements %1000 : vector<2xf16>
        %1051:2 = vector.to_elements %1048 : vector<2xf16>
        %1052:2 = vector.to_elements %1002 : vector<2xf16>
        %1053:2 = vector.to_elements %1049 : vector<2xf16>
        %1054 = vector.from_elements %1050#0, %1050#1, %1051#0, %1051#1, %1052#0, %1052#1, %1053#0, %1053#1 : vector<4x2xf16>
        %1055 = vector.load %arg15[%1012, %1003] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1056 = vector.load %arg15[%1012, %1005] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1057:2 = vector.to_elements %1004 : vector<2xf16>
        %1058:2 = vector.to_elements %1055 : vector<2xf16>
        %1059:2 = vector.to_elements %1006 : vector<2xf16>
        %1060:2 = vector.to_elements %1056 : vector<2xf16>
        %1061 = vector.from_elements %1057#0, %1057#1, %1058#0, %1058#1, %1059#0, %1059#1, %1060#0, %1060#1 : vector<4x2xf16>
        %1062 = vector.load %arg15[%1012, %1007] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1063 = vector.load %arg15[%1012, %1009] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1064:2 = vector.to_elements %1008 : vector<2xf16>
        %1065:2 = vector.to_elements %1062 : vector<2xf16>
        %1066:2 = vector.to_elements %1010 : vector<2xf16>
        %1067:2 = vector.to_elements %1063 : vector<2xf16>
        %1068 = vector.from_elements %1064#0, %1064#1, %1065#0, %1065#1, %1066#0, %1066#1, %1067#0, %1067#1 : vector<4x2xf16>
        %1069 = arith.muli %0, %c2 overflow<nsw> : index
        %1070 = arith.addi %1069, %c1 : index
        %1071 = arith.muli %1070, %c16 overflow<nsw> : index
        %1072 = arith.addi %5, %1071 overflow<nsw> : index
        %1073 = vector.load %arg15[%1072, %7] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1074 = vector.load %arg15[%1072, %981] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1075 = vector.load %arg15[%1072, %983] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1076 = vector.load %arg15[%1072, %985] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1077 = vector.load %arg15[%1072, %987] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1078 = vector.load %arg15[%1072, %989] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1079 = vector.load %arg15[%1072, %991] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1080 = vector.load %arg15[%1072, %993] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1081 = vector.load %arg15[%1072, %995] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1082 = vector.load %arg15[%1072, %997] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1083 = vector.load %arg15[%1072, %999] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1084 = vector.load %arg15[%1072, %1001] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1085 = vector.load %arg15[%1072, %1003] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1086 = vector.load %arg15[%1072, %1005] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1087 = vector.load %arg15[%1072, %1007] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1088 = vector.load %arg15[%1072, %1009] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1089 = arith.addi %1011, %1071 overflow<nsw> : index
        %1090 = vector.load %arg15[%1089, %7] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1091 = vector.load %arg15[%1089, %981] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1092:2 = vector.to_elements %1073 : vector<2xf16>
        %1093:2 = vector.to_elements %1090 : vector<2xf16>
        %1094:2 = vector.to_elements %1074 : vector<2xf16>
        %1095:2 = vector.to_elements %1091 : vector<2xf16>
        %1096 = vector.from_elements %1092#0, %1092#1, %1093#0, %1093#1, %1094#0, %1094#1, %1095#0, %1095#1 : vector<4x2xf16>
        %1097 = vector.load %arg15[%1089, %983] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1098 = vector.load %arg15[%1089, %985] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1099:2 = vector.to_elements %1075 : vector<2xf16>
        %1100:2 = vector.to_elements %1097 : vector<2xf16>
        %1101:2 = vector.to_elements %1076 : vector<2xf16>
        %1102:2 = vector.to_elements %1098 : vector<2xf16>
        %1103 = vector.from_elements %1099#0, %1099#1, %1100#0, %1100#1, %1101#0, %1101#1, %1102#0, %1102#1 : vector<4x2xf16>
        %1104 = vector.load %arg15[%1089, %987] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1105 = vector.load %arg15[%1089, %989] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1106:2 = vector.to_elements %1077 : vector<2xf16>
        %1107:2 = vector.to_elements %1104 : vector<2xf16>
        %1108:2 = vector.to_elements %1078 : vector<2xf16>
        %1109:2 = vector.to_elements %1105 : vector<2xf16>
        %1110 = vector.from_elements %1106#0, %1106#1, %1107#0, %1107#1, %1108#0, %1108#1, %1109#0, %1109#1 : vector<4x2xf16>
        %1111 = vector.load %arg15[%1089, %991] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1112 = vector.load %arg15[%1089, %993] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1113:2 = vector.to_elements %1079 : vector<2xf16>
        %1114:2 = vector.to_elements %1111 : vector<2xf16>
        %1115:2 = vector.to_elements %1080 : vector<2xf16>
        %1116:2 = vector.to_elements %1112 : vector<2xf16>
        %1117 = vector.from_elements %1113#0, %1113#1, %1114#0, %1114#1, %1115#0, %1115#1, %1116#0, %1116#1 : vector<4x2xf16>
        %1118 = vector.load %arg15[%1089, %995] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1119 = vector.load %arg15[%1089, %997] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1120:2 = vector.to_elements %1081 : vector<2xf16>
        %1121:2 = vector.to_elements %1118 : vector<2xf16>
        %1122:2 = vector.to_elements %1082 : vector<2xf16>
        %1123:2 = vector.to_elements %1119 : vector<2xf16>
        %1124 = vector.from_elements %1120#0, %1120#1, %1121#0, %1121#1, %1122#0, %1122#1, %1123#0, %1123#1 : vector<4x2xf16>
        %1125 = vector.load %arg15[%1089, %999] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1126 = vector.load %arg15[%1089, %1001] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1127:2 = vector.to_elements %1083 : vector<2xf16>
        %1128:2 = vector.to_elements %1125 : vector<2xf16>
        %1129:2 = vector.to_elements %1084 : vector<2xf16>
        %1130:2 = vector.to_elements %1126 : vector<2xf16>
        %1131 = vector.from_elements %1127#0, %1127#1, %1128#0, %1128#1, %1129#0, %1129#1, %1130#0, %1130#1 : vector<4x2xf16>
        %1132 = vector.load %arg15[%1089, %1003] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1133 = vector.load %arg15[%1089, %1005] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1134:2 = vector.to_elements %1085 : vector<2xf16>
        %1135:2 = vector.to_elements %1132 : vector<2xf16>
        %1136:2 = vector.to_elements %1086 : vector<2xf16>
        %1137:2 = vector.to_elements %1133 : vector<2xf16>
        %1138 = vector.from_elements %1134#0, %1134#1, %1135#0, %1135#1, %1136#0, %1136#1, %1137#0, %1137#1 : vector<4x2xf16>
        %1139 = vector.load %arg15[%1089, %1007] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1140 = vector.load %arg15[%1089, %1009] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1141:2 = vector.to_elements %1087 : vector<2xf16>
        %1142:2 = vector.to_elements %1139 : vector<2xf16>
        %1143:2 = vector.to_elements %1088 : vector<2xf16>
        %1144:2 = vector.to_elements %1140 : vector<2xf16>
        %1145 = vector.from_elements %1141#0, %1141#1, %1142#0, %1142#1, %1143#0, %1143#1, %1144#0, %1144#1 : vector<4x2xf16>
        %1146 = arith.muli %2, %c16 overflow<nsw> : index
        %1147 = arith.addi %5, %1146 overflow<nsw> : index
        %1148 = vector.load %arg18[%1147, %7] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1149 = vector.load %arg18[%1147, %981] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1150:2 = vector.to_elements %1148 : vector<2xf16>
        %1151:2 = vector.to_elements %1149 : vector<2xf16>
        %1152 = vector.from_elements %1150#0, %1150#1, %1151#0, %1151#1 : vector<2x2xf16>
        %1153 = vector.load %arg18[%1147, %983] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1154 = vector.load %arg18[%1147, %985] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1155:2 = vector.to_elements %1153 : vector<2xf16>
        %1156:2 = vector.to_elements %1154 : vector<2xf16>
        %1157 = vector.from_elements %1155#0, %1155#1, %1156#0, %1156#1 : vector<2x2xf16>
        %1158 = vector.load %arg18[%1147, %987] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1159 = vector.load %arg18[%1147, %989] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1160:2 = vector.to_elements %1158 : vector<2xf16>
        %1161:2 = vector.to_elements %1159 : vector<2xf16>
        %1162 = vector.from_elements %1160#0, %1160#1, %1161#0, %1161#1 : vector<2x2xf16>
        %1163 = vector.load %arg18[%1147, %991] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1164 = vector.load %arg18[%1147, %993] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1165:2 = vector.to_elements %1163 : vector<2xf16>
        %1166:2 = vector.to_elements %1164 : vector<2xf16>
        %1167 = vector.from_elements %1165#0, %1165#1, %1166#0, %1166#1 : vector<2x2xf16>
        %1168 = vector.load %arg18[%1147, %995] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1169 = vector.load %arg18[%1147, %997] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1170:2 = vector.to_elements %1168 : vector<2xf16>
        %1171:2 = vector.to_elements %1169 : vector<2xf16>
        %1172 = vector.from_elements %1170#0, %1170#1, %1171#0, %1171#1 : vector<2x2xf16>
        %1173 = vector.load %arg18[%1147, %999] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1174 = vector.load %arg18[%1147, %1001] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1175:2 = vector.to_elements %1173 : vector<2xf16>
        %1176:2 = vector.to_elements %1174 : vector<2xf16>
        %1177 = vector.from_elements %1175#0, %1175#1, %1176#0, %1176#1 : vector<2x2xf16>
        %1178 = vector.load %arg18[%1147, %1003] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1179 = vector.load %arg18[%1147, %1005] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1180:2 = vector.to_elements %1178 : vector<2xf16>
        %1181:2 = vector.to_elements %1179 : vector<2xf16>
        %1182 = vector.from_elements %1180#0, %1180#1, %1181#0, %1181#1 : vector<2x2xf16>
        %1183 = vector.load %arg18[%1147, %1007] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1184 = vector.load %arg18[%1147, %1009] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1185:2 = vector.to_elements %1183 : vector<2xf16>
        %1186:2 = vector.to_elements %1184 : vector<2xf16>
        %1187 = vector.from_elements %1185#0, %1185#1, %1186#0, %1186#1 : vector<2x2xf16>
        %1188 = arith.muli %2, %c2 overflow<nsw> : index
        %1189 = arith.addi %1188, %c1 : index
        %1190 = arith.muli %1189, %c8 overflow<nsw> : index
        %1191 = arith.addi %5, %1190 overflow<nsw> : index
        %1192 = vector.load %arg18[%1191, %7] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1193 = vector.load %arg18[%1191, %981] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1194:2 = vector.to_elements %1192 : vector<2xf16>
        %1195:2 = vector.to_elements %1193 : vector<2xf16>
        %1196 = vector.from_elements %1194#0, %1194#1, %1195#0, %1195#1 : vector<2x2xf16>
        %1197 = vector.load %arg18[%1191, %983] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1198 = vector.load %arg18[%1191, %985] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1199:2 = vector.to_elements %1197 : vector<2xf16>
        %1200:2 = vector.to_elements %1198 : vector<2xf16>
        %1201 = vector.from_elements %1199#0, %1199#1, %1200#0, %1200#1 : vector<2x2xf16>
        %1202 = vector.load %arg18[%1191, %987] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1203 = vector.load %arg18[%1191, %989] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1204:2 = vector.to_elements %1202 : vector<2xf16>
        %1205:2 = vector.to_elements %1203 : vector<2xf16>
        %1206 = vector.from_elements %1204#0, %1204#1, %1205#0, %1205#1 : vector<2x2xf16>
        %1207 = vector.load %arg18[%1191, %991] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1208 = vector.load %arg18[%1191, %993] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1209:2 = vector.to_elements %1207 : vector<2xf16>
        %1210:2 = vector.to_elements %1208 : vector<2xf16>
        %1211 = vector.from_elements %1209#0, %1209#1, %1210#0, %1210#1 : vector<2x2xf16>
        %1212 = vector.load %arg18[%1191, %995] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1213 = vector.load %arg18[%1191, %997] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1214:2 = vector.to_elements %1212 : vector<2xf16>
        %1215:2 = vector.to_elements %1213 : vector<2xf16>
        %1216 = vector.from_elements %1214#0, %1214#1, %1215#0, %1215#1 : vector<2x2xf16>
        %1217 = vector.load %arg18[%1191, %999] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1218 = vector.load %arg18[%1191, %1001] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1219:2 = vector.to_elements %1217 : vector<2xf16>
        %1220:2 = vector.to_elements %1218 : vector<2xf16>
        %1221 = vector.from_elements %1219#0, %1219#1, %1220#0, %1220#1 : vector<2x2xf16>
        %1222 = vector.load %arg18[%1191, %1003] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1223 = vector.load %arg18[%1191, %1005] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1224:2 = vector.to_elements %1222 : vector<2xf16>
        %1225:2 = vector.to_elements %1223 : vector<2xf16>
        %1226 = vector.from_elements %1224#0, %1224#1, %1225#0, %1225#1 : vector<2x2xf16>
        %1227 = vector.load %arg18[%1191, %1007] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1228 = vector.load %arg18[%1191, %1009] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
        %1229:2 = vector.to_elements %1227 : vector<2xf16>
        %1230:2 = vector.to_elements %1228 : vector<2xf16>
        %1231 = vector.from_elements %1229#0, %1229#1, %1230#0, %1230#1 : vector<2x2xf16>
        %1232 = nvgpu.mma.sync(%1019, %1152, %968) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %1233 = nvgpu.mma.sync(%1019, %1196, %971) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %1234 = nvgpu.mma.sync(%1096, %1152, %974) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %1235 = nvgpu.mma.sync(%1096, %1196, %977) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %1236 = nvgpu.mma.sync(%1026, %1157, %1232) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %1237 = nvgpu.mma.sync(%1026, %1201, %1233) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %1238 = nvgpu.mma.sync(%1103, %1157, %1234) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %1239 = nvgpu.mma.sync(%1103, %1201, %1235) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %1240 = nvgpu.mma.sync(%1033, %1162, %1236) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %1241 = nvgpu.mma.sync(%1033, %1206, %1237) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %1242 = nvgpu.mma.sync(%1110, %1162, %1238) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %1243 = nvgpu.mma.sync(%1110, %1206, %1239) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %1244 = nvgpu.mma.sync(%1040, %1167, %1240) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %1245 = nvgpu.mma.sync(%1040, %1211, %1241) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %1246 = nvgpu.mma.sync(%1117, %1167, %1242) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %1247 = nvgpu.mma.sync(%1117, %1211, %1243) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %1248 = nvgpu.mma.sync(%1047, %1172, %1244) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %1249 = nvgpu.mma.sync(%1047, %1216, %1245) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %1250 = nvgpu.mma.sync(%1124, %1172, %1246) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %1251 = nvgpu.mma.sync(%1124, %1216, %1247) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %1252 = nvgpu.mma.sync(%1054, %1177, %1248) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %1253 = nvgpu.mma.sync(%1054, %1221, %1249) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %1254 = nvgpu.mma.sync(%1131, %1177, %1250) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %1255 = nvgpu.mma.sync(%1131, %1221, %1251) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %1256 = nvgpu.mma.sync(%1061, %1182, %1252) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %1257 = nvgpu.mma.sync(%1061, %1226, %1253) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %1258 = nvgpu.mma.sync(%1138, %1182, %1254) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %1259 = nvgpu.mma.sync(%1138, %1226, %1255) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %1260 = nvgpu.mma.sync(%1068, %1187, %1256) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %1261 = vector.extract %1260[0] : vector<2xf32> from vector<2x2xf32>
        %1262 = vector.extract %1260[1] : vector<2xf32> from vector<2x2xf32>
        %1263 = nvgpu.mma.sync(%1068, %1231, %1257) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %1264 = vector.extract %1263[0] : vector<2xf32> from vector<2x2xf32>
        %1265 = vector.extract %1263[1] : vector<2xf32> from vector<2x2xf32>
        %1266 = nvgpu.mma.sync(%1145, %1187, %1258) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %1267 = vector.extract %1266[0] : vector<2xf32> from vector<2x2xf32>
        %1268 = vector.extract %1266[1] : vector<2xf32> from vector<2x2xf32>
        %1269 = nvgpu.mma.sync(%1145, %1231, %1259) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %1270 = vector.extract %1269[0] : vector<2xf32> from vector<2x2xf32>
        %1271 = vector.extract %1269[1] : vector<2xf32> from vector<2x2xf32>
        %1272 = arith.addi %arg3, %c24 : index
        %1273 = arith.divui %1272, %c8 : index
        %1274 = arith.remui %1273, %c3 : index
        %subview_13 = memref.subview %alloc_0[%1274, 0, 0] [1, 64, 128] [1, 1, 1] : memref<3x64x128xf16, #gpu.address_space<workgroup>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
        %subview_14 = memref.subview %alloc[%1274, 0, 0] [1, 32, 128] [1, 1, 1] : memref<3x32x128xf16, #gpu.address_space<workgroup>> to memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
        gpu.barrier memfence [#gpu.address_space<workgroup>]
        %1275 = arith.muli %1272, %c16 overflow<nsw> : index
        %1276 = arith.addi %31, %1275 : index
        %1277 = nvgpu.device_async_copy %assume_align[%8, %1276], %subview_13[%8, %31], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
        %1278 = arith.addi %32, %1275 : index
        %1279 = nvgpu.device_async_copy %assume_align[%11, %1278], %subview_13[%11, %32], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
        %1280 = arith.addi %33, %1275 : index
        %1281 = nvgpu.device_async_copy %assume_align[%14, %1280], %subview_13[%14, %33], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
        %1282 = arith.addi %34, %1275 : index
        %1283 = nvgpu.device_async_copy %assume_align[%17, %1282], %subview_13[%17, %34], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
        %1284 = arith.addi %35, %1275 : index
        %1285 = nvgpu.device_async_copy %assume_align[%20, %1284], %subview_13[%20, %35], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
        %1286 = arith.addi %36, %1275 : index
        %1287 = nvgpu.device_async_copy %assume_align[%23, %1286], %subview_13[%23, %36], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
        %1288 = arith.addi %37, %1275 : index
        %1289 = nvgpu.device_async_copy %assume_align[%26, %1288], %subview_13[%26, %37], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
        %1290 = arith.addi %38, %1275 : index
        %1291 = nvgpu.device_async_copy %assume_align[%29, %1290], %subview_13[%29, %38], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
        %1292 = nvgpu.device_async_copy %assume_align_1[%40, %1276], %subview_14[%8, %31], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
        %1293 = nvgpu.device_async_copy %assume_align_1[%41, %1278], %subview_14[%11, %32], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
        %1294 = nvgpu.device_async_copy %assume_align_1[%42, %1280], %subview_14[%14, %33], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
        %1295 = nvgpu.device_async_copy %assume_align_1[%43, %1282], %subview_14[%17, %34], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
        %1296 = nvgpu.device_async_create_group %1277, %1279, %1281, %1283, %1285, %1287, %1289, %1291, %1292, %1293, %1294, %1295
        scf.yield %1270, %1271, %1267, %1268, %1264, %1265, %1261, %1262, %arg13, %arg14, %1296, %arg16, %arg17, %subview_13, %arg19, %arg20, %subview_14 : vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>, !nvgpu.device.async.token, !nvgpu.device.async.token, !nvgpu.device.async.token, memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      }
      %100:2 = vector.to_elements %99#6 : vector<2xf32>
      %101:2 = vector.to_elements %99#7 : vector<2xf32>
      %102 = vector.from_elements %100#0, %100#1, %101#0, %101#1 : vector<2x2xf32>
      %103:2 = vector.to_elements %99#4 : vector<2xf32>
      %104:2 = vector.to_elements %99#5 : vector<2xf32>
      %105 = vector.from_elements %103#0, %103#1, %104#0, %104#1 : vector<2x2xf32>
      %106:2 = vector.to_elements %99#2 : vector<2xf32>
      %107:2 = vector.to_elements %99#3 : vector<2xf32>
      %108 = vector.from_elements %106#0, %106#1, %107#0, %107#1 : vector<2x2xf32>
      %109:2 = vector.to_elements %99#0 : vector<2xf32>
      %110:2 = vector.to_elements %99#1 : vector<2xf32>
      %111 = vector.from_elements %109#0, %109#1, %110#0, %110#1 : vector<2x2xf32>
      nvgpu.device_async_wait %99#8 {numGroups = 2 : i32}
      gpu.barrier memfence [#gpu.address_space<workgroup>]
      %112 = arith.muli %0, %c32 overflow<nsw> : index
      %113 = arith.addi %112, %5 overflow<nsw> : index
      %114 = vector.load %99#11[%113, %7] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %115 = arith.addi %7, %c8 overflow<nsw> : index
      %116 = vector.load %99#11[%113, %115] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %117 = arith.addi %7, %c16 overflow<nsw> : index
      %118 = vector.load %99#11[%113, %117] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %119 = arith.addi %7, %c24 overflow<nsw> : index
      %120 = vector.load %99#11[%113, %119] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %121 = arith.addi %7, %c32 overflow<nsw> : index
      %122 = vector.load %99#11[%113, %121] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %123 = arith.addi %7, %c40 overflow<nsw> : index
      %124 = vector.load %99#11[%113, %123] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %125 = arith.addi %7, %c48 overflow<nsw> : index
      %126 = vector.load %99#11[%113, %125] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %127 = arith.addi %7, %c56 overflow<nsw> : index
      %128 = vector.load %99#11[%113, %127] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %129 = arith.addi %7, %c64 overflow<nsw> : index
      %130 = vector.load %99#11[%113, %129] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %131 = arith.addi %7, %c72 overflow<nsw> : index
      %132 = vector.load %99#11[%113, %131] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %133 = arith.addi %7, %c80 overflow<nsw> : index
      %134 = vector.load %99#11[%113, %133] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %135 = arith.addi %7, %c88 overflow<nsw> : index
      %136 = vector.load %99#11[%113, %135] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %137 = arith.addi %7, %c96 overflow<nsw> : index
      %138 = vector.load %99#11[%113, %137] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %139 = arith.addi %7, %c104 overflow<nsw> : index
      %140 = vector.load %99#11[%113, %139] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %141 = arith.addi %7, %c112 overflow<nsw> : index
      %142 = vector.load %99#11[%113, %141] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %143 = arith.addi %7, %c120 overflow<nsw> : index
      %144 = vector.load %99#11[%113, %143] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %145 = arith.addi %112, %c8 overflow<nsw> : index
      %146 = arith.addi %145, %5 overflow<nsw> : index
      %147 = vector.load %99#11[%146, %7] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %148 = vector.load %99#11[%146, %115] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %149:2 = vector.to_elements %114 : vector<2xf16>
      %150:2 = vector.to_elements %147 : vector<2xf16>
      %151:2 = vector.to_elements %116 : vector<2xf16>
      %152:2 = vector.to_elements %148 : vector<2xf16>
      %153 = vector.from_elements %149#0, %149#1, %150#0, %150#1, %151#0, %151#1, %152#0, %152#1 : vector<4x2xf16>
      %154 = vector.load %99#11[%146, %117] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %155 = vector.load %99#11[%146, %119] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %156:2 = vector.to_elements %118 : vector<2xf16>
      %157:2 = vector.to_elements %154 : vector<2xf16>
      %158:2 = vector.to_elements %120 : vector<2xf16>
      %159:2 = vector.to_elements %155 : vector<2xf16>
      %160 = vector.from_elements %156#0, %156#1, %157#0, %157#1, %158#0, %158#1, %159#0, %159#1 : vector<4x2xf16>
      %161 = vector.load %99#11[%146, %121] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %162 = vector.load %99#11[%146, %123] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %163:2 = vector.to_elements %122 : vector<2xf16>
      %164:2 = vector.to_elements %161 : vector<2xf16>
      %165:2 = vector.to_elements %124 : vector<2xf16>
      %166:2 = vector.to_elements %162 : vector<2xf16>
      %167 = vector.from_elements %163#0, %163#1, %164#0, %164#1, %165#0, %165#1, %166#0, %166#1 : vector<4x2xf16>
      %168 = vector.load %99#11[%146, %125] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %169 = vector.load %99#11[%146, %127] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %170:2 = vector.to_elements %126 : vector<2xf16>
      %171:2 = vector.to_elements %168 : vector<2xf16>
      %172:2 = vector.to_elements %128 : vector<2xf16>
      %173:2 = vector.to_elements %169 : vector<2xf16>
      %174 = vector.from_elements %170#0, %170#1, %171#0, %171#1, %172#0, %172#1, %173#0, %173#1 : vector<4x2xf16>
      %175 = vector.load %99#11[%146, %129] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %176 = vector.load %99#11[%146, %131] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %177:2 = vector.to_elements %130 : vector<2xf16>
      %178:2 = vector.to_elements %175 : vector<2xf16>
      %179:2 = vector.to_elements %132 : vector<2xf16>
      %180:2 = vector.to_elements %176 : vector<2xf16>
      %181 = vector.from_elements %177#0, %177#1, %178#0, %178#1, %179#0, %179#1, %180#0, %180#1 : vector<4x2xf16>
      %182 = vector.load %99#11[%146, %133] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %183 = vector.load %99#11[%146, %135] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %184:2 = vector.to_elements %134 : vector<2xf16>
      %185:2 = vector.to_elements %182 : vector<2xf16>
      %186:2 = vector.to_elements %136 : vector<2xf16>
      %187:2 = vector.to_elements %183 : vector<2xf16>
      %188 = vector.from_elements %184#0, %184#1, %185#0, %185#1, %186#0, %186#1, %187#0, %187#1 : vector<4x2xf16>
      %189 = vector.load %99#11[%146, %137] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %190 = vector.load %99#11[%146, %139] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %191:2 = vector.to_elements %138 : vector<2xf16>
      %192:2 = vector.to_elements %189 : vector<2xf16>
      %193:2 = vector.to_elements %140 : vector<2xf16>
      %194:2 = vector.to_elements %190 : vector<2xf16>
      %195 = vector.from_elements %191#0, %191#1, %192#0, %192#1, %193#0, %193#1, %194#0, %194#1 : vector<4x2xf16>
      %196 = vector.load %99#11[%146, %141] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %197 = vector.load %99#11[%146, %143] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %198:2 = vector.to_elements %142 : vector<2xf16>
      %199:2 = vector.to_elements %196 : vector<2xf16>
      %200:2 = vector.to_elements %144 : vector<2xf16>
      %201:2 = vector.to_elements %197 : vector<2xf16>
      %202 = vector.from_elements %198#0, %198#1, %199#0, %199#1, %200#0, %200#1, %201#0, %201#1 : vector<4x2xf16>
      %203 = arith.muli %0, %c2 overflow<nsw> : index
      %204 = arith.addi %203, %c1 : index
      %205 = arith.muli %204, %c16 overflow<nsw> : index
      %206 = arith.addi %205, %5 overflow<nsw> : index
      %207 = vector.load %99#11[%206, %7] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %208 = vector.load %99#11[%206, %115] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %209 = vector.load %99#11[%206, %117] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %210 = vector.load %99#11[%206, %119] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %211 = vector.load %99#11[%206, %121] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %212 = vector.load %99#11[%206, %123] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %213 = vector.load %99#11[%206, %125] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %214 = vector.load %99#11[%206, %127] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %215 = vector.load %99#11[%206, %129] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %216 = vector.load %99#11[%206, %131] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %217 = vector.load %99#11[%206, %133] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %218 = vector.load %99#11[%206, %135] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %219 = vector.load %99#11[%206, %137] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %220 = vector.load %99#11[%206, %139] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %221 = vector.load %99#11[%206, %141] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %222 = vector.load %99#11[%206, %143] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %223 = arith.addi %205, %c8 overflow<nsw> : index
      %224 = arith.addi %223, %5 overflow<nsw> : index
      %225 = vector.load %99#11[%224, %7] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %226 = vector.load %99#11[%224, %115] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %227:2 = vector.to_elements %207 : vector<2xf16>
      %228:2 = vector.to_elements %225 : vector<2xf16>
      %229:2 = vector.to_elements %208 : vector<2xf16>
      %230:2 = vector.to_elements %226 : vector<2xf16>
      %231 = vector.from_elements %227#0, %227#1, %228#0, %228#1, %229#0, %229#1, %230#0, %230#1 : vector<4x2xf16>
      %232 = vector.load %99#11[%224, %117] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %233 = vector.load %99#11[%224, %119] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %234:2 = vector.to_elements %209 : vector<2xf16>
      %235:2 = vector.to_elements %232 : vector<2xf16>
      %236:2 = vector.to_elements %210 : vector<2xf16>
      %237:2 = vector.to_elements %233 : vector<2xf16>
      %238 = vector.from_elements %234#0, %234#1, %235#0, %235#1, %236#0, %236#1, %237#0, %237#1 : vector<4x2xf16>
      %239 = vector.load %99#11[%224, %121] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %240 = vector.load %99#11[%224, %123] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %241:2 = vector.to_elements %211 : vector<2xf16>
      %242:2 = vector.to_elements %239 : vector<2xf16>
      %243:2 = vector.to_elements %212 : vector<2xf16>
      %244:2 = vector.to_elements %240 : vector<2xf16>
      %245 = vector.from_elements %241#0, %241#1, %242#0, %242#1, %243#0, %243#1, %244#0, %244#1 : vector<4x2xf16>
      %246 = vector.load %99#11[%224, %125] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %247 = vector.load %99#11[%224, %127] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %248:2 = vector.to_elements %213 : vector<2xf16>
      %249:2 = vector.to_elements %246 : vector<2xf16>
      %250:2 = vector.to_elements %214 : vector<2xf16>
      %251:2 = vector.to_elements %247 : vector<2xf16>
      %252 = vector.from_elements %248#0, %248#1, %249#0, %249#1, %250#0, %250#1, %251#0, %251#1 : vector<4x2xf16>
      %253 = vector.load %99#11[%224, %129] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %254 = vector.load %99#11[%224, %131] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %255:2 = vector.to_elements %215 : vector<2xf16>
      %256:2 = vector.to_elements %253 : vector<2xf16>
      %257:2 = vector.to_elements %216 : vector<2xf16>
      %258:2 = vector.to_elements %254 : vector<2xf16>
      %259 = vector.from_elements %255#0, %255#1, %256#0, %256#1, %257#0, %257#1, %258#0, %258#1 : vector<4x2xf16>
      %260 = vector.load %99#11[%224, %133] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %261 = vector.load %99#11[%224, %135] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %262:2 = vector.to_elements %217 : vector<2xf16>
      %263:2 = vector.to_elements %260 : vector<2xf16>
      %264:2 = vector.to_elements %218 : vector<2xf16>
      %265:2 = vector.to_elements %261 : vector<2xf16>
      %266 = vector.from_elements %262#0, %262#1, %263#0, %263#1, %264#0, %264#1, %265#0, %265#1 : vector<4x2xf16>
      %267 = vector.load %99#11[%224, %137] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %268 = vector.load %99#11[%224, %139] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %269:2 = vector.to_elements %219 : vector<2xf16>
      %270:2 = vector.to_elements %267 : vector<2xf16>
      %271:2 = vector.to_elements %220 : vector<2xf16>
      %272:2 = vector.to_elements %268 : vector<2xf16>
      %273 = vector.from_elements %269#0, %269#1, %270#0, %270#1, %271#0, %271#1, %272#0, %272#1 : vector<4x2xf16>
      %274 = vector.load %99#11[%224, %141] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %275 = vector.load %99#11[%224, %143] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %276:2 = vector.to_elements %221 : vector<2xf16>
      %277:2 = vector.to_elements %274 : vector<2xf16>
      %278:2 = vector.to_elements %222 : vector<2xf16>
      %279:2 = vector.to_elements %275 : vector<2xf16>
      %280 = vector.from_elements %276#0, %276#1, %277#0, %277#1, %278#0, %278#1, %279#0, %279#1 : vector<4x2xf16>
      %281 = arith.muli %2, %c16 overflow<nsw> : index
      %282 = arith.addi %281, %5 overflow<nsw> : index
      %283 = vector.load %99#14[%282, %7] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %284 = vector.load %99#14[%282, %115] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %285:2 = vector.to_elements %283 : vector<2xf16>
      %286:2 = vector.to_elements %284 : vector<2xf16>
      %287 = vector.from_elements %285#0, %285#1, %286#0, %286#1 : vector<2x2xf16>
      %288 = vector.load %99#14[%282, %117] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %289 = vector.load %99#14[%282, %119] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %290:2 = vector.to_elements %288 : vector<2xf16>
      %291:2 = vector.to_elements %289 : vector<2xf16>
      %292 = vector.from_elements %290#0, %290#1, %291#0, %291#1 : vector<2x2xf16>
      %293 = vector.load %99#14[%282, %121] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %294 = vector.load %99#14[%282, %123] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %295:2 = vector.to_elements %293 : vector<2xf16>
      %296:2 = vector.to_elements %294 : vector<2xf16>
      %297 = vector.from_elements %295#0, %295#1, %296#0, %296#1 : vector<2x2xf16>
      %298 = vector.load %99#14[%282, %125] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %299 = vector.load %99#14[%282, %127] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %300:2 = vector.to_elements %298 : vector<2xf16>
      %301:2 = vector.to_elements %299 : vector<2xf16>
      %302 = vector.from_elements %300#0, %300#1, %301#0, %301#1 : vector<2x2xf16>
      %303 = vector.load %99#14[%282, %129] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %304 = vector.load %99#14[%282, %131] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %305:2 = vector.to_elements %303 : vector<2xf16>
      %306:2 = vector.to_elements %304 : vector<2xf16>
      %307 = vector.from_elements %305#0, %305#1, %306#0, %306#1 : vector<2x2xf16>
      %308 = vector.load %99#14[%282, %133] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %309 = vector.load %99#14[%282, %135] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %310:2 = vector.to_elements %308 : vector<2xf16>
      %311:2 = vector.to_elements %309 : vector<2xf16>
      %312 = vector.from_elements %310#0, %310#1, %311#0, %311#1 : vector<2x2xf16>
      %313 = vector.load %99#14[%282, %137] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %314 = vector.load %99#14[%282, %139] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %315:2 = vector.to_elements %313 : vector<2xf16>
      %316:2 = vector.to_elements %314 : vector<2xf16>
      %317 = vector.from_elements %315#0, %315#1, %316#0, %316#1 : vector<2x2xf16>
      %318 = vector.load %99#14[%282, %141] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %319 = vector.load %99#14[%282, %143] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %320:2 = vector.to_elements %318 : vector<2xf16>
      %321:2 = vector.to_elements %319 : vector<2xf16>
      %322 = vector.from_elements %320#0, %320#1, %321#0, %321#1 : vector<2x2xf16>
      %323 = arith.muli %2, %c2 overflow<nsw> : index
      %324 = arith.addi %323, %c1 : index
      %325 = arith.muli %324, %c8 overflow<nsw> : index
      %326 = arith.addi %325, %5 overflow<nsw> : index
      %327 = vector.load %99#14[%326, %7] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %328 = vector.load %99#14[%326, %115] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %329:2 = vector.to_elements %327 : vector<2xf16>
      %330:2 = vector.to_elements %328 : vector<2xf16>
      %331 = vector.from_elements %329#0, %329#1, %330#0, %330#1 : vector<2x2xf16>
      %332 = vector.load %99#14[%326, %117] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %333 = vector.load %99#14[%326, %119] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %334:2 = vector.to_elements %332 : vector<2xf16>
      %335:2 = vector.to_elements %333 : vector<2xf16>
      %336 = vector.from_elements %334#0, %334#1, %335#0, %335#1 : vector<2x2xf16>
      %337 = vector.load %99#14[%326, %121] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %338 = vector.load %99#14[%326, %123] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %339:2 = vector.to_elements %337 : vector<2xf16>
      %340:2 = vector.to_elements %338 : vector<2xf16>
      %341 = vector.from_elements %339#0, %339#1, %340#0, %340#1 : vector<2x2xf16>
      %342 = vector.load %99#14[%326, %125] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %343 = vector.load %99#14[%326, %127] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %344:2 = vector.to_elements %342 : vector<2xf16>
      %345:2 = vector.to_elements %343 : vector<2xf16>
      %346 = vector.from_elements %344#0, %344#1, %345#0, %345#1 : vector<2x2xf16>
      %347 = vector.load %99#14[%326, %129] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %348 = vector.load %99#14[%326, %131] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %349:2 = vector.to_elements %347 : vector<2xf16>
      %350:2 = vector.to_elements %348 : vector<2xf16>
      %351 = vector.from_elements %349#0, %349#1, %350#0, %350#1 : vector<2x2xf16>
      %352 = vector.load %99#14[%326, %133] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %353 = vector.load %99#14[%326, %135] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %354:2 = vector.to_elements %352 : vector<2xf16>
      %355:2 = vector.to_elements %353 : vector<2xf16>
      %356 = vector.from_elements %354#0, %354#1, %355#0, %355#1 : vector<2x2xf16>
      %357 = vector.load %99#14[%326, %137] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %358 = vector.load %99#14[%326, %139] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %359:2 = vector.to_elements %357 : vector<2xf16>
      %360:2 = vector.to_elements %358 : vector<2xf16>
      %361 = vector.from_elements %359#0, %359#1, %360#0, %360#1 : vector<2x2xf16>
      %362 = vector.load %99#14[%326, %141] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %363 = vector.load %99#14[%326, %143] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %364:2 = vector.to_elements %362 : vector<2xf16>
      %365:2 = vector.to_elements %363 : vector<2xf16>
      %366 = vector.from_elements %364#0, %364#1, %365#0, %365#1 : vector<2x2xf16>
      %367 = nvgpu.mma.sync(%153, %287, %102) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %368 = nvgpu.mma.sync(%153, %331, %105) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %369 = nvgpu.mma.sync(%231, %287, %108) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %370 = nvgpu.mma.sync(%231, %331, %111) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %371 = nvgpu.mma.sync(%160, %292, %367) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %372 = nvgpu.mma.sync(%160, %336, %368) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %373 = nvgpu.mma.sync(%238, %292, %369) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %374 = nvgpu.mma.sync(%238, %336, %370) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %375 = nvgpu.mma.sync(%167, %297, %371) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %376 = nvgpu.mma.sync(%167, %341, %372) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %377 = nvgpu.mma.sync(%245, %297, %373) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %378 = nvgpu.mma.sync(%245, %341, %374) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %379 = nvgpu.mma.sync(%174, %302, %375) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %380 = nvgpu.mma.sync(%174, %346, %376) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %381 = nvgpu.mma.sync(%252, %302, %377) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %382 = nvgpu.mma.sync(%252, %346, %378) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %383 = nvgpu.mma.sync(%181, %307, %379) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %384 = nvgpu.mma.sync(%181, %351, %380) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %385 = nvgpu.mma.sync(%259, %307, %381) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %386 = nvgpu.mma.sync(%259, %351, %382) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %387 = nvgpu.mma.sync(%188, %312, %383) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %388 = nvgpu.mma.sync(%188, %356, %384) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %389 = nvgpu.mma.sync(%266, %312, %385) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %390 = nvgpu.mma.sync(%266, %356, %386) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %391 = nvgpu.mma.sync(%195, %317, %387) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %392 = nvgpu.mma.sync(%195, %361, %388) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %393 = nvgpu.mma.sync(%273, %317, %389) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %394 = nvgpu.mma.sync(%273, %361, %390) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %395 = nvgpu.mma.sync(%202, %322, %391) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %396 = vector.extract %395[0] : vector<2xf32> from vector<2x2xf32>
      %397 = vector.extract %395[1] : vector<2xf32> from vector<2x2xf32>
      %398 = nvgpu.mma.sync(%202, %366, %392) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %399 = vector.extract %398[0] : vector<2xf32> from vector<2x2xf32>
      %400 = vector.extract %398[1] : vector<2xf32> from vector<2x2xf32>
      %401 = nvgpu.mma.sync(%280, %322, %393) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %402 = vector.extract %401[0] : vector<2xf32> from vector<2x2xf32>
      %403 = vector.extract %401[1] : vector<2xf32> from vector<2x2xf32>
      %404 = nvgpu.mma.sync(%280, %366, %394) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %405 = vector.extract %404[0] : vector<2xf32> from vector<2x2xf32>
      %406 = vector.extract %404[1] : vector<2xf32> from vector<2x2xf32>
      %407:2 = vector.to_elements %396 : vector<2xf32>
      %408:2 = vector.to_elements %397 : vector<2xf32>
      %409 = vector.from_elements %407#0, %407#1, %408#0, %408#1 : vector<2x2xf32>
      %410:2 = vector.to_elements %399 : vector<2xf32>
      %411:2 = vector.to_elements %400 : vector<2xf32>
      %412 = vector.from_elements %410#0, %410#1, %411#0, %411#1 : vector<2x2xf32>
      %413:2 = vector.to_elements %402 : vector<2xf32>
      %414:2 = vector.to_elements %403 : vector<2xf32>
      %415 = vector.from_elements %413#0, %413#1, %414#0, %414#1 : vector<2x2xf32>
      %416:2 = vector.to_elements %405 : vector<2xf32>
      %417:2 = vector.to_elements %406 : vector<2xf32>
      %418 = vector.from_elements %416#0, %416#1, %417#0, %417#1 : vector<2x2xf32>
      nvgpu.device_async_wait %99#9 {numGroups = 1 : i32}
      gpu.barrier memfence [#gpu.address_space<workgroup>]
      %419 = vector.load %99#12[%113, %7] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %420 = vector.load %99#12[%113, %115] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %421 = vector.load %99#12[%113, %117] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %422 = vector.load %99#12[%113, %119] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %423 = vector.load %99#12[%113, %121] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %424 = vector.load %99#12[%113, %123] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %425 = vector.load %99#12[%113, %125] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %426 = vector.load %99#12[%113, %127] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %427 = vector.load %99#12[%113, %129] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %428 = vector.load %99#12[%113, %131] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %429 = vector.load %99#12[%113, %133] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %430 = vector.load %99#12[%113, %135] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %431 = vector.load %99#12[%113, %137] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %432 = vector.load %99#12[%113, %139] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %433 = vector.load %99#12[%113, %141] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %434 = vector.load %99#12[%113, %143] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %435 = vector.load %99#12[%146, %7] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %436 = vector.load %99#12[%146, %115] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %437:2 = vector.to_elements %419 : vector<2xf16>
      %438:2 = vector.to_elements %435 : vector<2xf16>
      %439:2 = vector.to_elements %420 : vector<2xf16>
      %440:2 = vector.to_elements %436 : vector<2xf16>
      %441 = vector.from_elements %437#0, %437#1, %438#0, %438#1, %439#0, %439#1, %440#0, %440#1 : vector<4x2xf16>
      %442 = vector.load %99#12[%146, %117] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %443 = vector.load %99#12[%146, %119] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %444:2 = vector.to_elements %421 : vector<2xf16>
      %445:2 = vector.to_elements %442 : vector<2xf16>
      %446:2 = vector.to_elements %422 : vector<2xf16>
      %447:2 = vector.to_elements %443 : vector<2xf16>
      %448 = vector.from_elements %444#0, %444#1, %445#0, %445#1, %446#0, %446#1, %447#0, %447#1 : vector<4x2xf16>
      %449 = vector.load %99#12[%146, %121] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %450 = vector.load %99#12[%146, %123] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %451:2 = vector.to_elements %423 : vector<2xf16>
      %452:2 = vector.to_elements %449 : vector<2xf16>
      %453:2 = vector.to_elements %424 : vector<2xf16>
      %454:2 = vector.to_elements %450 : vector<2xf16>
      %455 = vector.from_elements %451#0, %451#1, %452#0, %452#1, %453#0, %453#1, %454#0, %454#1 : vector<4x2xf16>
      %456 = vector.load %99#12[%146, %125] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %457 = vector.load %99#12[%146, %127] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %458:2 = vector.to_elements %425 : vector<2xf16>
      %459:2 = vector.to_elements %456 : vector<2xf16>
      %460:2 = vector.to_elements %426 : vector<2xf16>
      %461:2 = vector.to_elements %457 : vector<2xf16>
      %462 = vector.from_elements %458#0, %458#1, %459#0, %459#1, %460#0, %460#1, %461#0, %461#1 : vector<4x2xf16>
      %463 = vector.load %99#12[%146, %129] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %464 = vector.load %99#12[%146, %131] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %465:2 = vector.to_elements %427 : vector<2xf16>
      %466:2 = vector.to_elements %463 : vector<2xf16>
      %467:2 = vector.to_elements %428 : vector<2xf16>
      %468:2 = vector.to_elements %464 : vector<2xf16>
      %469 = vector.from_elements %465#0, %465#1, %466#0, %466#1, %467#0, %467#1, %468#0, %468#1 : vector<4x2xf16>
      %470 = vector.load %99#12[%146, %133] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %471 = vector.load %99#12[%146, %135] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %472:2 = vector.to_elements %429 : vector<2xf16>
      %473:2 = vector.to_elements %470 : vector<2xf16>
      %474:2 = vector.to_elements %430 : vector<2xf16>
      %475:2 = vector.to_elements %471 : vector<2xf16>
      %476 = vector.from_elements %472#0, %472#1, %473#0, %473#1, %474#0, %474#1, %475#0, %475#1 : vector<4x2xf16>
      %477 = vector.load %99#12[%146, %137] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %478 = vector.load %99#12[%146, %139] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %479:2 = vector.to_elements %431 : vector<2xf16>
      %480:2 = vector.to_elements %477 : vector<2xf16>
      %481:2 = vector.to_elements %432 : vector<2xf16>
      %482:2 = vector.to_elements %478 : vector<2xf16>
      %483 = vector.from_elements %479#0, %479#1, %480#0, %480#1, %481#0, %481#1, %482#0, %482#1 : vector<4x2xf16>
      %484 = vector.load %99#12[%146, %141] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %485 = vector.load %99#12[%146, %143] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %486:2 = vector.to_elements %433 : vector<2xf16>
      %487:2 = vector.to_elements %484 : vector<2xf16>
      %488:2 = vector.to_elements %434 : vector<2xf16>
      %489:2 = vector.to_elements %485 : vector<2xf16>
      %490 = vector.from_elements %486#0, %486#1, %487#0, %487#1, %488#0, %488#1, %489#0, %489#1 : vector<4x2xf16>
      %491 = vector.load %99#12[%206, %7] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %492 = vector.load %99#12[%206, %115] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %493 = vector.load %99#12[%206, %117] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %494 = vector.load %99#12[%206, %119] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %495 = vector.load %99#12[%206, %121] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %496 = vector.load %99#12[%206, %123] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %497 = vector.load %99#12[%206, %125] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %498 = vector.load %99#12[%206, %127] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %499 = vector.load %99#12[%206, %129] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %500 = vector.load %99#12[%206, %131] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %501 = vector.load %99#12[%206, %133] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %502 = vector.load %99#12[%206, %135] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %503 = vector.load %99#12[%206, %137] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %504 = vector.load %99#12[%206, %139] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %505 = vector.load %99#12[%206, %141] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %506 = vector.load %99#12[%206, %143] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %507 = vector.load %99#12[%224, %7] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %508 = vector.load %99#12[%224, %115] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %509:2 = vector.to_elements %491 : vector<2xf16>
      %510:2 = vector.to_elements %507 : vector<2xf16>
      %511:2 = vector.to_elements %492 : vector<2xf16>
      %512:2 = vector.to_elements %508 : vector<2xf16>
      %513 = vector.from_elements %509#0, %509#1, %510#0, %510#1, %511#0, %511#1, %512#0, %512#1 : vector<4x2xf16>
      %514 = vector.load %99#12[%224, %117] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %515 = vector.load %99#12[%224, %119] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %516:2 = vector.to_elements %493 : vector<2xf16>
      %517:2 = vector.to_elements %514 : vector<2xf16>
      %518:2 = vector.to_elements %494 : vector<2xf16>
      %519:2 = vector.to_elements %515 : vector<2xf16>
      %520 = vector.from_elements %516#0, %516#1, %517#0, %517#1, %518#0, %518#1, %519#0, %519#1 : vector<4x2xf16>
      %521 = vector.load %99#12[%224, %121] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %522 = vector.load %99#12[%224, %123] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %523:2 = vector.to_elements %495 : vector<2xf16>
      %524:2 = vector.to_elements %521 : vector<2xf16>
      %525:2 = vector.to_elements %496 : vector<2xf16>
      %526:2 = vector.to_elements %522 : vector<2xf16>
      %527 = vector.from_elements %523#0, %523#1, %524#0, %524#1, %525#0, %525#1, %526#0, %526#1 : vector<4x2xf16>
      %528 = vector.load %99#12[%224, %125] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %529 = vector.load %99#12[%224, %127] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %530:2 = vector.to_elements %497 : vector<2xf16>
      %531:2 = vector.to_elements %528 : vector<2xf16>
      %532:2 = vector.to_elements %498 : vector<2xf16>
      %533:2 = vector.to_elements %529 : vector<2xf16>
      %534 = vector.from_elements %530#0, %530#1, %531#0, %531#1, %532#0, %532#1, %533#0, %533#1 : vector<4x2xf16>
      %535 = vector.load %99#12[%224, %129] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %536 = vector.load %99#12[%224, %131] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %537:2 = vector.to_elements %499 : vector<2xf16>
      %538:2 = vector.to_elements %535 : vector<2xf16>
      %539:2 = vector.to_elements %500 : vector<2xf16>
      %540:2 = vector.to_elements %536 : vector<2xf16>
      %541 = vector.from_elements %537#0, %537#1, %538#0, %538#1, %539#0, %539#1, %540#0, %540#1 : vector<4x2xf16>
      %542 = vector.load %99#12[%224, %133] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %543 = vector.load %99#12[%224, %135] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %544:2 = vector.to_elements %501 : vector<2xf16>
      %545:2 = vector.to_elements %542 : vector<2xf16>
      %546:2 = vector.to_elements %502 : vector<2xf16>
      %547:2 = vector.to_elements %543 : vector<2xf16>
      %548 = vector.from_elements %544#0, %544#1, %545#0, %545#1, %546#0, %546#1, %547#0, %547#1 : vector<4x2xf16>
      %549 = vector.load %99#12[%224, %137] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %550 = vector.load %99#12[%224, %139] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %551:2 = vector.to_elements %503 : vector<2xf16>
      %552:2 = vector.to_elements %549 : vector<2xf16>
      %553:2 = vector.to_elements %504 : vector<2xf16>
      %554:2 = vector.to_elements %550 : vector<2xf16>
      %555 = vector.from_elements %551#0, %551#1, %552#0, %552#1, %553#0, %553#1, %554#0, %554#1 : vector<4x2xf16>
      %556 = vector.load %99#12[%224, %141] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %557 = vector.load %99#12[%224, %143] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %558:2 = vector.to_elements %505 : vector<2xf16>
      %559:2 = vector.to_elements %556 : vector<2xf16>
      %560:2 = vector.to_elements %506 : vector<2xf16>
      %561:2 = vector.to_elements %557 : vector<2xf16>
      %562 = vector.from_elements %558#0, %558#1, %559#0, %559#1, %560#0, %560#1, %561#0, %561#1 : vector<4x2xf16>
      %563 = vector.load %99#15[%282, %7] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %564 = vector.load %99#15[%282, %115] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %565:2 = vector.to_elements %563 : vector<2xf16>
      %566:2 = vector.to_elements %564 : vector<2xf16>
      %567 = vector.from_elements %565#0, %565#1, %566#0, %566#1 : vector<2x2xf16>
      %568 = vector.load %99#15[%282, %117] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %569 = vector.load %99#15[%282, %119] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %570:2 = vector.to_elements %568 : vector<2xf16>
      %571:2 = vector.to_elements %569 : vector<2xf16>
      %572 = vector.from_elements %570#0, %570#1, %571#0, %571#1 : vector<2x2xf16>
      %573 = vector.load %99#15[%282, %121] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %574 = vector.load %99#15[%282, %123] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %575:2 = vector.to_elements %573 : vector<2xf16>
      %576:2 = vector.to_elements %574 : vector<2xf16>
      %577 = vector.from_elements %575#0, %575#1, %576#0, %576#1 : vector<2x2xf16>
      %578 = vector.load %99#15[%282, %125] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %579 = vector.load %99#15[%282, %127] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %580:2 = vector.to_elements %578 : vector<2xf16>
      %581:2 = vector.to_elements %579 : vector<2xf16>
      %582 = vector.from_elements %580#0, %580#1, %581#0, %581#1 : vector<2x2xf16>
      %583 = vector.load %99#15[%282, %129] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %584 = vector.load %99#15[%282, %131] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %585:2 = vector.to_elements %583 : vector<2xf16>
      %586:2 = vector.to_elements %584 : vector<2xf16>
      %587 = vector.from_elements %585#0, %585#1, %586#0, %586#1 : vector<2x2xf16>
      %588 = vector.load %99#15[%282, %133] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %589 = vector.load %99#15[%282, %135] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %590:2 = vector.to_elements %588 : vector<2xf16>
      %591:2 = vector.to_elements %589 : vector<2xf16>
      %592 = vector.from_elements %590#0, %590#1, %591#0, %591#1 : vector<2x2xf16>
      %593 = vector.load %99#15[%282, %137] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %594 = vector.load %99#15[%282, %139] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %595:2 = vector.to_elements %593 : vector<2xf16>
      %596:2 = vector.to_elements %594 : vector<2xf16>
      %597 = vector.from_elements %595#0, %595#1, %596#0, %596#1 : vector<2x2xf16>
      %598 = vector.load %99#15[%282, %141] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %599 = vector.load %99#15[%282, %143] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %600:2 = vector.to_elements %598 : vector<2xf16>
      %601:2 = vector.to_elements %599 : vector<2xf16>
      %602 = vector.from_elements %600#0, %600#1, %601#0, %601#1 : vector<2x2xf16>
      %603 = vector.load %99#15[%326, %7] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %604 = vector.load %99#15[%326, %115] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %605:2 = vector.to_elements %603 : vector<2xf16>
      %606:2 = vector.to_elements %604 : vector<2xf16>
      %607 = vector.from_elements %605#0, %605#1, %606#0, %606#1 : vector<2x2xf16>
      %608 = vector.load %99#15[%326, %117] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %609 = vector.load %99#15[%326, %119] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %610:2 = vector.to_elements %608 : vector<2xf16>
      %611:2 = vector.to_elements %609 : vector<2xf16>
      %612 = vector.from_elements %610#0, %610#1, %611#0, %611#1 : vector<2x2xf16>
      %613 = vector.load %99#15[%326, %121] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %614 = vector.load %99#15[%326, %123] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %615:2 = vector.to_elements %613 : vector<2xf16>
      %616:2 = vector.to_elements %614 : vector<2xf16>
      %617 = vector.from_elements %615#0, %615#1, %616#0, %616#1 : vector<2x2xf16>
      %618 = vector.load %99#15[%326, %125] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %619 = vector.load %99#15[%326, %127] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %620:2 = vector.to_elements %618 : vector<2xf16>
      %621:2 = vector.to_elements %619 : vector<2xf16>
      %622 = vector.from_elements %620#0, %620#1, %621#0, %621#1 : vector<2x2xf16>
      %623 = vector.load %99#15[%326, %129] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %624 = vector.load %99#15[%326, %131] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %625:2 = vector.to_elements %623 : vector<2xf16>
      %626:2 = vector.to_elements %624 : vector<2xf16>
      %627 = vector.from_elements %625#0, %625#1, %626#0, %626#1 : vector<2x2xf16>
      %628 = vector.load %99#15[%326, %133] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %629 = vector.load %99#15[%326, %135] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %630:2 = vector.to_elements %628 : vector<2xf16>
      %631:2 = vector.to_elements %629 : vector<2xf16>
      %632 = vector.from_elements %630#0, %630#1, %631#0, %631#1 : vector<2x2xf16>
      %633 = vector.load %99#15[%326, %137] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %634 = vector.load %99#15[%326, %139] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %635:2 = vector.to_elements %633 : vector<2xf16>
      %636:2 = vector.to_elements %634 : vector<2xf16>
      %637 = vector.from_elements %635#0, %635#1, %636#0, %636#1 : vector<2x2xf16>
      %638 = vector.load %99#15[%326, %141] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %639 = vector.load %99#15[%326, %143] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %640:2 = vector.to_elements %638 : vector<2xf16>
      %641:2 = vector.to_elements %639 : vector<2xf16>
      %642 = vector.from_elements %640#0, %640#1, %641#0, %641#1 : vector<2x2xf16>
      %643 = nvgpu.mma.sync(%441, %567, %409) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %644 = nvgpu.mma.sync(%441, %607, %412) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %645 = nvgpu.mma.sync(%513, %567, %415) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %646 = nvgpu.mma.sync(%513, %607, %418) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %647 = nvgpu.mma.sync(%448, %572, %643) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %648 = nvgpu.mma.sync(%448, %612, %644) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %649 = nvgpu.mma.sync(%520, %572, %645) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %650 = nvgpu.mma.sync(%520, %612, %646) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %651 = nvgpu.mma.sync(%455, %577, %647) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %652 = nvgpu.mma.sync(%455, %617, %648) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %653 = nvgpu.mma.sync(%527, %577, %649) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %654 = nvgpu.mma.sync(%527, %617, %650) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %655 = nvgpu.mma.sync(%462, %582, %651) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %656 = nvgpu.mma.sync(%462, %622, %652) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %657 = nvgpu.mma.sync(%534, %582, %653) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %658 = nvgpu.mma.sync(%534, %622, %654) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %659 = nvgpu.mma.sync(%469, %587, %655) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %660 = nvgpu.mma.sync(%469, %627, %656) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %661 = nvgpu.mma.sync(%541, %587, %657) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %662 = nvgpu.mma.sync(%541, %627, %658) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %663 = nvgpu.mma.sync(%476, %592, %659) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %664 = nvgpu.mma.sync(%476, %632, %660) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %665 = nvgpu.mma.sync(%548, %592, %661) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %666 = nvgpu.mma.sync(%548, %632, %662) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %667 = nvgpu.mma.sync(%483, %597, %663) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %668 = nvgpu.mma.sync(%483, %637, %664) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %669 = nvgpu.mma.sync(%555, %597, %665) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %670 = nvgpu.mma.sync(%555, %637, %666) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %671 = nvgpu.mma.sync(%490, %602, %667) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %672 = vector.extract %671[0] : vector<2xf32> from vector<2x2xf32>
      %673 = vector.extract %671[1] : vector<2xf32> from vector<2x2xf32>
      %674 = nvgpu.mma.sync(%490, %642, %668) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %675 = vector.extract %674[0] : vector<2xf32> from vector<2x2xf32>
      %676 = vector.extract %674[1] : vector<2xf32> from vector<2x2xf32>
      %677 = nvgpu.mma.sync(%562, %602, %669) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %678 = vector.extract %677[0] : vector<2xf32> from vector<2x2xf32>
      %679 = vector.extract %677[1] : vector<2xf32> from vector<2x2xf32>
      %680 = nvgpu.mma.sync(%562, %642, %670) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %681 = vector.extract %680[0] : vector<2xf32> from vector<2x2xf32>
      %682 = vector.extract %680[1] : vector<2xf32> from vector<2x2xf32>
      %683:2 = vector.to_elements %672 : vector<2xf32>
      %684:2 = vector.to_elements %673 : vector<2xf32>
      %685 = vector.from_elements %683#0, %683#1, %684#0, %684#1 : vector<2x2xf32>
      %686:2 = vector.to_elements %675 : vector<2xf32>
      %687:2 = vector.to_elements %676 : vector<2xf32>
      %688 = vector.from_elements %686#0, %686#1, %687#0, %687#1 : vector<2x2xf32>
      %689:2 = vector.to_elements %678 : vector<2xf32>
      %690:2 = vector.to_elements %679 : vector<2xf32>
      %691 = vector.from_elements %689#0, %689#1, %690#0, %690#1 : vector<2x2xf32>
      %692:2 = vector.to_elements %681 : vector<2xf32>
      %693:2 = vector.to_elements %682 : vector<2xf32>
      %694 = vector.from_elements %692#0, %692#1, %693#0, %693#1 : vector<2x2xf32>
      nvgpu.device_async_wait %99#10 {numGroups = 0 : i32}
      gpu.barrier memfence [#gpu.address_space<workgroup>]
      %695 = vector.load %99#13[%113, %7] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %696 = vector.load %99#13[%113, %115] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %697 = vector.load %99#13[%113, %117] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %698 = vector.load %99#13[%113, %119] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %699 = vector.load %99#13[%113, %121] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %700 = vector.load %99#13[%113, %123] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %701 = vector.load %99#13[%113, %125] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %702 = vector.load %99#13[%113, %127] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %703 = vector.load %99#13[%113, %129] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %704 = vector.load %99#13[%113, %131] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %705 = vector.load %99#13[%113, %133] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %706 = vector.load %99#13[%113, %135] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %707 = vector.load %99#13[%113, %137] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %708 = vector.load %99#13[%113, %139] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %709 = vector.load %99#13[%113, %141] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %710 = vector.load %99#13[%113, %143] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %711 = vector.load %99#13[%146, %7] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %712 = vector.load %99#13[%146, %115] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %713:2 = vector.to_elements %695 : vector<2xf16>
      %714:2 = vector.to_elements %711 : vector<2xf16>
      %715:2 = vector.to_elements %696 : vector<2xf16>
      %716:2 = vector.to_elements %712 : vector<2xf16>
      %717 = vector.from_elements %713#0, %713#1, %714#0, %714#1, %715#0, %715#1, %716#0, %716#1 : vector<4x2xf16>
      %718 = vector.load %99#13[%146, %117] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %719 = vector.load %99#13[%146, %119] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %720:2 = vector.to_elements %697 : vector<2xf16>
      %721:2 = vector.to_elements %718 : vector<2xf16>
      %722:2 = vector.to_elements %698 : vector<2xf16>
      %723:2 = vector.to_elements %719 : vector<2xf16>
      %724 = vector.from_elements %720#0, %720#1, %721#0, %721#1, %722#0, %722#1, %723#0, %723#1 : vector<4x2xf16>
      %725 = vector.load %99#13[%146, %121] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %726 = vector.load %99#13[%146, %123] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %727:2 = vector.to_elements %699 : vector<2xf16>
      %728:2 = vector.to_elements %725 : vector<2xf16>
      %729:2 = vector.to_elements %700 : vector<2xf16>
      %730:2 = vector.to_elements %726 : vector<2xf16>
      %731 = vector.from_elements %727#0, %727#1, %728#0, %728#1, %729#0, %729#1, %730#0, %730#1 : vector<4x2xf16>
      %732 = vector.load %99#13[%146, %125] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %733 = vector.load %99#13[%146, %127] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %734:2 = vector.to_elements %701 : vector<2xf16>
      %735:2 = vector.to_elements %732 : vector<2xf16>
      %736:2 = vector.to_elements %702 : vector<2xf16>
      %737:2 = vector.to_elements %733 : vector<2xf16>
      %738 = vector.from_elements %734#0, %734#1, %735#0, %735#1, %736#0, %736#1, %737#0, %737#1 : vector<4x2xf16>
      %739 = vector.load %99#13[%146, %129] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %740 = vector.load %99#13[%146, %131] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %741:2 = vector.to_elements %703 : vector<2xf16>
      %742:2 = vector.to_elements %739 : vector<2xf16>
      %743:2 = vector.to_elements %704 : vector<2xf16>
      %744:2 = vector.to_elements %740 : vector<2xf16>
      %745 = vector.from_elements %741#0, %741#1, %742#0, %742#1, %743#0, %743#1, %744#0, %744#1 : vector<4x2xf16>
      %746 = vector.load %99#13[%146, %133] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %747 = vector.load %99#13[%146, %135] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %748:2 = vector.to_elements %705 : vector<2xf16>
      %749:2 = vector.to_elements %746 : vector<2xf16>
      %750:2 = vector.to_elements %706 : vector<2xf16>
      %751:2 = vector.to_elements %747 : vector<2xf16>
      %752 = vector.from_elements %748#0, %748#1, %749#0, %749#1, %750#0, %750#1, %751#0, %751#1 : vector<4x2xf16>
      %753 = vector.load %99#13[%146, %137] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %754 = vector.load %99#13[%146, %139] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %755:2 = vector.to_elements %707 : vector<2xf16>
      %756:2 = vector.to_elements %753 : vector<2xf16>
      %757:2 = vector.to_elements %708 : vector<2xf16>
      %758:2 = vector.to_elements %754 : vector<2xf16>
      %759 = vector.from_elements %755#0, %755#1, %756#0, %756#1, %757#0, %757#1, %758#0, %758#1 : vector<4x2xf16>
      %760 = vector.load %99#13[%146, %141] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %761 = vector.load %99#13[%146, %143] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %762:2 = vector.to_elements %709 : vector<2xf16>
      %763:2 = vector.to_elements %760 : vector<2xf16>
      %764:2 = vector.to_elements %710 : vector<2xf16>
      %765:2 = vector.to_elements %761 : vector<2xf16>
      %766 = vector.from_elements %762#0, %762#1, %763#0, %763#1, %764#0, %764#1, %765#0, %765#1 : vector<4x2xf16>
      %767 = vector.load %99#13[%206, %7] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %768 = vector.load %99#13[%206, %115] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %769 = vector.load %99#13[%206, %117] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %770 = vector.load %99#13[%206, %119] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %771 = vector.load %99#13[%206, %121] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %772 = vector.load %99#13[%206, %123] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %773 = vector.load %99#13[%206, %125] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %774 = vector.load %99#13[%206, %127] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %775 = vector.load %99#13[%206, %129] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %776 = vector.load %99#13[%206, %131] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %777 = vector.load %99#13[%206, %133] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %778 = vector.load %99#13[%206, %135] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %779 = vector.load %99#13[%206, %137] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %780 = vector.load %99#13[%206, %139] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %781 = vector.load %99#13[%206, %141] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %782 = vector.load %99#13[%206, %143] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %783 = vector.load %99#13[%224, %7] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %784 = vector.load %99#13[%224, %115] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %785:2 = vector.to_elements %767 : vector<2xf16>
      %786:2 = vector.to_elements %783 : vector<2xf16>
      %787:2 = vector.to_elements %768 : vector<2xf16>
      %788:2 = vector.to_elements %784 : vector<2xf16>
      %789 = vector.from_elements %785#0, %785#1, %786#0, %786#1, %787#0, %787#1, %788#0, %788#1 : vector<4x2xf16>
      %790 = vector.load %99#13[%224, %117] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %791 = vector.load %99#13[%224, %119] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %792:2 = vector.to_elements %769 : vector<2xf16>
      %793:2 = vector.to_elements %790 : vector<2xf16>
      %794:2 = vector.to_elements %770 : vector<2xf16>
      %795:2 = vector.to_elements %791 : vector<2xf16>
      %796 = vector.from_elements %792#0, %792#1, %793#0, %793#1, %794#0, %794#1, %795#0, %795#1 : vector<4x2xf16>
      %797 = vector.load %99#13[%224, %121] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %798 = vector.load %99#13[%224, %123] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %799:2 = vector.to_elements %771 : vector<2xf16>
      %800:2 = vector.to_elements %797 : vector<2xf16>
      %801:2 = vector.to_elements %772 : vector<2xf16>
      %802:2 = vector.to_elements %798 : vector<2xf16>
      %803 = vector.from_elements %799#0, %799#1, %800#0, %800#1, %801#0, %801#1, %802#0, %802#1 : vector<4x2xf16>
      %804 = vector.load %99#13[%224, %125] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %805 = vector.load %99#13[%224, %127] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %806:2 = vector.to_elements %773 : vector<2xf16>
      %807:2 = vector.to_elements %804 : vector<2xf16>
      %808:2 = vector.to_elements %774 : vector<2xf16>
      %809:2 = vector.to_elements %805 : vector<2xf16>
      %810 = vector.from_elements %806#0, %806#1, %807#0, %807#1, %808#0, %808#1, %809#0, %809#1 : vector<4x2xf16>
      %811 = vector.load %99#13[%224, %129] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %812 = vector.load %99#13[%224, %131] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %813:2 = vector.to_elements %775 : vector<2xf16>
      %814:2 = vector.to_elements %811 : vector<2xf16>
      %815:2 = vector.to_elements %776 : vector<2xf16>
      %816:2 = vector.to_elements %812 : vector<2xf16>
      %817 = vector.from_elements %813#0, %813#1, %814#0, %814#1, %815#0, %815#1, %816#0, %816#1 : vector<4x2xf16>
      %818 = vector.load %99#13[%224, %133] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %819 = vector.load %99#13[%224, %135] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %820:2 = vector.to_elements %777 : vector<2xf16>
      %821:2 = vector.to_elements %818 : vector<2xf16>
      %822:2 = vector.to_elements %778 : vector<2xf16>
      %823:2 = vector.to_elements %819 : vector<2xf16>
      %824 = vector.from_elements %820#0, %820#1, %821#0, %821#1, %822#0, %822#1, %823#0, %823#1 : vector<4x2xf16>
      %825 = vector.load %99#13[%224, %137] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %826 = vector.load %99#13[%224, %139] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %827:2 = vector.to_elements %779 : vector<2xf16>
      %828:2 = vector.to_elements %825 : vector<2xf16>
      %829:2 = vector.to_elements %780 : vector<2xf16>
      %830:2 = vector.to_elements %826 : vector<2xf16>
      %831 = vector.from_elements %827#0, %827#1, %828#0, %828#1, %829#0, %829#1, %830#0, %830#1 : vector<4x2xf16>
      %832 = vector.load %99#13[%224, %141] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %833 = vector.load %99#13[%224, %143] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %834:2 = vector.to_elements %781 : vector<2xf16>
      %835:2 = vector.to_elements %832 : vector<2xf16>
      %836:2 = vector.to_elements %782 : vector<2xf16>
      %837:2 = vector.to_elements %833 : vector<2xf16>
      %838 = vector.from_elements %834#0, %834#1, %835#0, %835#1, %836#0, %836#1, %837#0, %837#1 : vector<4x2xf16>
      %839 = vector.load %99#16[%282, %7] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %840 = vector.load %99#16[%282, %115] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %841:2 = vector.to_elements %839 : vector<2xf16>
      %842:2 = vector.to_elements %840 : vector<2xf16>
      %843 = vector.from_elements %841#0, %841#1, %842#0, %842#1 : vector<2x2xf16>
      %844 = vector.load %99#16[%282, %117] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %845 = vector.load %99#16[%282, %119] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %846:2 = vector.to_elements %844 : vector<2xf16>
      %847:2 = vector.to_elements %845 : vector<2xf16>
      %848 = vector.from_elements %846#0, %846#1, %847#0, %847#1 : vector<2x2xf16>
      %849 = vector.load %99#16[%282, %121] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %850 = vector.load %99#16[%282, %123] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %851:2 = vector.to_elements %849 : vector<2xf16>
      %852:2 = vector.to_elements %850 : vector<2xf16>
      %853 = vector.from_elements %851#0, %851#1, %852#0, %852#1 : vector<2x2xf16>
      %854 = vector.load %99#16[%282, %125] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %855 = vector.load %99#16[%282, %127] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %856:2 = vector.to_elements %854 : vector<2xf16>
      %857:2 = vector.to_elements %855 : vector<2xf16>
      %858 = vector.from_elements %856#0, %856#1, %857#0, %857#1 : vector<2x2xf16>
      %859 = vector.load %99#16[%282, %129] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %860 = vector.load %99#16[%282, %131] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %861:2 = vector.to_elements %859 : vector<2xf16>
      %862:2 = vector.to_elements %860 : vector<2xf16>
      %863 = vector.from_elements %861#0, %861#1, %862#0, %862#1 : vector<2x2xf16>
      %864 = vector.load %99#16[%282, %133] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %865 = vector.load %99#16[%282, %135] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %866:2 = vector.to_elements %864 : vector<2xf16>
      %867:2 = vector.to_elements %865 : vector<2xf16>
      %868 = vector.from_elements %866#0, %866#1, %867#0, %867#1 : vector<2x2xf16>
      %869 = vector.load %99#16[%282, %137] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %870 = vector.load %99#16[%282, %139] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %871:2 = vector.to_elements %869 : vector<2xf16>
      %872:2 = vector.to_elements %870 : vector<2xf16>
      %873 = vector.from_elements %871#0, %871#1, %872#0, %872#1 : vector<2x2xf16>
      %874 = vector.load %99#16[%282, %141] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %875 = vector.load %99#16[%282, %143] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %876:2 = vector.to_elements %874 : vector<2xf16>
      %877:2 = vector.to_elements %875 : vector<2xf16>
      %878 = vector.from_elements %876#0, %876#1, %877#0, %877#1 : vector<2x2xf16>
      %879 = vector.load %99#16[%326, %7] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %880 = vector.load %99#16[%326, %115] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %881:2 = vector.to_elements %879 : vector<2xf16>
      %882:2 = vector.to_elements %880 : vector<2xf16>
      %883 = vector.from_elements %881#0, %881#1, %882#0, %882#1 : vector<2x2xf16>
      %884 = vector.load %99#16[%326, %117] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %885 = vector.load %99#16[%326, %119] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %886:2 = vector.to_elements %884 : vector<2xf16>
      %887:2 = vector.to_elements %885 : vector<2xf16>
      %888 = vector.from_elements %886#0, %886#1, %887#0, %887#1 : vector<2x2xf16>
      %889 = vector.load %99#16[%326, %121] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %890 = vector.load %99#16[%326, %123] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %891:2 = vector.to_elements %889 : vector<2xf16>
      %892:2 = vector.to_elements %890 : vector<2xf16>
      %893 = vector.from_elements %891#0, %891#1, %892#0, %892#1 : vector<2x2xf16>
      %894 = vector.load %99#16[%326, %125] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %895 = vector.load %99#16[%326, %127] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %896:2 = vector.to_elements %894 : vector<2xf16>
      %897:2 = vector.to_elements %895 : vector<2xf16>
      %898 = vector.from_elements %896#0, %896#1, %897#0, %897#1 : vector<2x2xf16>
      %899 = vector.load %99#16[%326, %129] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %900 = vector.load %99#16[%326, %131] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %901:2 = vector.to_elements %899 : vector<2xf16>
      %902:2 = vector.to_elements %900 : vector<2xf16>
      %903 = vector.from_elements %901#0, %901#1, %902#0, %902#1 : vector<2x2xf16>
      %904 = vector.load %99#16[%326, %133] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %905 = vector.load %99#16[%326, %135] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %906:2 = vector.to_elements %904 : vector<2xf16>
      %907:2 = vector.to_elements %905 : vector<2xf16>
      %908 = vector.from_elements %906#0, %906#1, %907#0, %907#1 : vector<2x2xf16>
      %909 = vector.load %99#16[%326, %137] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %910 = vector.load %99#16[%326, %139] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %911:2 = vector.to_elements %909 : vector<2xf16>
      %912:2 = vector.to_elements %910 : vector<2xf16>
      %913 = vector.from_elements %911#0, %911#1, %912#0, %912#1 : vector<2x2xf16>
      %914 = vector.load %99#16[%326, %141] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %915 = vector.load %99#16[%326, %143] : memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<2xf16>
      %916:2 = vector.to_elements %914 : vector<2xf16>
      %917:2 = vector.to_elements %915 : vector<2xf16>
      %918 = vector.from_elements %916#0, %916#1, %917#0, %917#1 : vector<2x2xf16>
      %919 = nvgpu.mma.sync(%717, %843, %685) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %920 = nvgpu.mma.sync(%717, %883, %688) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %921 = nvgpu.mma.sync(%789, %843, %691) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %922 = nvgpu.mma.sync(%789, %883, %694) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %923 = nvgpu.mma.sync(%724, %848, %919) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %924 = nvgpu.mma.sync(%724, %888, %920) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %925 = nvgpu.mma.sync(%796, %848, %921) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %926 = nvgpu.mma.sync(%796, %888, %922) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %927 = nvgpu.mma.sync(%731, %853, %923) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %928 = nvgpu.mma.sync(%731, %893, %924) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %929 = nvgpu.mma.sync(%803, %853, %925) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %930 = nvgpu.mma.sync(%803, %893, %926) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %931 = nvgpu.mma.sync(%738, %858, %927) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %932 = nvgpu.mma.sync(%738, %898, %928) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %933 = nvgpu.mma.sync(%810, %858, %929) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %934 = nvgpu.mma.sync(%810, %898, %930) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %935 = nvgpu.mma.sync(%745, %863, %931) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %936 = nvgpu.mma.sync(%745, %903, %932) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %937 = nvgpu.mma.sync(%817, %863, %933) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %938 = nvgpu.mma.sync(%817, %903, %934) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %939 = nvgpu.mma.sync(%752, %868, %935) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %940 = nvgpu.mma.sync(%752, %908, %936) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %941 = nvgpu.mma.sync(%824, %868, %937) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %942 = nvgpu.mma.sync(%824, %908, %938) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %943 = nvgpu.mma.sync(%759, %873, %939) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %944 = nvgpu.mma.sync(%759, %913, %940) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %945 = nvgpu.mma.sync(%831, %873, %941) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %946 = nvgpu.mma.sync(%831, %913, %942) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %947 = nvgpu.mma.sync(%766, %878, %943) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %948 = vector.extract %947[0] : vector<2xf32> from vector<2x2xf32>
      %949 = vector.extract %947[1] : vector<2xf32> from vector<2x2xf32>
      %950 = nvgpu.mma.sync(%766, %918, %944) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %951 = vector.extract %950[0] : vector<2xf32> from vector<2x2xf32>
      %952 = vector.extract %950[1] : vector<2xf32> from vector<2x2xf32>
      %953 = nvgpu.mma.sync(%838, %878, %945) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %954 = vector.extract %953[0] : vector<2xf32> from vector<2x2xf32>
      %955 = vector.extract %953[1] : vector<2xf32> from vector<2x2xf32>
      %956 = nvgpu.mma.sync(%838, %918, %946) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %957 = vector.extract %956[0] : vector<2xf32> from vector<2x2xf32>
      %958 = vector.extract %956[1] : vector<2xf32> from vector<2x2xf32>
      %959 = arith.muli %block_id_x, %c4 overflow<nsw> : index
      %960 = arith.addi %323, %959 : index
      %961 = arith.muli %960, %c8 overflow<nsw> : index
      %962 = arith.addi %961, %7 overflow<nsw> : index
      vector.store %948, %assume_align_2[%113, %962] : memref<64x64xf32, #gpu.address_space<global>>, vector<2xf32>
      %963 = arith.addi %324, %959 : index
      %964 = arith.muli %963, %c8 overflow<nsw> : index
      %965 = arith.addi %964, %7 overflow<nsw> : index
      vector.store %951, %assume_align_2[%113, %965] : memref<64x64xf32, #gpu.address_space<global>>, vector<2xf32>
      vector.store %949, %assume_align_2[%146, %962] : memref<64x64xf32, #gpu.address_space<global>>, vector<2xf32>
      vector.store %952, %assume_align_2[%146, %965] : memref<64x64xf32, #gpu.address_space<global>>, vector<2xf32>
      vector.store %954, %assume_align_2[%206, %962] : memref<64x64xf32, #gpu.address_space<global>>, vector<2xf32>
      vector.store %957, %assume_align_2[%206, %965] : memref<64x64xf32, #gpu.address_space<global>>, vector<2xf32>
      vector.store %955, %assume_align_2[%224, %962] : memref<64x64xf32, #gpu.address_space<global>>, vector<2xf32>
      vector.store %958, %assume_align_2[%224, %965] : memref<64x64xf32, #gpu.address_space<global>>, vector<2xf32>
      gpu.barrier memfence [#gpu.address_space<workgroup>]
      memref.dealloc %alloc_0 : memref<3x64x128xf16, #gpu.address_space<workgroup>>
      memref.dealloc %alloc : memref<3x32x128xf16, #gpu.address_space<workgroup>>
      gpu.return
    }
  }
}

