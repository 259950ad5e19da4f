module {
  gpu.module @kernels {
    gpu.func @matmul_dispatch_0_matmul_64x64x1024_f16xf16xf32(%arg0: memref<64x1024xf16, #gpu.address_space<global>> {llvm.noalias}, %arg1: memref<1024x64xf16, #gpu.address_space<global>> {llvm.noalias}, %arg2: memref<64x64xf32, #gpu.address_space<global>> {llvm.noalias}) kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
      %c28_i32 = arith.constant 28 : i32
      %c20_i32 = arith.constant 20 : i32
      %c12_i32 = arith.constant 12 : i32
      %c24_i32 = arith.constant 24 : i32
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
      %c16_i32 = arith.constant 16 : i32
      %c1536_i32 = arith.constant 1536 : i32
      %c1024_i32 = arith.constant 1024 : i32
      %c512_i32 = arith.constant 512 : i32
      %c128_i32 = arith.constant 128 : i32
      %c8_i32 = arith.constant 8 : i32
      %c0_i32 = arith.constant 0 : i32
      %c64_i32 = arith.constant 64 : i32
      %c0 = arith.constant 0 : index
      %cst = arith.constant dense<0.000000e+00> : vector<32xf16>
      %cst_0 = arith.constant dense<0.000000e+00> : vector<4xf32>
      %alloc = memref.alloc() : memref<128x64xf16, #gpu.address_space<workgroup>>
      %alloc_1 = memref.alloc() : memref<8192xf16, #gpu.address_space<workgroup>>
      %thread_id_x = gpu.thread_id x upper_bound 256
      %assume_align = memref.assume_alignment %arg0, 64 : memref<64x1024xf16, #gpu.address_space<global>>
      %0 = amdgpu.fat_raw_buffer_cast %assume_align resetOffset : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>
      %assume_align_2 = memref.assume_alignment %arg1, 64 : memref<1024x64xf16, #gpu.address_space<global>>
      %1 = amdgpu.fat_raw_buffer_cast %assume_align_2 resetOffset : memref<1024x64xf16, #gpu.address_space<global>> to memref<1024x64xf16, #amdgpu.address_space<fat_raw_buffer>>
      %assume_align_3 = memref.assume_alignment %arg2, 64 : memref<64x64xf32, #gpu.address_space<global>>
      %2 = amdgpu.fat_raw_buffer_cast %assume_align_3 resetOffset : memref<64x64xf32, #gpu.address_space<global>> to memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>
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
      %84 = arith.divui %11, %c64_i32 : i32
      %85 = arith.remui %11, %c64_i32 : i32
      %86 = arith.index_castui %85 : i32 to index
      %87 = arith.divui %30, %c64_i32 : i32
      %88 = arith.remui %30, %c64_i32 : i32
      %89 = arith.index_castui %88 : i32 to index
      %90 = arith.divui %48, %c64_i32 : i32
      %91 = arith.remui %48, %c64_i32 : i32
      %92 = arith.index_castui %91 : i32 to index
      %93 = arith.divui %66, %c64_i32 : i32
      %94 = arith.remui %66, %c64_i32 : i32
      %95 = arith.index_castui %94 : i32 to index
      %96 = gpu.lane_id upper_bound 64
      %97 = arith.index_castui %96 : index to i32
      %98 = arith.remui %97, %c16_i32 : i32
      %99 = arith.divui %98, %c4_i32 : i32
      %100 = arith.subi %7, %98 : i32
      %101 = arith.remui %98, %c4_i32 : i32
      %102 = arith.muli %101, %c4_i32 : i32
      %103 = arith.addi %100, %102 : i32
      %104 = arith.addi %10, %99 : i32
      %105 = arith.index_castui %104 : i32 to index
      %106 = arith.addi %99, %c4_i32 : i32
      %107 = arith.addi %10, %106 : i32
      %108 = arith.index_castui %107 : i32 to index
      %109 = arith.addi %99, %c8_i32 : i32
      %110 = arith.remui %109, %c8_i32 : i32
      %111 = arith.addi %10, %110 : i32
      %112 = arith.addi %99, %c12_i32 : i32
      %113 = arith.remui %112, %c8_i32 : i32
      %114 = arith.addi %10, %113 : i32
      %115 = arith.addi %99, %c16_i32 : i32
      %116 = arith.remui %115, %c8_i32 : i32
      %117 = arith.addi %10, %116 : i32
      %118 = arith.addi %99, %c20_i32 : i32
      %119 = arith.remui %118, %c8_i32 : i32
      %120 = arith.addi %10, %119 : i32
      %121 = arith.addi %99, %c24_i32 : i32
      %122 = arith.remui %121, %c8_i32 : i32
      %123 = arith.addi %10, %122 : i32
      %124 = arith.addi %99, %c28_i32 : i32
      %125 = arith.remui %124, %c8_i32 : i32
      %126 = arith.addi %10, %125 : i32
      %127 = arith.muli %4, %c16_i32 overflow<nsw> : i32
      %128 = arith.addi %23, %127 : i32
      %129 = arith.index_cast %128 : i32 to index
      %130 = arith.index_castui %12 : i32 to index
      %131 = arith.addi %41, %127 : i32
      %132 = arith.index_cast %131 : i32 to index
      %133 = arith.addi %12, %c512_i32 overflow<nsw> : i32
      %134 = arith.index_castui %133 : i32 to index
      %135 = arith.addi %59, %127 : i32
      %136 = arith.index_cast %135 : i32 to index
      %137 = arith.addi %12, %c1024_i32 overflow<nsw> : i32
      %138 = arith.index_castui %137 : i32 to index
      %139 = arith.addi %77, %127 : i32
      %140 = arith.index_cast %139 : i32 to index
      %141 = arith.addi %12, %c1536_i32 overflow<nsw> : i32
      %142 = arith.index_castui %141 : i32 to index
      %143 = arith.muli %4, %c32_i32 overflow<nsw> : i32
      %144 = arith.index_castui %143 : i32 to index
      %145 = arith.addi %143, %c8_i32 overflow<nsw> : i32
      %146 = arith.index_castui %145 : i32 to index
      %147 = arith.addi %143, %c16_i32 overflow<nsw> : i32
      %148 = arith.index_castui %147 : i32 to index
      %149 = arith.addi %143, %c24_i32 overflow<nsw> : i32
      %150 = arith.index_castui %149 : i32 to index
      %151 = arith.addi %127, %103 overflow<nsw> : i32
      %152 = arith.index_cast %151 : i32 to index
      %153 = arith.addi %111, %c32_i32 overflow<nsw> : i32
      %154 = arith.index_castui %153 : i32 to index
      %155 = arith.addi %114, %c32_i32 overflow<nsw> : i32
      %156 = arith.index_castui %155 : i32 to index
      %157 = arith.addi %117, %c64_i32 overflow<nsw> : i32
      %158 = arith.index_castui %157 : i32 to index
      %159 = arith.addi %120, %c64_i32 overflow<nsw> : i32
      %160 = arith.index_castui %159 : i32 to index
      %161 = arith.addi %123, %c96_i32 overflow<nsw> : i32
      %162 = arith.index_castui %161 : i32 to index
      %163 = arith.addi %126, %c96_i32 overflow<nsw> : i32
      %164 = arith.index_castui %163 : i32 to index
      %165 = arith.muli %7, %c128_i32 overflow<nsw> : i32
      %166 = arith.addi %165, %10 overflow<nsw> : i32
      %167 = arith.remui %166, %c64_i32 : i32
      %168 = arith.divui %167, %c8_i32 : i32
      %169 = arith.divui %166, %c64_i32 : i32
      %170 = arith.remui %169, %c8_i32 : i32
      %171 = arith.xori %170, %168 : i32
      %172 = arith.muli %169, %c64_i32 overflow<nsw> : i32
      %173 = arith.muli %171, %c8_i32 overflow<nsw> : i32
      %174 = arith.addi %172, %173 : i32
      %175 = arith.subi %174, %166 : i32
      %176 = arith.index_castui %174 : i32 to index
      %177 = arith.addi %166, %c32_i32 overflow<nsw> : i32
      %178 = arith.remui %177, %c64_i32 : i32
      %179 = arith.divui %178, %c8_i32 : i32
      %180 = arith.divui %177, %c64_i32 : i32
      %181 = arith.remui %180, %c8_i32 : i32
      %182 = arith.xori %181, %179 : i32
      %183 = arith.muli %180, %c64_i32 overflow<nsw> : i32
      %184 = arith.muli %182, %c8_i32 overflow<nsw> : i32
      %185 = arith.addi %183, %184 : i32
      %186 = arith.subi %185, %177 : i32
      %187 = arith.index_castui %185 : i32 to index
      %188 = arith.addi %166, %c64_i32 overflow<nsw> : i32
      %189 = arith.remui %188, %c64_i32 : i32
      %190 = arith.divui %189, %c8_i32 : i32
      %191 = arith.divui %188, %c64_i32 : i32
      %192 = arith.remui %191, %c8_i32 : i32
      %193 = arith.xori %192, %190 : i32
      %194 = arith.muli %191, %c64_i32 overflow<nsw> : i32
      %195 = arith.muli %193, %c8_i32 overflow<nsw> : i32
      %196 = arith.addi %194, %195 : i32
      %197 = arith.subi %196, %188 : i32
      %198 = arith.index_castui %196 : i32 to index
      %199 = arith.addi %166, %c96_i32 overflow<nsw> : i32
      %200 = arith.remui %199, %c64_i32 : i32
      %201 = arith.divui %200, %c8_i32 : i32
      %202 = arith.divui %199, %c64_i32 : i32
      %203 = arith.remui %202, %c8_i32 : i32
      %204 = arith.xori %203, %201 : i32
      %205 = arith.muli %202, %c64_i32 overflow<nsw> : i32
      %206 = arith.muli %204, %c8_i32 overflow<nsw> : i32
      %207 = arith.addi %205, %206 : i32
      %208 = arith.subi %207, %199 : i32
      %209 = arith.index_castui %207 : i32 to index
      %210 = arith.addi %166, %c2048_i32 overflow<nsw> : i32
      %211 = arith.addi %210, %175 : i32
      %212 = arith.index_castui %211 : i32 to index
      %213 = arith.addi %166, %c2080_i32 overflow<nsw> : i32
      %214 = arith.addi %213, %186 : i32
      %215 = arith.index_castui %214 : i32 to index
      %216 = arith.addi %166, %c2112_i32 overflow<nsw> : i32
      %217 = arith.addi %216, %197 : i32
      %218 = arith.index_castui %217 : i32 to index
      %219 = arith.addi %166, %c2144_i32 overflow<nsw> : i32
      %220 = arith.addi %219, %208 : i32
      %221 = arith.index_castui %220 : i32 to index
      %222 = arith.addi %166, %c4096_i32 overflow<nsw> : i32
      %223 = arith.addi %222, %175 : i32
      %224 = arith.index_castui %223 : i32 to index
      %225 = arith.addi %166, %c4128_i32 overflow<nsw> : i32
      %226 = arith.addi %225, %186 : i32
      %227 = arith.index_castui %226 : i32 to index
      %228 = arith.addi %166, %c4160_i32 overflow<nsw> : i32
      %229 = arith.addi %228, %197 : i32
      %230 = arith.index_castui %229 : i32 to index
      %231 = arith.addi %166, %c4192_i32 overflow<nsw> : i32
      %232 = arith.addi %231, %208 : i32
      %233 = arith.index_castui %232 : i32 to index
      %234 = arith.addi %166, %c6144_i32 overflow<nsw> : i32
      %235 = arith.addi %234, %175 : i32
      %236 = arith.index_castui %235 : i32 to index
      %237 = arith.addi %166, %c6176_i32 overflow<nsw> : i32
      %238 = arith.addi %237, %186 : i32
      %239 = arith.index_castui %238 : i32 to index
      %240 = arith.addi %166, %c6208_i32 overflow<nsw> : i32
      %241 = arith.addi %240, %197 : i32
      %242 = arith.index_castui %241 : i32 to index
      %243 = arith.addi %166, %c6240_i32 overflow<nsw> : i32
      %244 = arith.addi %243, %208 : i32
      %245 = arith.index_castui %244 : i32 to index
      %246 = arith.addi %84, %143 : i32
      %247 = arith.addi %87, %143 : i32
      %248 = arith.addi %90, %143 : i32
      %249 = arith.addi %93, %143 : i32
      %250 = arith.index_cast %29 : index to i32
      %251 = arith.index_cast %47 : index to i32
      %252 = arith.index_cast %65 : index to i32
      %253 = arith.index_cast %83 : index to i32
      %254:4 = scf.for %arg3 = %c0_i32 to %c32_i32 step %c4_i32 iter_args(%arg4 = %cst_0, %arg5 = %cst_0, %arg6 = %cst_0, %arg7 = %cst_0) -> (vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>)  : i32 {
        gpu.barrier memfence [#gpu.address_space<workgroup>]
        %319 = arith.muli %arg3, %c32_i32 overflow<nsw> : i32
        %320 = arith.addi %250, %319 : i32
        %321 = arith.index_cast %320 : i32 to index
        amdgpu.gather_to_lds %0[%129, %321], %alloc_1[%130] : vector<8xf16>, memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, memref<8192xf16, #gpu.address_space<workgroup>>
        %322 = arith.addi %251, %319 : i32
        %323 = arith.index_cast %322 : i32 to index
        amdgpu.gather_to_lds %0[%132, %323], %alloc_1[%134] : vector<8xf16>, memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, memref<8192xf16, #gpu.address_space<workgroup>>
        %324 = arith.addi %252, %319 : i32
        %325 = arith.index_cast %324 : i32 to index
        amdgpu.gather_to_lds %0[%136, %325], %alloc_1[%138] : vector<8xf16>, memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, memref<8192xf16, #gpu.address_space<workgroup>>
        %326 = arith.addi %253, %319 : i32
        %327 = arith.index_cast %326 : i32 to index
        amdgpu.gather_to_lds %0[%140, %327], %alloc_1[%142] : vector<8xf16>, memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, memref<8192xf16, #gpu.address_space<workgroup>>
        %328 = arith.addi %246, %319 : i32
        %329 = arith.index_castui %328 : i32 to index
        amdgpu.gather_to_lds %1[%329, %86], %alloc[%144, %c0] : vector<8xf16>, memref<1024x64xf16, #amdgpu.address_space<fat_raw_buffer>>, memref<128x64xf16, #gpu.address_space<workgroup>>
        %330 = arith.addi %247, %319 : i32
        %331 = arith.index_castui %330 : i32 to index
        amdgpu.gather_to_lds %1[%331, %89], %alloc[%146, %c0] : vector<8xf16>, memref<1024x64xf16, #amdgpu.address_space<fat_raw_buffer>>, memref<128x64xf16, #gpu.address_space<workgroup>>
        %332 = arith.addi %248, %319 : i32
        %333 = arith.index_castui %332 : i32 to index
        amdgpu.gather_to_lds %1[%333, %92], %alloc[%148, %c0] : vector<8xf16>, memref<1024x64xf16, #amdgpu.address_space<fat_raw_buffer>>, memref<128x64xf16, #gpu.address_space<workgroup>>
        %334 = arith.addi %249, %319 : i32
        %335 = arith.index_castui %334 : i32 to index
        amdgpu.gather_to_lds %1[%335, %95], %alloc[%150, %c0] : vector<8xf16>, memref<1024x64xf16, #amdgpu.address_space<fat_raw_buffer>>, memref<128x64xf16, #gpu.address_space<workgroup>>
        gpu.barrier memfence [#gpu.address_space<workgroup>]
        %336 = vector.load %alloc_1[%176] : memref<8192xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %337 = vector.load %alloc_1[%187] : memref<8192xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %338 = vector.load %alloc_1[%198] : memref<8192xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %339 = vector.load %alloc_1[%209] : memref<8192xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %340 = vector.load %alloc_1[%212] : memref<8192xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %341 = vector.load %alloc_1[%215] : memref<8192xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %342 = vector.load %alloc_1[%218] : memref<8192xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %343 = vector.load %alloc_1[%221] : memref<8192xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %344 = vector.load %alloc_1[%224] : memref<8192xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %345 = vector.load %alloc_1[%227] : memref<8192xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %346 = vector.load %alloc_1[%230] : memref<8192xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %347 = vector.load %alloc_1[%233] : memref<8192xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %348 = vector.load %alloc_1[%236] : memref<8192xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %349 = vector.load %alloc_1[%239] : memref<8192xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %350 = vector.load %alloc_1[%242] : memref<8192xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %351 = vector.load %alloc_1[%245] : memref<8192xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %352 = amdgpu.transpose_load %alloc[%105, %152] : memref<128x64xf16, #gpu.address_space<workgroup>> -> vector<4xf16>
        %353 = amdgpu.transpose_load %alloc[%108, %152] : memref<128x64xf16, #gpu.address_space<workgroup>> -> vector<4xf16>
        %354 = amdgpu.transpose_load %alloc[%154, %152] : memref<128x64xf16, #gpu.address_space<workgroup>> -> vector<4xf16>
        %355 = amdgpu.transpose_load %alloc[%156, %152] : memref<128x64xf16, #gpu.address_space<workgroup>> -> vector<4xf16>
        %356 = amdgpu.transpose_load %alloc[%158, %152] : memref<128x64xf16, #gpu.address_space<workgroup>> -> vector<4xf16>
        %357 = amdgpu.transpose_load %alloc[%160, %152] : memref<128x64xf16, #gpu.address_space<workgroup>> -> vector<4xf16>
        %358 = amdgpu.transpose_load %alloc[%162, %152] : memref<128x64xf16, #gpu.address_space<workgroup>> -> vector<4xf16>
        %359 = amdgpu.transpose_load %alloc[%164, %152] : memref<128x64xf16, #gpu.address_space<workgroup>> -> vector<4xf16>
        %360 = vector.insert_strided_slice %352, %cst {offsets = [0], strides = [1]} : vector<4xf16> into vector<32xf16>
        %361 = vector.insert_strided_slice %353, %360 {offsets = [4], strides = [1]} : vector<4xf16> into vector<32xf16>
        %362 = vector.insert_strided_slice %354, %361 {offsets = [8], strides = [1]} : vector<4xf16> into vector<32xf16>
        %363 = vector.insert_strided_slice %355, %362 {offsets = [12], strides = [1]} : vector<4xf16> into vector<32xf16>
        %364 = vector.insert_strided_slice %356, %363 {offsets = [16], strides = [1]} : vector<4xf16> into vector<32xf16>
        %365 = vector.insert_strided_slice %357, %364 {offsets = [20], strides = [1]} : vector<4xf16> into vector<32xf16>
        %366 = vector.insert_strided_slice %358, %365 {offsets = [24], strides = [1]} : vector<4xf16> into vector<32xf16>
        %367 = vector.insert_strided_slice %359, %366 {offsets = [28], strides = [1]} : vector<4xf16> into vector<32xf16>
        %368 = vector.extract_strided_slice %367 {offsets = [0], sizes = [8], strides = [1]} : vector<32xf16> to vector<8xf16>
        %369 = vector.extract_strided_slice %367 {offsets = [8], sizes = [8], strides = [1]} : vector<32xf16> to vector<8xf16>
        %370 = vector.extract_strided_slice %367 {offsets = [16], sizes = [8], strides = [1]} : vector<32xf16> to vector<8xf16>
        %371 = vector.extract_strided_slice %367 {offsets = [24], sizes = [8], strides = [1]} : vector<32xf16> to vector<8xf16>
        %372 = amdgpu.mfma 16x16x32 %336 * %368 + %arg7 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %373 = amdgpu.mfma 16x16x32 %340 * %368 + %arg6 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %374 = amdgpu.mfma 16x16x32 %344 * %368 + %arg5 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %375 = amdgpu.mfma 16x16x32 %348 * %368 + %arg4 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %376 = amdgpu.mfma 16x16x32 %337 * %369 + %372 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %377 = amdgpu.mfma 16x16x32 %341 * %369 + %373 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %378 = amdgpu.mfma 16x16x32 %345 * %369 + %374 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %379 = amdgpu.mfma 16x16x32 %349 * %369 + %375 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %380 = amdgpu.mfma 16x16x32 %338 * %370 + %376 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %381 = amdgpu.mfma 16x16x32 %342 * %370 + %377 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %382 = amdgpu.mfma 16x16x32 %346 * %370 + %378 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %383 = amdgpu.mfma 16x16x32 %350 * %370 + %379 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %384 = amdgpu.mfma 16x16x32 %339 * %371 + %380 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %385 = amdgpu.mfma 16x16x32 %343 * %371 + %381 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %386 = amdgpu.mfma 16x16x32 %347 * %371 + %382 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %387 = amdgpu.mfma 16x16x32 %351 * %371 + %383 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        scf.yield %387, %386, %385, %384 : vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>
      }
      %255 = vector.extract %254#3[0] : f32 from vector<4xf32>
      %256 = vector.broadcast %255 : f32 to vector<1xf32>
      %257 = vector.extract %254#3[1] : f32 from vector<4xf32>
      %258 = vector.broadcast %257 : f32 to vector<1xf32>
      %259 = vector.extract %254#3[2] : f32 from vector<4xf32>
      %260 = vector.broadcast %259 : f32 to vector<1xf32>
      %261 = vector.extract %254#3[3] : f32 from vector<4xf32>
      %262 = vector.broadcast %261 : f32 to vector<1xf32>
      %263 = vector.extract %254#2[0] : f32 from vector<4xf32>
      %264 = vector.broadcast %263 : f32 to vector<1xf32>
      %265 = vector.extract %254#2[1] : f32 from vector<4xf32>
      %266 = vector.broadcast %265 : f32 to vector<1xf32>
      %267 = vector.extract %254#2[2] : f32 from vector<4xf32>
      %268 = vector.broadcast %267 : f32 to vector<1xf32>
      %269 = vector.extract %254#2[3] : f32 from vector<4xf32>
      %270 = vector.broadcast %269 : f32 to vector<1xf32>
      %271 = vector.extract %254#1[0] : f32 from vector<4xf32>
      %272 = vector.broadcast %271 : f32 to vector<1xf32>
      %273 = vector.extract %254#1[1] : f32 from vector<4xf32>
      %274 = vector.broadcast %273 : f32 to vector<1xf32>
      %275 = vector.extract %254#1[2] : f32 from vector<4xf32>
      %276 = vector.broadcast %275 : f32 to vector<1xf32>
      %277 = vector.extract %254#1[3] : f32 from vector<4xf32>
      %278 = vector.broadcast %277 : f32 to vector<1xf32>
      %279 = vector.extract %254#0[0] : f32 from vector<4xf32>
      %280 = vector.broadcast %279 : f32 to vector<1xf32>
      %281 = vector.extract %254#0[1] : f32 from vector<4xf32>
      %282 = vector.broadcast %281 : f32 to vector<1xf32>
      %283 = vector.extract %254#0[2] : f32 from vector<4xf32>
      %284 = vector.broadcast %283 : f32 to vector<1xf32>
      %285 = vector.extract %254#0[3] : f32 from vector<4xf32>
      %286 = vector.broadcast %285 : f32 to vector<1xf32>
      %287 = arith.addi %127, %7 overflow<nsw> : i32
      %288 = arith.index_castui %287 : i32 to index
      vector.store %256, %2[%9, %288] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %289 = arith.addi %8, %c1_i32 overflow<nsw> : i32
      %290 = arith.index_castui %289 : i32 to index
      vector.store %258, %2[%290, %288] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %291 = arith.addi %8, %c2_i32 overflow<nsw> : i32
      %292 = arith.index_castui %291 : i32 to index
      vector.store %260, %2[%292, %288] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %293 = arith.addi %8, %c3_i32 overflow<nsw> : i32
      %294 = arith.index_castui %293 : i32 to index
      vector.store %262, %2[%294, %288] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %295 = arith.addi %8, %c16_i32 overflow<nsw> : i32
      %296 = arith.index_castui %295 : i32 to index
      vector.store %264, %2[%296, %288] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %297 = arith.addi %8, %c17_i32 overflow<nsw> : i32
      %298 = arith.index_castui %297 : i32 to index
      vector.store %266, %2[%298, %288] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %299 = arith.addi %8, %c18_i32 overflow<nsw> : i32
      %300 = arith.index_castui %299 : i32 to index
      vector.store %268, %2[%300, %288] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %301 = arith.addi %8, %c19_i32 overflow<nsw> : i32
      %302 = arith.index_castui %301 : i32 to index
      vector.store %270, %2[%302, %288] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %303 = arith.addi %8, %c32_i32 overflow<nsw> : i32
      %304 = arith.index_castui %303 : i32 to index
      vector.store %272, %2[%304, %288] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %305 = arith.addi %8, %c33_i32 overflow<nsw> : i32
      %306 = arith.index_castui %305 : i32 to index
      vector.store %274, %2[%306, %288] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %307 = arith.addi %8, %c34_i32 overflow<nsw> : i32
      %308 = arith.index_castui %307 : i32 to index
      vector.store %276, %2[%308, %288] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %309 = arith.addi %8, %c35_i32 overflow<nsw> : i32
      %310 = arith.index_castui %309 : i32 to index
      vector.store %278, %2[%310, %288] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %311 = arith.addi %8, %c48_i32 overflow<nsw> : i32
      %312 = arith.index_castui %311 : i32 to index
      vector.store %280, %2[%312, %288] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %313 = arith.addi %8, %c49_i32 overflow<nsw> : i32
      %314 = arith.index_castui %313 : i32 to index
      vector.store %282, %2[%314, %288] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %315 = arith.addi %8, %c50_i32 overflow<nsw> : i32
      %316 = arith.index_castui %315 : i32 to index
      vector.store %284, %2[%316, %288] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %317 = arith.addi %8, %c51_i32 overflow<nsw> : i32
      %318 = arith.index_castui %317 : i32 to index
      vector.store %286, %2[%318, %288] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      gpu.barrier memfence [#gpu.address_space<workgroup>]
      memref.dealloc %alloc_1 : memref<8192xf16, #gpu.address_space<workgroup>>
      memref.dealloc %alloc : memref<128x64xf16, #gpu.address_space<workgroup>>
      gpu.return
    }
  }
}

