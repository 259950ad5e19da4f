module {
  gpu.module @kernels {
    gpu.func @matmul_dispatch_0_matmul_64x64x1024_f16xf16xf32(%arg0: memref<64x1024xf16, #gpu.address_space<global>> {llvm.noalias}, %arg1: memref<64x1024xf16, #gpu.address_space<global>> {llvm.noalias}, %arg2: memref<64x64xf32, #gpu.address_space<global>> {llvm.noalias}) kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
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
      %c4_i32 = arith.constant 4 : i32
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
      %alloc = memref.alloc() : memref<8192xf16, #gpu.address_space<workgroup>>
      %alloc_0 = memref.alloc() : memref<8192xf16, #gpu.address_space<workgroup>>
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
      %84 = arith.muli %4, %c16_i32 overflow<nsw> : i32
      %85 = arith.addi %23, %84 : i32
      %86 = arith.index_cast %85 : i32 to index
      %87 = arith.index_castui %12 : i32 to index
      %88 = arith.addi %41, %84 : i32
      %89 = arith.index_cast %88 : i32 to index
      %90 = arith.addi %12, %c512_i32 overflow<nsw> : i32
      %91 = arith.index_castui %90 : i32 to index
      %92 = arith.addi %59, %84 : i32
      %93 = arith.index_cast %92 : i32 to index
      %94 = arith.addi %12, %c1024_i32 overflow<nsw> : i32
      %95 = arith.index_castui %94 : i32 to index
      %96 = arith.addi %77, %84 : i32
      %97 = arith.index_cast %96 : i32 to index
      %98 = arith.addi %12, %c1536_i32 overflow<nsw> : i32
      %99 = arith.index_castui %98 : i32 to index
      %100 = arith.muli %7, %c128_i32 overflow<nsw> : i32
      %101 = arith.addi %100, %10 overflow<nsw> : i32
      %102 = arith.remui %101, %c64_i32 : i32
      %103 = arith.divui %102, %c8_i32 : i32
      %104 = arith.divui %101, %c64_i32 : i32
      %105 = arith.remui %104, %c8_i32 : i32
      %106 = arith.xori %105, %103 : i32
      %107 = arith.muli %104, %c64_i32 overflow<nsw> : i32
      %108 = arith.muli %106, %c8_i32 overflow<nsw> : i32
      %109 = arith.addi %107, %108 : i32
      %110 = arith.subi %109, %101 : i32
      %111 = arith.index_castui %109 : i32 to index
      %112 = arith.addi %101, %c32_i32 overflow<nsw> : i32
      %113 = arith.remui %112, %c64_i32 : i32
      %114 = arith.divui %113, %c8_i32 : i32
      %115 = arith.divui %112, %c64_i32 : i32
      %116 = arith.remui %115, %c8_i32 : i32
      %117 = arith.xori %116, %114 : i32
      %118 = arith.muli %115, %c64_i32 overflow<nsw> : i32
      %119 = arith.muli %117, %c8_i32 overflow<nsw> : i32
      %120 = arith.addi %118, %119 : i32
      %121 = arith.subi %120, %112 : i32
      %122 = arith.index_castui %120 : i32 to index
      %123 = arith.addi %101, %c64_i32 overflow<nsw> : i32
      %124 = arith.remui %123, %c64_i32 : i32
      %125 = arith.divui %124, %c8_i32 : i32
      %126 = arith.divui %123, %c64_i32 : i32
      %127 = arith.remui %126, %c8_i32 : i32
      %128 = arith.xori %127, %125 : i32
      %129 = arith.muli %126, %c64_i32 overflow<nsw> : i32
      %130 = arith.muli %128, %c8_i32 overflow<nsw> : i32
      %131 = arith.addi %129, %130 : i32
      %132 = arith.subi %131, %123 : i32
      %133 = arith.index_castui %131 : i32 to index
      %134 = arith.addi %101, %c96_i32 overflow<nsw> : i32
      %135 = arith.remui %134, %c64_i32 : i32
      %136 = arith.divui %135, %c8_i32 : i32
      %137 = arith.divui %134, %c64_i32 : i32
      %138 = arith.remui %137, %c8_i32 : i32
      %139 = arith.xori %138, %136 : i32
      %140 = arith.muli %137, %c64_i32 overflow<nsw> : i32
      %141 = arith.muli %139, %c8_i32 overflow<nsw> : i32
      %142 = arith.addi %140, %141 : i32
      %143 = arith.subi %142, %134 : i32
      %144 = arith.index_castui %142 : i32 to index
      %145 = arith.addi %101, %c2048_i32 overflow<nsw> : i32
      %146 = arith.addi %145, %110 : i32
      %147 = arith.index_castui %146 : i32 to index
      %148 = arith.addi %101, %c2080_i32 overflow<nsw> : i32
      %149 = arith.addi %148, %121 : i32
      %150 = arith.index_castui %149 : i32 to index
      %151 = arith.addi %101, %c2112_i32 overflow<nsw> : i32
      %152 = arith.addi %151, %132 : i32
      %153 = arith.index_castui %152 : i32 to index
      %154 = arith.addi %101, %c2144_i32 overflow<nsw> : i32
      %155 = arith.addi %154, %143 : i32
      %156 = arith.index_castui %155 : i32 to index
      %157 = arith.addi %101, %c4096_i32 overflow<nsw> : i32
      %158 = arith.addi %157, %110 : i32
      %159 = arith.index_castui %158 : i32 to index
      %160 = arith.addi %101, %c4128_i32 overflow<nsw> : i32
      %161 = arith.addi %160, %121 : i32
      %162 = arith.index_castui %161 : i32 to index
      %163 = arith.addi %101, %c4160_i32 overflow<nsw> : i32
      %164 = arith.addi %163, %132 : i32
      %165 = arith.index_castui %164 : i32 to index
      %166 = arith.addi %101, %c4192_i32 overflow<nsw> : i32
      %167 = arith.addi %166, %143 : i32
      %168 = arith.index_castui %167 : i32 to index
      %169 = arith.addi %101, %c6144_i32 overflow<nsw> : i32
      %170 = arith.addi %169, %110 : i32
      %171 = arith.index_castui %170 : i32 to index
      %172 = arith.addi %101, %c6176_i32 overflow<nsw> : i32
      %173 = arith.addi %172, %121 : i32
      %174 = arith.index_castui %173 : i32 to index
      %175 = arith.addi %101, %c6208_i32 overflow<nsw> : i32
      %176 = arith.addi %175, %132 : i32
      %177 = arith.index_castui %176 : i32 to index
      %178 = arith.addi %101, %c6240_i32 overflow<nsw> : i32
      %179 = arith.addi %178, %143 : i32
      %180 = arith.index_castui %179 : i32 to index
      %181 = arith.addi %12, %100 overflow<nsw> : i32
      %182 = arith.addi %181, %10 overflow<nsw> : i32
      %183 = arith.remui %182, %c64_i32 : i32
      %184 = arith.divui %183, %c8_i32 : i32
      %185 = arith.divui %182, %c64_i32 : i32
      %186 = arith.remui %185, %c8_i32 : i32
      %187 = arith.xori %186, %184 : i32
      %188 = arith.muli %185, %c64_i32 overflow<nsw> : i32
      %189 = arith.muli %187, %c8_i32 overflow<nsw> : i32
      %190 = arith.addi %188, %189 : i32
      %191 = arith.index_castui %190 : i32 to index
      %192 = arith.addi %182, %c32_i32 overflow<nsw> : i32
      %193 = arith.remui %192, %c64_i32 : i32
      %194 = arith.divui %193, %c8_i32 : i32
      %195 = arith.divui %192, %c64_i32 : i32
      %196 = arith.remui %195, %c8_i32 : i32
      %197 = arith.xori %196, %194 : i32
      %198 = arith.muli %195, %c64_i32 overflow<nsw> : i32
      %199 = arith.muli %197, %c8_i32 overflow<nsw> : i32
      %200 = arith.addi %198, %199 : i32
      %201 = arith.index_castui %200 : i32 to index
      %202 = arith.addi %182, %c64_i32 overflow<nsw> : i32
      %203 = arith.remui %202, %c64_i32 : i32
      %204 = arith.divui %203, %c8_i32 : i32
      %205 = arith.divui %202, %c64_i32 : i32
      %206 = arith.remui %205, %c8_i32 : i32
      %207 = arith.xori %206, %204 : i32
      %208 = arith.muli %205, %c64_i32 overflow<nsw> : i32
      %209 = arith.muli %207, %c8_i32 overflow<nsw> : i32
      %210 = arith.addi %208, %209 : i32
      %211 = arith.index_castui %210 : i32 to index
      %212 = arith.addi %182, %c96_i32 overflow<nsw> : i32
      %213 = arith.remui %212, %c64_i32 : i32
      %214 = arith.divui %213, %c8_i32 : i32
      %215 = arith.divui %212, %c64_i32 : i32
      %216 = arith.remui %215, %c8_i32 : i32
      %217 = arith.xori %216, %214 : i32
      %218 = arith.muli %215, %c64_i32 overflow<nsw> : i32
      %219 = arith.muli %217, %c8_i32 overflow<nsw> : i32
      %220 = arith.addi %218, %219 : i32
      %221 = arith.index_castui %220 : i32 to index
      %222 = arith.index_cast %29 : index to i32
      %223 = arith.index_cast %47 : index to i32
      %224 = arith.index_cast %65 : index to i32
      %225 = arith.index_cast %83 : index to i32
      %226:4 = scf.for %arg3 = %c0_i32 to %c32_i32 step %c4_i32 iter_args(%arg4 = %cst, %arg5 = %cst, %arg6 = %cst, %arg7 = %cst) -> (vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>)  : i32 {
        gpu.barrier memfence [#gpu.address_space<workgroup>]
        %291 = arith.muli %arg3, %c32_i32 overflow<nsw> : i32
        %292 = arith.addi %222, %291 : i32
        %293 = arith.index_cast %292 : i32 to index
        amdgpu.gather_to_lds %0[%86, %293], %alloc[%87] : vector<8xf16>, memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, memref<8192xf16, #gpu.address_space<workgroup>>
        %294 = arith.addi %223, %291 : i32
        %295 = arith.index_cast %294 : i32 to index
        amdgpu.gather_to_lds %0[%89, %295], %alloc[%91] : vector<8xf16>, memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, memref<8192xf16, #gpu.address_space<workgroup>>
        %296 = arith.addi %224, %291 : i32
        %297 = arith.index_cast %296 : i32 to index
        amdgpu.gather_to_lds %0[%93, %297], %alloc[%95] : vector<8xf16>, memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, memref<8192xf16, #gpu.address_space<workgroup>>
        %298 = arith.addi %225, %291 : i32
        %299 = arith.index_cast %298 : i32 to index
        amdgpu.gather_to_lds %0[%97, %299], %alloc[%99] : vector<8xf16>, memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, memref<8192xf16, #gpu.address_space<workgroup>>
        amdgpu.gather_to_lds %1[%86, %293], %alloc_0[%87] : vector<8xf16>, memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, memref<8192xf16, #gpu.address_space<workgroup>>
        amdgpu.gather_to_lds %1[%89, %295], %alloc_0[%91] : vector<8xf16>, memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, memref<8192xf16, #gpu.address_space<workgroup>>
        amdgpu.gather_to_lds %1[%93, %297], %alloc_0[%95] : vector<8xf16>, memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, memref<8192xf16, #gpu.address_space<workgroup>>
        amdgpu.gather_to_lds %1[%97, %299], %alloc_0[%99] : vector<8xf16>, memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, memref<8192xf16, #gpu.address_space<workgroup>>
        gpu.barrier memfence [#gpu.address_space<workgroup>]
        %300 = vector.load %alloc[%111] : memref<8192xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %301 = vector.load %alloc[%122] : memref<8192xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %302 = vector.load %alloc[%133] : memref<8192xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %303 = vector.load %alloc[%144] : memref<8192xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %304 = vector.load %alloc[%147] : memref<8192xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %305 = vector.load %alloc[%150] : memref<8192xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %306 = vector.load %alloc[%153] : memref<8192xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %307 = vector.load %alloc[%156] : memref<8192xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %308 = vector.load %alloc[%159] : memref<8192xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %309 = vector.load %alloc[%162] : memref<8192xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %310 = vector.load %alloc[%165] : memref<8192xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %311 = vector.load %alloc[%168] : memref<8192xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %312 = vector.load %alloc[%171] : memref<8192xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %313 = vector.load %alloc[%174] : memref<8192xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %314 = vector.load %alloc[%177] : memref<8192xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %315 = vector.load %alloc[%180] : memref<8192xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %316 = vector.load %alloc_0[%191] : memref<8192xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %317 = vector.load %alloc_0[%201] : memref<8192xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %318 = vector.load %alloc_0[%211] : memref<8192xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %319 = vector.load %alloc_0[%221] : memref<8192xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %320 = amdgpu.mfma 16x16x32 %300 * %316 + %arg7 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %321 = amdgpu.mfma 16x16x32 %304 * %316 + %arg6 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %322 = amdgpu.mfma 16x16x32 %308 * %316 + %arg5 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %323 = amdgpu.mfma 16x16x32 %312 * %316 + %arg4 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %324 = amdgpu.mfma 16x16x32 %301 * %317 + %320 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %325 = amdgpu.mfma 16x16x32 %305 * %317 + %321 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %326 = amdgpu.mfma 16x16x32 %309 * %317 + %322 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %327 = amdgpu.mfma 16x16x32 %313 * %317 + %323 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %328 = amdgpu.mfma 16x16x32 %302 * %318 + %324 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %329 = amdgpu.mfma 16x16x32 %306 * %318 + %325 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %330 = amdgpu.mfma 16x16x32 %310 * %318 + %326 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %331 = amdgpu.mfma 16x16x32 %314 * %318 + %327 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %332 = amdgpu.mfma 16x16x32 %303 * %319 + %328 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %333 = amdgpu.mfma 16x16x32 %307 * %319 + %329 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %334 = amdgpu.mfma 16x16x32 %311 * %319 + %330 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %335 = amdgpu.mfma 16x16x32 %315 * %319 + %331 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        scf.yield %335, %334, %333, %332 : vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>
      }
      %227 = vector.extract %226#3[0] : f32 from vector<4xf32>
      %228 = vector.broadcast %227 : f32 to vector<1xf32>
      %229 = vector.extract %226#3[1] : f32 from vector<4xf32>
      %230 = vector.broadcast %229 : f32 to vector<1xf32>
      %231 = vector.extract %226#3[2] : f32 from vector<4xf32>
      %232 = vector.broadcast %231 : f32 to vector<1xf32>
      %233 = vector.extract %226#3[3] : f32 from vector<4xf32>
      %234 = vector.broadcast %233 : f32 to vector<1xf32>
      %235 = vector.extract %226#2[0] : f32 from vector<4xf32>
      %236 = vector.broadcast %235 : f32 to vector<1xf32>
      %237 = vector.extract %226#2[1] : f32 from vector<4xf32>
      %238 = vector.broadcast %237 : f32 to vector<1xf32>
      %239 = vector.extract %226#2[2] : f32 from vector<4xf32>
      %240 = vector.broadcast %239 : f32 to vector<1xf32>
      %241 = vector.extract %226#2[3] : f32 from vector<4xf32>
      %242 = vector.broadcast %241 : f32 to vector<1xf32>
      %243 = vector.extract %226#1[0] : f32 from vector<4xf32>
      %244 = vector.broadcast %243 : f32 to vector<1xf32>
      %245 = vector.extract %226#1[1] : f32 from vector<4xf32>
      %246 = vector.broadcast %245 : f32 to vector<1xf32>
      %247 = vector.extract %226#1[2] : f32 from vector<4xf32>
      %248 = vector.broadcast %247 : f32 to vector<1xf32>
      %249 = vector.extract %226#1[3] : f32 from vector<4xf32>
      %250 = vector.broadcast %249 : f32 to vector<1xf32>
      %251 = vector.extract %226#0[0] : f32 from vector<4xf32>
      %252 = vector.broadcast %251 : f32 to vector<1xf32>
      %253 = vector.extract %226#0[1] : f32 from vector<4xf32>
      %254 = vector.broadcast %253 : f32 to vector<1xf32>
      %255 = vector.extract %226#0[2] : f32 from vector<4xf32>
      %256 = vector.broadcast %255 : f32 to vector<1xf32>
      %257 = vector.extract %226#0[3] : f32 from vector<4xf32>
      %258 = vector.broadcast %257 : f32 to vector<1xf32>
      %259 = arith.addi %84, %7 overflow<nsw> : i32
      %260 = arith.index_castui %259 : i32 to index
      vector.store %228, %2[%9, %260] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %261 = arith.addi %8, %c1_i32 overflow<nsw> : i32
      %262 = arith.index_castui %261 : i32 to index
      vector.store %230, %2[%262, %260] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %263 = arith.addi %8, %c2_i32 overflow<nsw> : i32
      %264 = arith.index_castui %263 : i32 to index
      vector.store %232, %2[%264, %260] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %265 = arith.addi %8, %c3_i32 overflow<nsw> : i32
      %266 = arith.index_castui %265 : i32 to index
      vector.store %234, %2[%266, %260] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %267 = arith.addi %8, %c16_i32 overflow<nsw> : i32
      %268 = arith.index_castui %267 : i32 to index
      vector.store %236, %2[%268, %260] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %269 = arith.addi %8, %c17_i32 overflow<nsw> : i32
      %270 = arith.index_castui %269 : i32 to index
      vector.store %238, %2[%270, %260] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %271 = arith.addi %8, %c18_i32 overflow<nsw> : i32
      %272 = arith.index_castui %271 : i32 to index
      vector.store %240, %2[%272, %260] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %273 = arith.addi %8, %c19_i32 overflow<nsw> : i32
      %274 = arith.index_castui %273 : i32 to index
      vector.store %242, %2[%274, %260] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %275 = arith.addi %8, %c32_i32 overflow<nsw> : i32
      %276 = arith.index_castui %275 : i32 to index
      vector.store %244, %2[%276, %260] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %277 = arith.addi %8, %c33_i32 overflow<nsw> : i32
      %278 = arith.index_castui %277 : i32 to index
      vector.store %246, %2[%278, %260] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %279 = arith.addi %8, %c34_i32 overflow<nsw> : i32
      %280 = arith.index_castui %279 : i32 to index
      vector.store %248, %2[%280, %260] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %281 = arith.addi %8, %c35_i32 overflow<nsw> : i32
      %282 = arith.index_castui %281 : i32 to index
      vector.store %250, %2[%282, %260] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %283 = arith.addi %8, %c48_i32 overflow<nsw> : i32
      %284 = arith.index_castui %283 : i32 to index
      vector.store %252, %2[%284, %260] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %285 = arith.addi %8, %c49_i32 overflow<nsw> : i32
      %286 = arith.index_castui %285 : i32 to index
      vector.store %254, %2[%286, %260] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %287 = arith.addi %8, %c50_i32 overflow<nsw> : i32
      %288 = arith.index_castui %287 : i32 to index
      vector.store %256, %2[%288, %260] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %289 = arith.addi %8, %c51_i32 overflow<nsw> : i32
      %290 = arith.index_castui %289 : i32 to index
      vector.store %258, %2[%290, %260] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      memref.dealloc %alloc_0 : memref<8192xf16, #gpu.address_space<workgroup>>
      memref.dealloc %alloc : memref<8192xf16, #gpu.address_space<workgroup>>
      gpu.return
    }
  }
}

