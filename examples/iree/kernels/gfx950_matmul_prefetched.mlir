module {
  gpu.module @kernels {
    gpu.func @matmul_dispatch_0_matmul_64x64x1024_f16xf16xf32(%arg0: memref<64x1024xf16, #gpu.address_space<global>> {llvm.noalias}, %arg1: memref<64x1024xf16, #gpu.address_space<global>> {llvm.noalias}, %arg2: memref<64x64xf32, #gpu.address_space<global>> {llvm.noalias}) kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
      %c9728_i32 = arith.constant 9728 : i32
      %c9216_i32 = arith.constant 9216 : i32
      %c8704_i32 = arith.constant 8704 : i32
      %c51_i32 = arith.constant 51 : i32
      %c50_i32 = arith.constant 50 : i32
      %c49_i32 = arith.constant 49 : i32
      %c48_i32 = arith.constant 48 : i32
      %c35_i32 = arith.constant 35 : i32
      %c34_i32 = arith.constant 34 : i32
      %c33_i32 = arith.constant 33 : i32
      %c19_i32 = arith.constant 19 : i32
      %c18_i32 = arith.constant 18 : i32
      %c17_i32 = arith.constant 17 : i32
      %c16_i32 = arith.constant 16 : i32
      %c3_i32 = arith.constant 3 : i32
      %c2_i32 = arith.constant 2 : i32
      %c1_i32 = arith.constant 1 : i32
      %c8192_i32 = arith.constant 8192 : i32
      %c4_i32 = arith.constant 4 : i32
      %c24_i32 = arith.constant 24 : i32
      %c6240_i32 = arith.constant 6240 : i32
      %c6208_i32 = arith.constant 6208 : i32
      %c6176_i32 = arith.constant 6176 : i32
      %c6144_i32 = arith.constant 6144 : i32
      %c4192_i32 = arith.constant 4192 : i32
      %c4160_i32 = arith.constant 4160 : i32
      %c4128_i32 = arith.constant 4128 : i32
      %c4096_i32 = arith.constant 4096 : i32
      %c2144_i32 = arith.constant 2144 : i32
      %c2112_i32 = arith.constant 2112 : i32
      %c2080_i32 = arith.constant 2080 : i32
      %c2048_i32 = arith.constant 2048 : i32
      %c96_i32 = arith.constant 96 : i32
      %c32_i32 = arith.constant 32 : i32
      %c1536_i32 = arith.constant 1536 : i32
      %c1024_i32 = arith.constant 1024 : i32
      %c512_i32 = arith.constant 512 : i32
      %c128_i32 = arith.constant 128 : i32
      %c8_i32 = arith.constant 8 : i32
      %c0_i32 = arith.constant 0 : i32
      %c64_i32 = arith.constant 64 : i32
      %c0 = arith.constant 0 : index
      %cst = arith.constant dense<0.000000e+00> : vector<4xf32>
      %alloc = memref.alloc() : memref<3x8192xf16, #gpu.address_space<workgroup>>
      %alloc_0 = memref.alloc() : memref<3x8192xf16, #gpu.address_space<workgroup>>
      %thread_id_x = gpu.thread_id x upper_bound 256
      %assume_align = memref.assume_alignment %arg0, 64 : memref<64x1024xf16, #gpu.address_space<global>>
      %0 = amdgpu.fat_raw_buffer_cast %assume_align resetOffset : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>
      %assume_align_1 = memref.assume_alignment %arg1, 64 : memref<64x1024xf16, #gpu.address_space<global>>
      %1 = amdgpu.fat_raw_buffer_cast %assume_align_1 resetOffset : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>
      %assume_align_2 = memref.assume_alignment %arg2, 64 : memref<64x64xf32, #gpu.address_space<global>>
      %2 = amdgpu.fat_raw_buffer_cast %assume_align_2 resetOffset : memref<64x64xf32, #gpu.address_space<global>> to memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>
      %3 = arith.index_castui %thread_id_x : index to i32
      %4 = arith.divui %3, %c64_i32 : i32
      %5 = arith.remui %3, %c64_i32 : i32
      %6 = arith.divui %5, %c16_i32 : i32
      %7 = arith.remui %5, %c16_i32 : i32
      %8 = arith.muli %6, %c4_i32 overflow<nsw> : i32
      %9 = arith.index_castui %8 : i32 to index
      %10 = arith.muli %6, %c8_i32 overflow<nsw> : i32
      %11 = arith.muli %5, %c8_i32 : i32
      %12 = arith.muli %4, %c2048_i32 overflow<nsw> : i32
      %13 = arith.addi %12, %11 : i32
      %14 = arith.remui %13, %c64_i32 : i32
      %15 = arith.divui %14, %c8_i32 : i32
      %16 = arith.divui %13, %c64_i32 : i32
      %17 = arith.remui %16, %c8_i32 : i32
      %18 = arith.xori %17, %15 : i32
      %19 = arith.muli %16, %c64_i32 overflow<nsw> : i32
      %20 = arith.muli %18, %c8_i32 overflow<nsw> : i32
      %21 = arith.addi %19, %20 : i32
      %22 = arith.subi %21, %12 : i32
      %23 = arith.floordivsi %22, %c128_i32 : i32
      %24 = arith.remsi %22, %c128_i32 : i32
      %25 = arith.index_cast %24 : i32 to index
      %26 = arith.cmpi slt, %24, %c0_i32 : i32
      %27 = arith.addi %24, %c128_i32 overflow<nsw> : i32
      %28 = arith.index_castui %27 : i32 to index
      %29 = arith.select %26, %28, %25 : index
      %30 = arith.addi %11, %c512_i32 : i32
      %31 = arith.addi %12, %30 : i32
      %32 = arith.remui %31, %c64_i32 : i32
      %33 = arith.divui %32, %c8_i32 : i32
      %34 = arith.divui %31, %c64_i32 : i32
      %35 = arith.remui %34, %c8_i32 : i32
      %36 = arith.xori %35, %33 : i32
      %37 = arith.muli %34, %c64_i32 overflow<nsw> : i32
      %38 = arith.muli %36, %c8_i32 overflow<nsw> : i32
      %39 = arith.addi %37, %38 : i32
      %40 = arith.subi %39, %12 : i32
      %41 = arith.floordivsi %40, %c128_i32 : i32
      %42 = arith.remsi %40, %c128_i32 : i32
      %43 = arith.index_cast %42 : i32 to index
      %44 = arith.cmpi slt, %42, %c0_i32 : i32
      %45 = arith.addi %42, %c128_i32 overflow<nsw> : i32
      %46 = arith.index_castui %45 : i32 to index
      %47 = arith.select %44, %46, %43 : index
      %48 = arith.addi %11, %c1024_i32 : i32
      %49 = arith.addi %12, %48 : i32
      %50 = arith.remui %49, %c64_i32 : i32
      %51 = arith.divui %50, %c8_i32 : i32
      %52 = arith.divui %49, %c64_i32 : i32
      %53 = arith.remui %52, %c8_i32 : i32
      %54 = arith.xori %53, %51 : i32
      %55 = arith.muli %52, %c64_i32 overflow<nsw> : i32
      %56 = arith.muli %54, %c8_i32 overflow<nsw> : i32
      %57 = arith.addi %55, %56 : i32
      %58 = arith.subi %57, %12 : i32
      %59 = arith.floordivsi %58, %c128_i32 : i32
      %60 = arith.remsi %58, %c128_i32 : i32
      %61 = arith.index_cast %60 : i32 to index
      %62 = arith.cmpi slt, %60, %c0_i32 : i32
      %63 = arith.addi %60, %c128_i32 overflow<nsw> : i32
      %64 = arith.index_castui %63 : i32 to index
      %65 = arith.select %62, %64, %61 : index
      %66 = arith.addi %11, %c1536_i32 : i32
      %67 = arith.addi %12, %66 : i32
      %68 = arith.remui %67, %c64_i32 : i32
      %69 = arith.divui %68, %c8_i32 : i32
      %70 = arith.divui %67, %c64_i32 : i32
      %71 = arith.remui %70, %c8_i32 : i32
      %72 = arith.xori %71, %69 : i32
      %73 = arith.muli %70, %c64_i32 overflow<nsw> : i32
      %74 = arith.muli %72, %c8_i32 overflow<nsw> : i32
      %75 = arith.addi %73, %74 : i32
      %76 = arith.subi %75, %12 : i32
      %77 = arith.floordivsi %76, %c128_i32 : i32
      %78 = arith.remsi %76, %c128_i32 : i32
      %79 = arith.index_cast %78 : i32 to index
      %80 = arith.cmpi slt, %78, %c0_i32 : i32
      %81 = arith.addi %78, %c128_i32 overflow<nsw> : i32
      %82 = arith.index_castui %81 : i32 to index
      %83 = arith.select %80, %82, %79 : index
      %subview = memref.subview %alloc_0[0, 0] [1, 8192] [1, 1] : memref<3x8192xf16, #gpu.address_space<workgroup>> to memref<8192xf16, strided<[1]>, #gpu.address_space<workgroup>>
      %subview_3 = memref.subview %alloc[0, 0] [1, 8192] [1, 1] : memref<3x8192xf16, #gpu.address_space<workgroup>> to memref<8192xf16, strided<[1]>, #gpu.address_space<workgroup>>
      %expand_shape = memref.expand_shape %subview [[0, 1]] output_shape [64, 128] : memref<8192xf16, strided<[1]>, #gpu.address_space<workgroup>> into memref<64x128xf16, #gpu.address_space<workgroup>>
      %cast = memref.cast %expand_shape : memref<64x128xf16, #gpu.address_space<workgroup>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %expand_shape_4 = memref.expand_shape %subview_3 [[0, 1]] output_shape [64, 128] : memref<8192xf16, strided<[1]>, #gpu.address_space<workgroup>> into memref<64x128xf16, #gpu.address_space<workgroup>>
      %cast_5 = memref.cast %expand_shape_4 : memref<64x128xf16, #gpu.address_space<workgroup>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %84 = arith.muli %4, %c16_i32 overflow<nsw> : i32
      %85 = arith.addi %23, %84 : i32
      %86 = arith.index_cast %85 : i32 to index
      %87 = arith.index_castui %12 : i32 to index
      %88 = arith.addi %41, %84 : i32
      %89 = arith.index_cast %88 : i32 to index
      %90 = arith.addi %59, %84 : i32
      %91 = arith.index_cast %90 : i32 to index
      %92 = arith.addi %77, %84 : i32
      %93 = arith.index_cast %92 : i32 to index
      %subview_6 = memref.subview %alloc_0[1, 0] [1, 8192] [1, 1] : memref<3x8192xf16, #gpu.address_space<workgroup>> to memref<8192xf16, strided<[1], offset: 8192>, #gpu.address_space<workgroup>>
      %subview_7 = memref.subview %alloc[1, 0] [1, 8192] [1, 1] : memref<3x8192xf16, #gpu.address_space<workgroup>> to memref<8192xf16, strided<[1], offset: 8192>, #gpu.address_space<workgroup>>
      %expand_shape_8 = memref.expand_shape %subview_6 [[0, 1]] output_shape [64, 128] : memref<8192xf16, strided<[1], offset: 8192>, #gpu.address_space<workgroup>> into memref<64x128xf16, strided<[128, 1], offset: 8192>, #gpu.address_space<workgroup>>
      %cast_9 = memref.cast %expand_shape_8 : memref<64x128xf16, strided<[128, 1], offset: 8192>, #gpu.address_space<workgroup>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %expand_shape_10 = memref.expand_shape %subview_7 [[0, 1]] output_shape [64, 128] : memref<8192xf16, strided<[1], offset: 8192>, #gpu.address_space<workgroup>> into memref<64x128xf16, strided<[128, 1], offset: 8192>, #gpu.address_space<workgroup>>
      %cast_11 = memref.cast %expand_shape_10 : memref<64x128xf16, strided<[128, 1], offset: 8192>, #gpu.address_space<workgroup>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      %94 = arith.index_cast %29 : index to i32
      %95 = arith.addi %94, %c128_i32 overflow<nsw> : i32
      %96 = arith.index_castui %95 : i32 to index
      %97 = arith.index_cast %47 : index to i32
      %98 = arith.addi %97, %c128_i32 overflow<nsw> : i32
      %99 = arith.index_castui %98 : i32 to index
      %100 = arith.index_cast %65 : index to i32
      %101 = arith.addi %100, %c128_i32 overflow<nsw> : i32
      %102 = arith.index_castui %101 : i32 to index
      %103 = arith.index_cast %83 : index to i32
      %104 = arith.addi %103, %c128_i32 overflow<nsw> : i32
      %105 = arith.index_castui %104 : i32 to index
      %106:2 = affine.delinearize_index %87 into (3, 8192) : index, index
      amdgpu.gather_to_lds async %0[%86, %29], %alloc[%106#0, %106#1] : vector<8xf16>, memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, memref<3x8192xf16, #gpu.address_space<workgroup>>
      %107 = arith.addi %12, %c512_i32 overflow<nsw> : i32
      %108 = arith.index_castui %107 : i32 to index
      %109:2 = affine.delinearize_index %108 into (3, 8192) : index, index
      amdgpu.gather_to_lds async %0[%89, %47], %alloc[%109#0, %109#1] : vector<8xf16>, memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, memref<3x8192xf16, #gpu.address_space<workgroup>>
      %110 = arith.addi %12, %c1024_i32 overflow<nsw> : i32
      %111 = arith.index_castui %110 : i32 to index
      %112:2 = affine.delinearize_index %111 into (3, 8192) : index, index
      amdgpu.gather_to_lds async %0[%91, %65], %alloc[%112#0, %112#1] : vector<8xf16>, memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, memref<3x8192xf16, #gpu.address_space<workgroup>>
      %113 = arith.addi %12, %c1536_i32 overflow<nsw> : i32
      %114 = arith.index_castui %113 : i32 to index
      %115:2 = affine.delinearize_index %114 into (3, 8192) : index, index
      amdgpu.gather_to_lds async %0[%93, %83], %alloc[%115#0, %115#1] : vector<8xf16>, memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, memref<3x8192xf16, #gpu.address_space<workgroup>>
      %116:2 = affine.delinearize_index %87 into (3, 8192) : index, index
      amdgpu.gather_to_lds async %1[%86, %29], %alloc_0[%116#0, %116#1] : vector<8xf16>, memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, memref<3x8192xf16, #gpu.address_space<workgroup>>
      %117:2 = affine.delinearize_index %108 into (3, 8192) : index, index
      amdgpu.gather_to_lds async %1[%89, %47], %alloc_0[%117#0, %117#1] : vector<8xf16>, memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, memref<3x8192xf16, #gpu.address_space<workgroup>>
      %118:2 = affine.delinearize_index %111 into (3, 8192) : index, index
      amdgpu.gather_to_lds async %1[%91, %65], %alloc_0[%118#0, %118#1] : vector<8xf16>, memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, memref<3x8192xf16, #gpu.address_space<workgroup>>
      %119:2 = affine.delinearize_index %114 into (3, 8192) : index, index
      amdgpu.gather_to_lds async %1[%93, %83], %alloc_0[%119#0, %119#1] : vector<8xf16>, memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, memref<3x8192xf16, #gpu.address_space<workgroup>>
      rocdl.asyncmark
      %120 = arith.addi %12, %c8192_i32 overflow<nsw> : i32
      %121 = arith.index_castui %120 : i32 to index
      %122:2 = affine.delinearize_index %121 into (3, 8192) : index, index
      amdgpu.gather_to_lds async %0[%86, %96], %alloc[%122#0, %122#1] : vector<8xf16>, memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, memref<3x8192xf16, #gpu.address_space<workgroup>>
      %123 = arith.addi %12, %c8704_i32 overflow<nsw> : i32
      %124 = arith.index_castui %123 : i32 to index
      %125:2 = affine.delinearize_index %124 into (3, 8192) : index, index
      amdgpu.gather_to_lds async %0[%89, %99], %alloc[%125#0, %125#1] : vector<8xf16>, memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, memref<3x8192xf16, #gpu.address_space<workgroup>>
      %126 = arith.addi %12, %c9216_i32 overflow<nsw> : i32
      %127 = arith.index_castui %126 : i32 to index
      %128:2 = affine.delinearize_index %127 into (3, 8192) : index, index
      amdgpu.gather_to_lds async %0[%91, %102], %alloc[%128#0, %128#1] : vector<8xf16>, memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, memref<3x8192xf16, #gpu.address_space<workgroup>>
      %129 = arith.addi %12, %c9728_i32 overflow<nsw> : i32
      %130 = arith.index_castui %129 : i32 to index
      %131:2 = affine.delinearize_index %130 into (3, 8192) : index, index
      amdgpu.gather_to_lds async %0[%93, %105], %alloc[%131#0, %131#1] : vector<8xf16>, memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, memref<3x8192xf16, #gpu.address_space<workgroup>>
      %132:2 = affine.delinearize_index %121 into (3, 8192) : index, index
      amdgpu.gather_to_lds async %1[%86, %96], %alloc_0[%132#0, %132#1] : vector<8xf16>, memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, memref<3x8192xf16, #gpu.address_space<workgroup>>
      %133:2 = affine.delinearize_index %124 into (3, 8192) : index, index
      amdgpu.gather_to_lds async %1[%89, %99], %alloc_0[%133#0, %133#1] : vector<8xf16>, memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, memref<3x8192xf16, #gpu.address_space<workgroup>>
      %134:2 = affine.delinearize_index %127 into (3, 8192) : index, index
      amdgpu.gather_to_lds async %1[%91, %102], %alloc_0[%134#0, %134#1] : vector<8xf16>, memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, memref<3x8192xf16, #gpu.address_space<workgroup>>
      %135:2 = affine.delinearize_index %130 into (3, 8192) : index, index
      amdgpu.gather_to_lds async %1[%93, %105], %alloc_0[%135#0, %135#1] : vector<8xf16>, memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, memref<3x8192xf16, #gpu.address_space<workgroup>>
      rocdl.asyncmark
      %136 = arith.muli %7, %c128_i32 overflow<nsw> : i32
      %137 = arith.addi %136, %10 overflow<nsw> : i32
      %138 = arith.remui %137, %c64_i32 : i32
      %139 = arith.divui %138, %c8_i32 : i32
      %140 = arith.divui %137, %c64_i32 : i32
      %141 = arith.remui %140, %c8_i32 : i32
      %142 = arith.xori %141, %139 : i32
      %143 = arith.muli %140, %c64_i32 overflow<nsw> : i32
      %144 = arith.muli %142, %c8_i32 overflow<nsw> : i32
      %145 = arith.addi %143, %144 : i32
      %146 = arith.subi %145, %137 : i32
      %147 = arith.index_castui %145 : i32 to index
      %148 = arith.addi %137, %c32_i32 overflow<nsw> : i32
      %149 = arith.remui %148, %c64_i32 : i32
      %150 = arith.divui %149, %c8_i32 : i32
      %151 = arith.divui %148, %c64_i32 : i32
      %152 = arith.remui %151, %c8_i32 : i32
      %153 = arith.xori %152, %150 : i32
      %154 = arith.muli %151, %c64_i32 overflow<nsw> : i32
      %155 = arith.muli %153, %c8_i32 overflow<nsw> : i32
      %156 = arith.addi %154, %155 : i32
      %157 = arith.subi %156, %148 : i32
      %158 = arith.index_castui %156 : i32 to index
      %159 = arith.addi %137, %c64_i32 overflow<nsw> : i32
      %160 = arith.remui %159, %c64_i32 : i32
      %161 = arith.divui %160, %c8_i32 : i32
      %162 = arith.divui %159, %c64_i32 : i32
      %163 = arith.remui %162, %c8_i32 : i32
      %164 = arith.xori %163, %161 : i32
      %165 = arith.muli %162, %c64_i32 overflow<nsw> : i32
      %166 = arith.muli %164, %c8_i32 overflow<nsw> : i32
      %167 = arith.addi %165, %166 : i32
      %168 = arith.subi %167, %159 : i32
      %169 = arith.index_castui %167 : i32 to index
      %170 = arith.addi %137, %c96_i32 overflow<nsw> : i32
      %171 = arith.remui %170, %c64_i32 : i32
      %172 = arith.divui %171, %c8_i32 : i32
      %173 = arith.divui %170, %c64_i32 : i32
      %174 = arith.remui %173, %c8_i32 : i32
      %175 = arith.xori %174, %172 : i32
      %176 = arith.muli %173, %c64_i32 overflow<nsw> : i32
      %177 = arith.muli %175, %c8_i32 overflow<nsw> : i32
      %178 = arith.addi %176, %177 : i32
      %179 = arith.subi %178, %170 : i32
      %180 = arith.index_castui %178 : i32 to index
      %181 = arith.addi %137, %c2048_i32 overflow<nsw> : i32
      %182 = arith.addi %181, %146 : i32
      %183 = arith.index_castui %182 : i32 to index
      %184 = arith.addi %137, %c2080_i32 overflow<nsw> : i32
      %185 = arith.addi %184, %157 : i32
      %186 = arith.index_castui %185 : i32 to index
      %187 = arith.addi %137, %c2112_i32 overflow<nsw> : i32
      %188 = arith.addi %187, %168 : i32
      %189 = arith.index_castui %188 : i32 to index
      %190 = arith.addi %137, %c2144_i32 overflow<nsw> : i32
      %191 = arith.addi %190, %179 : i32
      %192 = arith.index_castui %191 : i32 to index
      %193 = arith.addi %137, %c4096_i32 overflow<nsw> : i32
      %194 = arith.addi %193, %146 : i32
      %195 = arith.index_castui %194 : i32 to index
      %196 = arith.addi %137, %c4128_i32 overflow<nsw> : i32
      %197 = arith.addi %196, %157 : i32
      %198 = arith.index_castui %197 : i32 to index
      %199 = arith.addi %137, %c4160_i32 overflow<nsw> : i32
      %200 = arith.addi %199, %168 : i32
      %201 = arith.index_castui %200 : i32 to index
      %202 = arith.addi %137, %c4192_i32 overflow<nsw> : i32
      %203 = arith.addi %202, %179 : i32
      %204 = arith.index_castui %203 : i32 to index
      %205 = arith.addi %137, %c6144_i32 overflow<nsw> : i32
      %206 = arith.addi %205, %146 : i32
      %207 = arith.index_castui %206 : i32 to index
      %208 = arith.addi %137, %c6176_i32 overflow<nsw> : i32
      %209 = arith.addi %208, %157 : i32
      %210 = arith.index_castui %209 : i32 to index
      %211 = arith.addi %137, %c6208_i32 overflow<nsw> : i32
      %212 = arith.addi %211, %168 : i32
      %213 = arith.index_castui %212 : i32 to index
      %214 = arith.addi %137, %c6240_i32 overflow<nsw> : i32
      %215 = arith.addi %214, %179 : i32
      %216 = arith.index_castui %215 : i32 to index
      %217 = arith.addi %84, %7 overflow<nsw> : i32
      %218 = arith.index_castui %217 : i32 to index
      %219 = arith.muli %217, %c128_i32 overflow<nsw> : i32
      %220 = arith.addi %219, %10 overflow<nsw> : i32
      %221 = arith.remui %220, %c64_i32 : i32
      %222 = arith.divui %221, %c8_i32 : i32
      %223 = arith.divui %220, %c64_i32 : i32
      %224 = arith.remui %223, %c8_i32 : i32
      %225 = arith.xori %224, %222 : i32
      %226 = arith.muli %223, %c64_i32 overflow<nsw> : i32
      %227 = arith.muli %225, %c8_i32 overflow<nsw> : i32
      %228 = arith.addi %226, %227 : i32
      %229 = arith.index_castui %228 : i32 to index
      %230 = arith.addi %220, %c32_i32 overflow<nsw> : i32
      %231 = arith.remui %230, %c64_i32 : i32
      %232 = arith.divui %231, %c8_i32 : i32
      %233 = arith.divui %230, %c64_i32 : i32
      %234 = arith.remui %233, %c8_i32 : i32
      %235 = arith.xori %234, %232 : i32
      %236 = arith.muli %233, %c64_i32 overflow<nsw> : i32
      %237 = arith.muli %235, %c8_i32 overflow<nsw> : i32
      %238 = arith.addi %236, %237 : i32
      %239 = arith.index_castui %238 : i32 to index
      %240 = arith.addi %220, %c64_i32 overflow<nsw> : i32
      %241 = arith.remui %240, %c64_i32 : i32
      %242 = arith.divui %241, %c8_i32 : i32
      %243 = arith.divui %240, %c64_i32 : i32
      %244 = arith.remui %243, %c8_i32 : i32
      %245 = arith.xori %244, %242 : i32
      %246 = arith.muli %243, %c64_i32 overflow<nsw> : i32
      %247 = arith.muli %245, %c8_i32 overflow<nsw> : i32
      %248 = arith.addi %246, %247 : i32
      %249 = arith.index_castui %248 : i32 to index
      %250 = arith.addi %220, %c96_i32 overflow<nsw> : i32
      %251 = arith.remui %250, %c64_i32 : i32
      %252 = arith.divui %251, %c8_i32 : i32
      %253 = arith.divui %250, %c64_i32 : i32
      %254 = arith.remui %253, %c8_i32 : i32
      %255 = arith.xori %254, %252 : i32
      %256 = arith.muli %253, %c64_i32 overflow<nsw> : i32
      %257 = arith.muli %255, %c8_i32 overflow<nsw> : i32
      %258 = arith.addi %256, %257 : i32
      %259 = arith.index_castui %258 : i32 to index
      %260:8 = scf.for %arg3 = %c0_i32 to %c24_i32 step %c4_i32 iter_args(%arg4 = %cst, %arg5 = %cst, %arg6 = %cst, %arg7 = %cst, %arg8 = %cast, %arg9 = %cast_9, %arg10 = %cast_5, %arg11 = %cast_11) -> (vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>, memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>)  : i32 {
        %435 = arith.addi %arg3, %c8_i32 : i32
        %436 = arith.divui %435, %c4_i32 : i32
        %437 = arith.remui %436, %c3_i32 : i32
        %438 = arith.index_castui %437 : i32 to index
        %subview_12 = memref.subview %alloc_0[%438, 0] [1, 8192] [1, 1] : memref<3x8192xf16, #gpu.address_space<workgroup>> to memref<8192xf16, strided<[1], offset: ?>, #gpu.address_space<workgroup>>
        %subview_13 = memref.subview %alloc[%438, 0] [1, 8192] [1, 1] : memref<3x8192xf16, #gpu.address_space<workgroup>> to memref<8192xf16, strided<[1], offset: ?>, #gpu.address_space<workgroup>>
        %expand_shape_14 = memref.expand_shape %subview_12 [[0, 1]] output_shape [64, 128] : memref<8192xf16, strided<[1], offset: ?>, #gpu.address_space<workgroup>> into memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
        %expand_shape_15 = memref.expand_shape %subview_13 [[0, 1]] output_shape [64, 128] : memref<8192xf16, strided<[1], offset: ?>, #gpu.address_space<workgroup>> into memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
        gpu.barrier memfence [#gpu.address_space<workgroup>]
        %439 = arith.muli %435, %c32_i32 overflow<nsw> : i32
        %440 = arith.addi %94, %439 : i32
        %441 = arith.index_castui %440 : i32 to index
        %442 = arith.muli %437, %c8192_i32 overflow<nsw> : i32
        %443 = arith.addi %12, %442 overflow<nsw> : i32
        %444 = arith.index_castui %443 : i32 to index
        %445:2 = affine.delinearize_index %444 into (3, 8192) : index, index
        amdgpu.gather_to_lds async %0[%86, %441], %alloc[%445#0, %445#1] : vector<8xf16>, memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, memref<3x8192xf16, #gpu.address_space<workgroup>>
        %446 = arith.addi %97, %439 : i32
        %447 = arith.index_castui %446 : i32 to index
        %448 = arith.addi %443, %c512_i32 overflow<nsw> : i32
        %449 = arith.index_castui %448 : i32 to index
        %450:2 = affine.delinearize_index %449 into (3, 8192) : index, index
        amdgpu.gather_to_lds async %0[%89, %447], %alloc[%450#0, %450#1] : vector<8xf16>, memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, memref<3x8192xf16, #gpu.address_space<workgroup>>
        %451 = arith.addi %100, %439 : i32
        %452 = arith.index_castui %451 : i32 to index
        %453 = arith.addi %443, %c1024_i32 overflow<nsw> : i32
        %454 = arith.index_castui %453 : i32 to index
        %455:2 = affine.delinearize_index %454 into (3, 8192) : index, index
        amdgpu.gather_to_lds async %0[%91, %452], %alloc[%455#0, %455#1] : vector<8xf16>, memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, memref<3x8192xf16, #gpu.address_space<workgroup>>
        %456 = arith.addi %103, %439 : i32
        %457 = arith.index_castui %456 : i32 to index
        %458 = arith.addi %443, %c1536_i32 overflow<nsw> : i32
        %459 = arith.index_castui %458 : i32 to index
        %460:2 = affine.delinearize_index %459 into (3, 8192) : index, index
        amdgpu.gather_to_lds async %0[%93, %457], %alloc[%460#0, %460#1] : vector<8xf16>, memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, memref<3x8192xf16, #gpu.address_space<workgroup>>
        %461:2 = affine.delinearize_index %444 into (3, 8192) : index, index
        amdgpu.gather_to_lds async %1[%86, %441], %alloc_0[%461#0, %461#1] : vector<8xf16>, memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, memref<3x8192xf16, #gpu.address_space<workgroup>>
        %462:2 = affine.delinearize_index %449 into (3, 8192) : index, index
        amdgpu.gather_to_lds async %1[%89, %447], %alloc_0[%462#0, %462#1] : vector<8xf16>, memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, memref<3x8192xf16, #gpu.address_space<workgroup>>
        %463:2 = affine.delinearize_index %454 into (3, 8192) : index, index
        amdgpu.gather_to_lds async %1[%91, %452], %alloc_0[%463#0, %463#1] : vector<8xf16>, memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, memref<3x8192xf16, #gpu.address_space<workgroup>>
        %464:2 = affine.delinearize_index %459 into (3, 8192) : index, index
        amdgpu.gather_to_lds async %1[%93, %457], %alloc_0[%464#0, %464#1] : vector<8xf16>, memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, memref<3x8192xf16, #gpu.address_space<workgroup>>
        rocdl.asyncmark
        rocdl.wait.asyncmark 2
        gpu.barrier memfence [#gpu.address_space<workgroup>]
        %465:2 = affine.delinearize_index %147 into (128) : index, index
        %466 = vector.load %arg10[%465#0, %465#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
        %467:2 = affine.delinearize_index %158 into (128) : index, index
        %468 = vector.load %arg10[%467#0, %467#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
        %469:2 = affine.delinearize_index %169 into (128) : index, index
        %470 = vector.load %arg10[%469#0, %469#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
        %471:2 = affine.delinearize_index %180 into (128) : index, index
        %472 = vector.load %arg10[%471#0, %471#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
        %473:2 = affine.delinearize_index %183 into (128) : index, index
        %474 = vector.load %arg10[%473#0, %473#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
        %475:2 = affine.delinearize_index %186 into (128) : index, index
        %476 = vector.load %arg10[%475#0, %475#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
        %477:2 = affine.delinearize_index %189 into (128) : index, index
        %478 = vector.load %arg10[%477#0, %477#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
        %479:2 = affine.delinearize_index %192 into (128) : index, index
        %480 = vector.load %arg10[%479#0, %479#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
        %481:2 = affine.delinearize_index %195 into (128) : index, index
        %482 = vector.load %arg10[%481#0, %481#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
        %483:2 = affine.delinearize_index %198 into (128) : index, index
        %484 = vector.load %arg10[%483#0, %483#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
        %485:2 = affine.delinearize_index %201 into (128) : index, index
        %486 = vector.load %arg10[%485#0, %485#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
        %487:2 = affine.delinearize_index %204 into (128) : index, index
        %488 = vector.load %arg10[%487#0, %487#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
        %489:2 = affine.delinearize_index %207 into (128) : index, index
        %490 = vector.load %arg10[%489#0, %489#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
        %491:2 = affine.delinearize_index %210 into (128) : index, index
        %492 = vector.load %arg10[%491#0, %491#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
        %493:2 = affine.delinearize_index %213 into (128) : index, index
        %494 = vector.load %arg10[%493#0, %493#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
        %495:2 = affine.delinearize_index %216 into (128) : index, index
        %496 = vector.load %arg10[%495#0, %495#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
        %497:2 = affine.delinearize_index %229 into (128) : index, index
        %498 = vector.load %arg8[%497#0, %497#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
        %499:2 = affine.delinearize_index %239 into (128) : index, index
        %500 = vector.load %arg8[%499#0, %499#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
        %501:2 = affine.delinearize_index %249 into (128) : index, index
        %502 = vector.load %arg8[%501#0, %501#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
        %503:2 = affine.delinearize_index %259 into (128) : index, index
        %504 = vector.load %arg8[%503#0, %503#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
        %505 = amdgpu.mfma 16x16x32 %466 * %498 + %arg7 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %506 = amdgpu.mfma 16x16x32 %474 * %498 + %arg6 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %507 = amdgpu.mfma 16x16x32 %482 * %498 + %arg5 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %508 = amdgpu.mfma 16x16x32 %490 * %498 + %arg4 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %509 = amdgpu.mfma 16x16x32 %468 * %500 + %505 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %510 = amdgpu.mfma 16x16x32 %476 * %500 + %506 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %511 = amdgpu.mfma 16x16x32 %484 * %500 + %507 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %512 = amdgpu.mfma 16x16x32 %492 * %500 + %508 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %513 = amdgpu.mfma 16x16x32 %470 * %502 + %509 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %514 = amdgpu.mfma 16x16x32 %478 * %502 + %510 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %515 = amdgpu.mfma 16x16x32 %486 * %502 + %511 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %516 = amdgpu.mfma 16x16x32 %494 * %502 + %512 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %517 = amdgpu.mfma 16x16x32 %472 * %504 + %513 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %518 = amdgpu.mfma 16x16x32 %480 * %504 + %514 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %519 = amdgpu.mfma 16x16x32 %488 * %504 + %515 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %520 = amdgpu.mfma 16x16x32 %496 * %504 + %516 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        scf.yield %520, %519, %518, %517, %arg9, %expand_shape_14, %arg11, %expand_shape_15 : vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>, memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
      }
      rocdl.wait.asyncmark 0
      gpu.barrier memfence [#gpu.address_space<workgroup>]
      %261:2 = affine.delinearize_index %147 into (128) : index, index
      %262 = vector.load %260#6[%261#0, %261#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
      %263:2 = affine.delinearize_index %158 into (128) : index, index
      %264 = vector.load %260#6[%263#0, %263#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
      %265:2 = affine.delinearize_index %169 into (128) : index, index
      %266 = vector.load %260#6[%265#0, %265#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
      %267:2 = affine.delinearize_index %180 into (128) : index, index
      %268 = vector.load %260#6[%267#0, %267#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
      %269:2 = affine.delinearize_index %183 into (128) : index, index
      %270 = vector.load %260#6[%269#0, %269#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
      %271:2 = affine.delinearize_index %186 into (128) : index, index
      %272 = vector.load %260#6[%271#0, %271#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
      %273:2 = affine.delinearize_index %189 into (128) : index, index
      %274 = vector.load %260#6[%273#0, %273#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
      %275:2 = affine.delinearize_index %192 into (128) : index, index
      %276 = vector.load %260#6[%275#0, %275#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
      %277:2 = affine.delinearize_index %195 into (128) : index, index
      %278 = vector.load %260#6[%277#0, %277#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
      %279:2 = affine.delinearize_index %198 into (128) : index, index
      %280 = vector.load %260#6[%279#0, %279#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
      %281:2 = affine.delinearize_index %201 into (128) : index, index
      %282 = vector.load %260#6[%281#0, %281#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
      %283:2 = affine.delinearize_index %204 into (128) : index, index
      %284 = vector.load %260#6[%283#0, %283#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
      %285:2 = affine.delinearize_index %207 into (128) : index, index
      %286 = vector.load %260#6[%285#0, %285#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
      %287:2 = affine.delinearize_index %210 into (128) : index, index
      %288 = vector.load %260#6[%287#0, %287#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
      %289:2 = affine.delinearize_index %213 into (128) : index, index
      %290 = vector.load %260#6[%289#0, %289#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
      %291:2 = affine.delinearize_index %216 into (128) : index, index
      %292 = vector.load %260#6[%291#0, %291#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
      %293:2 = affine.delinearize_index %229 into (128) : index, index
      %294 = vector.load %260#4[%293#0, %293#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
      %295:2 = affine.delinearize_index %239 into (128) : index, index
      %296 = vector.load %260#4[%295#0, %295#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
      %297:2 = affine.delinearize_index %249 into (128) : index, index
      %298 = vector.load %260#4[%297#0, %297#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
      %299:2 = affine.delinearize_index %259 into (128) : index, index
      %300 = vector.load %260#4[%299#0, %299#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
      %301 = amdgpu.mfma 16x16x32 %262 * %294 + %260#3 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
      %302 = amdgpu.mfma 16x16x32 %270 * %294 + %260#2 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
      %303 = amdgpu.mfma 16x16x32 %278 * %294 + %260#1 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
      %304 = amdgpu.mfma 16x16x32 %286 * %294 + %260#0 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
      %305 = amdgpu.mfma 16x16x32 %264 * %296 + %301 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
      %306 = amdgpu.mfma 16x16x32 %272 * %296 + %302 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
      %307 = amdgpu.mfma 16x16x32 %280 * %296 + %303 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
      %308 = amdgpu.mfma 16x16x32 %288 * %296 + %304 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
      %309 = amdgpu.mfma 16x16x32 %266 * %298 + %305 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
      %310 = amdgpu.mfma 16x16x32 %274 * %298 + %306 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
      %311 = amdgpu.mfma 16x16x32 %282 * %298 + %307 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
      %312 = amdgpu.mfma 16x16x32 %290 * %298 + %308 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
      %313 = amdgpu.mfma 16x16x32 %268 * %300 + %309 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
      %314 = amdgpu.mfma 16x16x32 %276 * %300 + %310 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
      %315 = amdgpu.mfma 16x16x32 %284 * %300 + %311 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
      %316 = amdgpu.mfma 16x16x32 %292 * %300 + %312 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
      %317:2 = affine.delinearize_index %147 into (128) : index, index
      %318 = vector.load %260#7[%317#0, %317#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
      %319:2 = affine.delinearize_index %158 into (128) : index, index
      %320 = vector.load %260#7[%319#0, %319#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
      %321:2 = affine.delinearize_index %169 into (128) : index, index
      %322 = vector.load %260#7[%321#0, %321#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
      %323:2 = affine.delinearize_index %180 into (128) : index, index
      %324 = vector.load %260#7[%323#0, %323#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
      %325:2 = affine.delinearize_index %183 into (128) : index, index
      %326 = vector.load %260#7[%325#0, %325#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
      %327:2 = affine.delinearize_index %186 into (128) : index, index
      %328 = vector.load %260#7[%327#0, %327#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
      %329:2 = affine.delinearize_index %189 into (128) : index, index
      %330 = vector.load %260#7[%329#0, %329#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
      %331:2 = affine.delinearize_index %192 into (128) : index, index
      %332 = vector.load %260#7[%331#0, %331#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
      %333:2 = affine.delinearize_index %195 into (128) : index, index
      %334 = vector.load %260#7[%333#0, %333#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
      %335:2 = affine.delinearize_index %198 into (128) : index, index
      %336 = vector.load %260#7[%335#0, %335#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
      %337:2 = affine.delinearize_index %201 into (128) : index, index
      %338 = vector.load %260#7[%337#0, %337#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
      %339:2 = affine.delinearize_index %204 into (128) : index, index
      %340 = vector.load %260#7[%339#0, %339#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
      %341:2 = affine.delinearize_index %207 into (128) : index, index
      %342 = vector.load %260#7[%341#0, %341#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
      %343:2 = affine.delinearize_index %210 into (128) : index, index
      %344 = vector.load %260#7[%343#0, %343#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
      %345:2 = affine.delinearize_index %213 into (128) : index, index
      %346 = vector.load %260#7[%345#0, %345#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
      %347:2 = affine.delinearize_index %216 into (128) : index, index
      %348 = vector.load %260#7[%347#0, %347#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
      %349:2 = affine.delinearize_index %229 into (128) : index, index
      %350 = vector.load %260#5[%349#0, %349#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
      %351:2 = affine.delinearize_index %239 into (128) : index, index
      %352 = vector.load %260#5[%351#0, %351#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
      %353:2 = affine.delinearize_index %249 into (128) : index, index
      %354 = vector.load %260#5[%353#0, %353#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
      %355:2 = affine.delinearize_index %259 into (128) : index, index
      %356 = vector.load %260#5[%355#0, %355#1] : memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>, vector<8xf16>
      %357 = amdgpu.mfma 16x16x32 %318 * %350 + %313 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
      %358 = amdgpu.mfma 16x16x32 %326 * %350 + %314 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
      %359 = amdgpu.mfma 16x16x32 %334 * %350 + %315 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
      %360 = amdgpu.mfma 16x16x32 %342 * %350 + %316 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
      %361 = amdgpu.mfma 16x16x32 %320 * %352 + %357 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
      %362 = amdgpu.mfma 16x16x32 %328 * %352 + %358 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
      %363 = amdgpu.mfma 16x16x32 %336 * %352 + %359 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
      %364 = amdgpu.mfma 16x16x32 %344 * %352 + %360 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
      %365 = amdgpu.mfma 16x16x32 %322 * %354 + %361 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
      %366 = amdgpu.mfma 16x16x32 %330 * %354 + %362 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
      %367 = amdgpu.mfma 16x16x32 %338 * %354 + %363 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
      %368 = amdgpu.mfma 16x16x32 %346 * %354 + %364 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
      %369 = amdgpu.mfma 16x16x32 %324 * %356 + %365 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
      %370 = amdgpu.mfma 16x16x32 %332 * %356 + %366 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
      %371 = amdgpu.mfma 16x16x32 %340 * %356 + %367 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
      %372 = amdgpu.mfma 16x16x32 %348 * %356 + %368 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
      %373 = vector.extract %369[0] : f32 from vector<4xf32>
      %374 = vector.broadcast %373 : f32 to vector<1xf32>
      %375 = vector.extract %369[1] : f32 from vector<4xf32>
      %376 = vector.broadcast %375 : f32 to vector<1xf32>
      %377 = vector.extract %369[2] : f32 from vector<4xf32>
      %378 = vector.broadcast %377 : f32 to vector<1xf32>
      %379 = vector.extract %369[3] : f32 from vector<4xf32>
      %380 = vector.broadcast %379 : f32 to vector<1xf32>
      %381 = vector.extract %370[0] : f32 from vector<4xf32>
      %382 = vector.broadcast %381 : f32 to vector<1xf32>
      %383 = vector.extract %370[1] : f32 from vector<4xf32>
      %384 = vector.broadcast %383 : f32 to vector<1xf32>
      %385 = vector.extract %370[2] : f32 from vector<4xf32>
      %386 = vector.broadcast %385 : f32 to vector<1xf32>
      %387 = vector.extract %370[3] : f32 from vector<4xf32>
      %388 = vector.broadcast %387 : f32 to vector<1xf32>
      %389 = vector.extract %371[0] : f32 from vector<4xf32>
      %390 = vector.broadcast %389 : f32 to vector<1xf32>
      %391 = vector.extract %371[1] : f32 from vector<4xf32>
      %392 = vector.broadcast %391 : f32 to vector<1xf32>
      %393 = vector.extract %371[2] : f32 from vector<4xf32>
      %394 = vector.broadcast %393 : f32 to vector<1xf32>
      %395 = vector.extract %371[3] : f32 from vector<4xf32>
      %396 = vector.broadcast %395 : f32 to vector<1xf32>
      %397 = vector.extract %372[0] : f32 from vector<4xf32>
      %398 = vector.broadcast %397 : f32 to vector<1xf32>
      %399 = vector.extract %372[1] : f32 from vector<4xf32>
      %400 = vector.broadcast %399 : f32 to vector<1xf32>
      %401 = vector.extract %372[2] : f32 from vector<4xf32>
      %402 = vector.broadcast %401 : f32 to vector<1xf32>
      %403 = vector.extract %372[3] : f32 from vector<4xf32>
      %404 = vector.broadcast %403 : f32 to vector<1xf32>
      vector.store %374, %2[%9, %218] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %405 = arith.addi %8, %c1_i32 overflow<nsw> : i32
      %406 = arith.index_castui %405 : i32 to index
      vector.store %376, %2[%406, %218] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %407 = arith.addi %8, %c2_i32 overflow<nsw> : i32
      %408 = arith.index_castui %407 : i32 to index
      vector.store %378, %2[%408, %218] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %409 = arith.addi %8, %c3_i32 overflow<nsw> : i32
      %410 = arith.index_castui %409 : i32 to index
      vector.store %380, %2[%410, %218] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %411 = arith.addi %8, %c16_i32 overflow<nsw> : i32
      %412 = arith.index_castui %411 : i32 to index
      vector.store %382, %2[%412, %218] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %413 = arith.addi %8, %c17_i32 overflow<nsw> : i32
      %414 = arith.index_castui %413 : i32 to index
      vector.store %384, %2[%414, %218] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %415 = arith.addi %8, %c18_i32 overflow<nsw> : i32
      %416 = arith.index_castui %415 : i32 to index
      vector.store %386, %2[%416, %218] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %417 = arith.addi %8, %c19_i32 overflow<nsw> : i32
      %418 = arith.index_castui %417 : i32 to index
      vector.store %388, %2[%418, %218] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %419 = arith.addi %8, %c32_i32 overflow<nsw> : i32
      %420 = arith.index_castui %419 : i32 to index
      vector.store %390, %2[%420, %218] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %421 = arith.addi %8, %c33_i32 overflow<nsw> : i32
      %422 = arith.index_castui %421 : i32 to index
      vector.store %392, %2[%422, %218] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %423 = arith.addi %8, %c34_i32 overflow<nsw> : i32
      %424 = arith.index_castui %423 : i32 to index
      vector.store %394, %2[%424, %218] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %425 = arith.addi %8, %c35_i32 overflow<nsw> : i32
      %426 = arith.index_castui %425 : i32 to index
      vector.store %396, %2[%426, %218] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %427 = arith.addi %8, %c48_i32 overflow<nsw> : i32
      %428 = arith.index_castui %427 : i32 to index
      vector.store %398, %2[%428, %218] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %429 = arith.addi %8, %c49_i32 overflow<nsw> : i32
      %430 = arith.index_castui %429 : i32 to index
      vector.store %400, %2[%430, %218] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %431 = arith.addi %8, %c50_i32 overflow<nsw> : i32
      %432 = arith.index_castui %431 : i32 to index
      vector.store %402, %2[%432, %218] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %433 = arith.addi %8, %c51_i32 overflow<nsw> : i32
      %434 = arith.index_castui %433 : i32 to index
      vector.store %404, %2[%434, %218] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      gpu.barrier memfence [#gpu.address_space<workgroup>]
      memref.dealloc %alloc_0 : memref<3x8192xf16, #gpu.address_space<workgroup>>
      memref.dealloc %alloc : memref<3x8192xf16, #gpu.address_space<workgroup>>
      gpu.return
    }
  }
}

