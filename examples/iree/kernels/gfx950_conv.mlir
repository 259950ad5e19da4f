module {
  gpu.module @kernels {
    gpu.func @conv_dispatch_0_conv_16x16x64x3x3x64_f16xf16xf32(%arg0: memref<18x18x64xf16, #gpu.address_space<global>> {llvm.noalias}, %arg1: memref<3x3x64x64xf16, #gpu.address_space<global>> {llvm.noalias}, %arg2: memref<16x16x64xf32, #gpu.address_space<global>> {llvm.noalias}) kernel attributes {known_block_size = array<i32: 512, 1, 1>} {
      %c28_i32 = arith.constant 28 : i32
      %c24_i32 = arith.constant 24 : i32
      %c20_i32 = arith.constant 20 : i32
      %c12_i32 = arith.constant 12 : i32
      %c4_i32 = arith.constant 4 : i32
      %c3_i32 = arith.constant 3 : i32
      %c192_i32 = arith.constant 192 : i32
      %c1_i32 = arith.constant 1 : i32
      %c9_i32 = arith.constant 9 : i32
      %c32_i32 = arith.constant 32 : i32
      %c2_i32 = arith.constant 2 : i32
      %c16_i32 = arith.constant 16 : i32
      %c512_i32 = arith.constant 512 : i32
      %c8_i32 = arith.constant 8 : i32
      %c64_i32 = arith.constant 64 : i32
      %c0_i32 = arith.constant 0 : i32
      %c128_i32 = arith.constant 128 : i32
      %c0 = arith.constant 0 : index
      %cst = arith.constant dense<0.000000e+00> : vector<4xf32>
      %alloc = memref.alloc() : memref<64x68xf16, #gpu.address_space<workgroup>>
      %alloc_0 = memref.alloc() : memref<8x16x68xf16, #gpu.address_space<workgroup>>
      %thread_id_x = gpu.thread_id x upper_bound 512
      %assume_align = memref.assume_alignment %arg0, 64 : memref<18x18x64xf16, #gpu.address_space<global>>
      %0 = amdgpu.fat_raw_buffer_cast %assume_align resetOffset : memref<18x18x64xf16, #gpu.address_space<global>> to memref<18x18x64xf16, #amdgpu.address_space<fat_raw_buffer>>
      %assume_align_1 = memref.assume_alignment %arg1, 64 : memref<3x3x64x64xf16, #gpu.address_space<global>>
      %1 = amdgpu.fat_raw_buffer_cast %assume_align_1 resetOffset : memref<3x3x64x64xf16, #gpu.address_space<global>> to memref<3x3x64x64xf16, #amdgpu.address_space<fat_raw_buffer>>
      %assume_align_2 = memref.assume_alignment %arg2, 64 : memref<16x16x64xf32, #gpu.address_space<global>>
      %2 = amdgpu.fat_raw_buffer_cast %assume_align_2 resetOffset : memref<16x16x64xf32, #gpu.address_space<global>> to memref<16x16x64xf32, #amdgpu.address_space<fat_raw_buffer>>
      %3 = arith.index_castui %thread_id_x : index to i32
      %4 = arith.divui %3, %c128_i32 : i32
      %5 = arith.remui %3, %c128_i32 : i32
      %6 = arith.divui %5, %c64_i32 : i32
      %7 = arith.remui %3, %c64_i32 : i32
      %8 = arith.divui %7, %c16_i32 : i32
      %9 = arith.remui %7, %c16_i32 : i32
      %10 = arith.index_castui %9 : i32 to index
      %11 = arith.muli %8, %c4_i32 overflow<nsw> : i32
      %12 = arith.index_castui %11 : i32 to index
      %13 = arith.divui %3, %c8_i32 : i32
      %14 = arith.index_castui %13 : i32 to index
      %15 = arith.remui %3, %c8_i32 : i32
      %16 = arith.muli %6, %c2_i32 overflow<nsw> : i32
      %17 = arith.muli %8, %c8_i32 overflow<nsw> : i32
      %18 = arith.index_castui %17 : i32 to index
      %19 = arith.index_castui %4 : i32 to index
      %20 = arith.divui %5, %c8_i32 : i32
      %21 = arith.index_castui %20 : i32 to index
      %22 = arith.addi %3, %c512_i32 overflow<nsw> : i32
      %23 = arith.divui %22, %c128_i32 : i32
      %24 = arith.index_castui %23 : i32 to index
      %25 = arith.remui %22, %c128_i32 : i32
      %26 = arith.divui %25, %c8_i32 : i32
      %27 = arith.index_castui %26 : i32 to index
      %28 = arith.remui %22, %c8_i32 : i32
      %29 = gpu.lane_id upper_bound 64
      %30 = arith.index_castui %29 : index to i32
      %31 = arith.remui %30, %c16_i32 : i32
      %32 = arith.divui %31, %c4_i32 : i32
      %33 = arith.subi %9, %31 : i32
      %34 = arith.remui %31, %c4_i32 : i32
      %35 = arith.muli %34, %c4_i32 : i32
      %36 = arith.addi %33, %35 : i32
      %37 = arith.divui %32, %c2_i32 : i32
      %38 = arith.remui %32, %c2_i32 : i32
      %39 = arith.addi %17, %37 : i32
      %40 = arith.index_castui %39 : i32 to index
      %41 = arith.addi %16, %38 : i32
      %42 = arith.addi %32, %c4_i32 : i32
      %43 = arith.divui %42, %c2_i32 : i32
      %44 = arith.remui %42, %c2_i32 : i32
      %45 = arith.addi %17, %43 : i32
      %46 = arith.index_castui %45 : i32 to index
      %47 = arith.addi %16, %44 : i32
      %48 = arith.addi %32, %c8_i32 : i32
      %49 = arith.divui %48, %c2_i32 : i32
      %50 = arith.remui %48, %c2_i32 : i32
      %51 = arith.addi %17, %49 : i32
      %52 = arith.index_castui %51 : i32 to index
      %53 = arith.addi %16, %50 : i32
      %54 = arith.addi %32, %c12_i32 : i32
      %55 = arith.divui %54, %c2_i32 : i32
      %56 = arith.remui %54, %c2_i32 : i32
      %57 = arith.addi %17, %55 : i32
      %58 = arith.index_castui %57 : i32 to index
      %59 = arith.addi %16, %56 : i32
      %60 = arith.addi %32, %c16_i32 : i32
      %61 = arith.remui %60, %c16_i32 : i32
      %62 = arith.divui %61, %c2_i32 : i32
      %63 = arith.remui %60, %c2_i32 : i32
      %64 = arith.addi %17, %62 : i32
      %65 = arith.addi %16, %63 : i32
      %66 = arith.addi %32, %c20_i32 : i32
      %67 = arith.remui %66, %c16_i32 : i32
      %68 = arith.divui %67, %c2_i32 : i32
      %69 = arith.remui %66, %c2_i32 : i32
      %70 = arith.addi %17, %68 : i32
      %71 = arith.addi %16, %69 : i32
      %72 = arith.addi %32, %c24_i32 : i32
      %73 = arith.remui %72, %c16_i32 : i32
      %74 = arith.divui %73, %c2_i32 : i32
      %75 = arith.remui %72, %c2_i32 : i32
      %76 = arith.addi %17, %74 : i32
      %77 = arith.addi %16, %75 : i32
      %78 = arith.addi %32, %c28_i32 : i32
      %79 = arith.remui %78, %c16_i32 : i32
      %80 = arith.divui %79, %c2_i32 : i32
      %81 = arith.remui %78, %c2_i32 : i32
      %82 = arith.addi %17, %80 : i32
      %83 = arith.addi %16, %81 : i32
      %84 = arith.muli %15, %c8_i32 overflow<nsw> : i32
      %85 = arith.index_castui %84 : i32 to index
      %86 = arith.muli %28, %c8_i32 overflow<nsw> : i32
      %87 = arith.index_castui %86 : i32 to index
      %88 = arith.muli %41, %c16_i32 overflow<nsw> : i32
      %89 = arith.addi %88, %36 overflow<nsw> : i32
      %90 = arith.index_cast %89 : i32 to index
      %91 = arith.muli %47, %c16_i32 overflow<nsw> : i32
      %92 = arith.addi %91, %36 overflow<nsw> : i32
      %93 = arith.index_cast %92 : i32 to index
      %94 = arith.muli %53, %c16_i32 overflow<nsw> : i32
      %95 = arith.addi %94, %36 overflow<nsw> : i32
      %96 = arith.index_cast %95 : i32 to index
      %97 = arith.muli %59, %c16_i32 overflow<nsw> : i32
      %98 = arith.addi %97, %36 overflow<nsw> : i32
      %99 = arith.index_cast %98 : i32 to index
      %100 = arith.addi %64, %c32_i32 overflow<nsw> : i32
      %101 = arith.index_castui %100 : i32 to index
      %102 = arith.muli %65, %c16_i32 overflow<nsw> : i32
      %103 = arith.addi %102, %36 overflow<nsw> : i32
      %104 = arith.index_cast %103 : i32 to index
      %105 = arith.addi %70, %c32_i32 overflow<nsw> : i32
      %106 = arith.index_castui %105 : i32 to index
      %107 = arith.muli %71, %c16_i32 overflow<nsw> : i32
      %108 = arith.addi %107, %36 overflow<nsw> : i32
      %109 = arith.index_cast %108 : i32 to index
      %110 = arith.addi %76, %c32_i32 overflow<nsw> : i32
      %111 = arith.index_castui %110 : i32 to index
      %112 = arith.muli %77, %c16_i32 overflow<nsw> : i32
      %113 = arith.addi %112, %36 overflow<nsw> : i32
      %114 = arith.index_cast %113 : i32 to index
      %115 = arith.addi %82, %c32_i32 overflow<nsw> : i32
      %116 = arith.index_castui %115 : i32 to index
      %117 = arith.muli %83, %c16_i32 overflow<nsw> : i32
      %118 = arith.addi %117, %36 overflow<nsw> : i32
      %119 = arith.index_cast %118 : i32 to index
      %block_id_x = gpu.block_id x
      %120 = arith.muli %4, %c2_i32 overflow<nsw> : i32
      %121 = arith.index_castui %120 : i32 to index
      %122 = arith.addi %17, %c32_i32 overflow<nsw> : i32
      %123 = arith.index_castui %122 : i32 to index
      %124 = arith.addi %120, %c1_i32 overflow<nsw> : i32
      %125 = arith.index_castui %124 : i32 to index
      %126 = arith.index_castui %block_id_x : index to i32
      %127 = arith.muli %126, %c8_i32 overflow<nsw> : i32
      %128 = arith.addi %4, %127 : i32
      %129 = arith.addi %23, %127 : i32
      %130:4 = scf.for %arg3 = %c0_i32 to %c9_i32 step %c1_i32 iter_args(%arg4 = %cst, %arg5 = %cst, %arg6 = %cst, %arg7 = %cst) -> (vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>)  : i32 {
        gpu.barrier memfence [#gpu.address_space<workgroup>]
        %178 = arith.muli %arg3, %c64_i32 overflow<nsw> : i32
        %179 = arith.addi %84, %178 : i32
        %180 = arith.divui %179, %c192_i32 : i32
        %181 = arith.remui %179, %c192_i32 : i32
        %182 = arith.divui %181, %c64_i32 : i32
        %183 = arith.remui %179, %c64_i32 : i32
        %184 = arith.index_castui %183 : i32 to index
        %185 = arith.addi %128, %180 : i32
        %186 = arith.index_castui %185 : i32 to index
        %187 = arith.addi %20, %182 : i32
        %188 = arith.index_castui %187 : i32 to index
        %189 = vector.load %0[%186, %188, %184] : memref<18x18x64xf16, #amdgpu.address_space<fat_raw_buffer>>, vector<8xf16>
        vector.store %189, %alloc_0[%19, %21, %85] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %190 = arith.addi %86, %178 : i32
        %191 = arith.divui %190, %c192_i32 : i32
        %192 = arith.remui %190, %c192_i32 : i32
        %193 = arith.divui %192, %c64_i32 : i32
        %194 = arith.remui %190, %c64_i32 : i32
        %195 = arith.index_castui %194 : i32 to index
        %196 = arith.addi %129, %191 : i32
        %197 = arith.index_castui %196 : i32 to index
        %198 = arith.addi %26, %193 : i32
        %199 = arith.index_castui %198 : i32 to index
        %200 = vector.load %0[%197, %199, %195] : memref<18x18x64xf16, #amdgpu.address_space<fat_raw_buffer>>, vector<8xf16>
        vector.store %200, %alloc_0[%24, %27, %87] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %201 = arith.addi %13, %178 : i32
        %202 = arith.divui %201, %c192_i32 : i32
        %203 = arith.index_castui %202 : i32 to index
        %204 = arith.remui %201, %c192_i32 : i32
        %205 = arith.divui %204, %c64_i32 : i32
        %206 = arith.index_castui %205 : i32 to index
        %207 = arith.remui %201, %c64_i32 : i32
        %208 = arith.index_castui %207 : i32 to index
        %209 = vector.load %1[%203, %206, %208, %85] : memref<3x3x64x64xf16, #amdgpu.address_space<fat_raw_buffer>>, vector<8xf16>
        vector.store %209, %alloc[%14, %85] : memref<64x68xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        gpu.barrier memfence [#gpu.address_space<workgroup>]
        %210 = vector.load %alloc_0[%121, %10, %18] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %211 = vector.load %alloc_0[%121, %10, %123] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %212 = vector.load %alloc_0[%125, %10, %18] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %213 = vector.load %alloc_0[%125, %10, %123] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %214 = amdgpu.transpose_load %alloc[%40, %90] : memref<64x68xf16, #gpu.address_space<workgroup>> -> vector<4xf16>
        %215 = amdgpu.transpose_load %alloc[%46, %93] : memref<64x68xf16, #gpu.address_space<workgroup>> -> vector<4xf16>
        %216 = amdgpu.transpose_load %alloc[%52, %96] : memref<64x68xf16, #gpu.address_space<workgroup>> -> vector<4xf16>
        %217 = amdgpu.transpose_load %alloc[%58, %99] : memref<64x68xf16, #gpu.address_space<workgroup>> -> vector<4xf16>
        %218 = amdgpu.transpose_load %alloc[%101, %104] : memref<64x68xf16, #gpu.address_space<workgroup>> -> vector<4xf16>
        %219 = amdgpu.transpose_load %alloc[%106, %109] : memref<64x68xf16, #gpu.address_space<workgroup>> -> vector<4xf16>
        %220 = amdgpu.transpose_load %alloc[%111, %114] : memref<64x68xf16, #gpu.address_space<workgroup>> -> vector<4xf16>
        %221 = amdgpu.transpose_load %alloc[%116, %119] : memref<64x68xf16, #gpu.address_space<workgroup>> -> vector<4xf16>
        %222 = vector.extract %214[0] : f16 from vector<4xf16>
        %223 = vector.extract %214[1] : f16 from vector<4xf16>
        %224 = vector.extract %214[2] : f16 from vector<4xf16>
        %225 = vector.extract %214[3] : f16 from vector<4xf16>
        %226 = vector.extract %215[0] : f16 from vector<4xf16>
        %227 = vector.extract %215[1] : f16 from vector<4xf16>
        %228 = vector.extract %215[2] : f16 from vector<4xf16>
        %229 = vector.extract %215[3] : f16 from vector<4xf16>
        %230 = vector.extract %216[0] : f16 from vector<4xf16>
        %231 = vector.extract %216[1] : f16 from vector<4xf16>
        %232 = vector.extract %216[2] : f16 from vector<4xf16>
        %233 = vector.extract %216[3] : f16 from vector<4xf16>
        %234 = vector.extract %217[0] : f16 from vector<4xf16>
        %235 = vector.extract %217[1] : f16 from vector<4xf16>
        %236 = vector.extract %217[2] : f16 from vector<4xf16>
        %237 = vector.extract %217[3] : f16 from vector<4xf16>
        %238 = vector.extract %218[0] : f16 from vector<4xf16>
        %239 = vector.extract %218[1] : f16 from vector<4xf16>
        %240 = vector.extract %218[2] : f16 from vector<4xf16>
        %241 = vector.extract %218[3] : f16 from vector<4xf16>
        %242 = vector.extract %219[0] : f16 from vector<4xf16>
        %243 = vector.extract %219[1] : f16 from vector<4xf16>
        %244 = vector.extract %219[2] : f16 from vector<4xf16>
        %245 = vector.extract %219[3] : f16 from vector<4xf16>
        %246 = vector.extract %220[0] : f16 from vector<4xf16>
        %247 = vector.extract %220[1] : f16 from vector<4xf16>
        %248 = vector.extract %220[2] : f16 from vector<4xf16>
        %249 = vector.extract %220[3] : f16 from vector<4xf16>
        %250 = vector.extract %221[0] : f16 from vector<4xf16>
        %251 = vector.extract %221[1] : f16 from vector<4xf16>
        %252 = vector.extract %221[2] : f16 from vector<4xf16>
        %253 = vector.extract %221[3] : f16 from vector<4xf16>
        %254 = vector.from_elements %222, %224, %226, %228, %230, %232, %234, %236 : vector<8xf16>
        %255 = vector.from_elements %223, %225, %227, %229, %231, %233, %235, %237 : vector<8xf16>
        %256 = vector.from_elements %238, %240, %242, %244, %246, %248, %250, %252 : vector<8xf16>
        %257 = vector.from_elements %239, %241, %243, %245, %247, %249, %251, %253 : vector<8xf16>
        %258 = amdgpu.mfma 16x16x32 %210 * %254 + %arg7 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %259 = amdgpu.mfma 16x16x32 %210 * %255 + %arg6 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %260 = amdgpu.mfma 16x16x32 %212 * %254 + %arg5 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %261 = amdgpu.mfma 16x16x32 %212 * %255 + %arg4 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %262 = amdgpu.mfma 16x16x32 %211 * %256 + %258 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %263 = amdgpu.mfma 16x16x32 %211 * %257 + %259 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %264 = amdgpu.mfma 16x16x32 %213 * %256 + %260 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        %265 = amdgpu.mfma 16x16x32 %213 * %257 + %261 blgp = none : vector<8xf16>, vector<8xf16>, vector<4xf32>
        scf.yield %265, %264, %263, %262 : vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>
      }
      %131 = vector.extract %130#3[0] : f32 from vector<4xf32>
      %132 = vector.broadcast %131 : f32 to vector<1xf32>
      %133 = vector.extract %130#3[1] : f32 from vector<4xf32>
      %134 = vector.broadcast %133 : f32 to vector<1xf32>
      %135 = vector.extract %130#3[2] : f32 from vector<4xf32>
      %136 = vector.broadcast %135 : f32 to vector<1xf32>
      %137 = vector.extract %130#3[3] : f32 from vector<4xf32>
      %138 = vector.broadcast %137 : f32 to vector<1xf32>
      %139 = vector.extract %130#2[0] : f32 from vector<4xf32>
      %140 = vector.broadcast %139 : f32 to vector<1xf32>
      %141 = vector.extract %130#2[1] : f32 from vector<4xf32>
      %142 = vector.broadcast %141 : f32 to vector<1xf32>
      %143 = vector.extract %130#2[2] : f32 from vector<4xf32>
      %144 = vector.broadcast %143 : f32 to vector<1xf32>
      %145 = vector.extract %130#2[3] : f32 from vector<4xf32>
      %146 = vector.broadcast %145 : f32 to vector<1xf32>
      %147 = vector.extract %130#1[0] : f32 from vector<4xf32>
      %148 = vector.broadcast %147 : f32 to vector<1xf32>
      %149 = vector.extract %130#1[1] : f32 from vector<4xf32>
      %150 = vector.broadcast %149 : f32 to vector<1xf32>
      %151 = vector.extract %130#1[2] : f32 from vector<4xf32>
      %152 = vector.broadcast %151 : f32 to vector<1xf32>
      %153 = vector.extract %130#1[3] : f32 from vector<4xf32>
      %154 = vector.broadcast %153 : f32 to vector<1xf32>
      %155 = vector.extract %130#0[0] : f32 from vector<4xf32>
      %156 = vector.broadcast %155 : f32 to vector<1xf32>
      %157 = vector.extract %130#0[1] : f32 from vector<4xf32>
      %158 = vector.broadcast %157 : f32 to vector<1xf32>
      %159 = vector.extract %130#0[2] : f32 from vector<4xf32>
      %160 = vector.broadcast %159 : f32 to vector<1xf32>
      %161 = vector.extract %130#0[3] : f32 from vector<4xf32>
      %162 = vector.broadcast %161 : f32 to vector<1xf32>
      %163 = arith.addi %120, %127 : i32
      %164 = arith.index_castui %163 : i32 to index
      %165 = arith.muli %6, %c32_i32 overflow<nsw> : i32
      %166 = arith.addi %165, %9 overflow<nsw> : i32
      %167 = arith.index_castui %166 : i32 to index
      vector.store %132, %2[%164, %12, %167] : memref<16x16x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %168 = arith.addi %166, %c16_i32 overflow<nsw> : i32
      %169 = arith.index_castui %168 : i32 to index
      vector.store %140, %2[%164, %12, %169] : memref<16x16x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %170 = arith.addi %11, %c1_i32 overflow<nsw> : i32
      %171 = arith.index_castui %170 : i32 to index
      vector.store %134, %2[%164, %171, %167] : memref<16x16x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      vector.store %142, %2[%164, %171, %169] : memref<16x16x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %172 = arith.addi %11, %c2_i32 overflow<nsw> : i32
      %173 = arith.index_castui %172 : i32 to index
      vector.store %136, %2[%164, %173, %167] : memref<16x16x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      vector.store %144, %2[%164, %173, %169] : memref<16x16x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %174 = arith.addi %11, %c3_i32 overflow<nsw> : i32
      %175 = arith.index_castui %174 : i32 to index
      vector.store %138, %2[%164, %175, %167] : memref<16x16x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      vector.store %146, %2[%164, %175, %169] : memref<16x16x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %176 = arith.addi %163, %c1_i32 overflow<nsw> : i32
      %177 = arith.index_castui %176 : i32 to index
      vector.store %148, %2[%177, %12, %167] : memref<16x16x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      vector.store %156, %2[%177, %12, %169] : memref<16x16x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      vector.store %150, %2[%177, %171, %167] : memref<16x16x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      vector.store %158, %2[%177, %171, %169] : memref<16x16x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      vector.store %152, %2[%177, %173, %167] : memref<16x16x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      vector.store %160, %2[%177, %173, %169] : memref<16x16x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      vector.store %154, %2[%177, %175, %167] : memref<16x16x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      vector.store %162, %2[%177, %175, %169] : memref<16x16x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      gpu.barrier memfence [#gpu.address_space<workgroup>]
      memref.dealloc %alloc_0 : memref<8x16x68xf16, #gpu.address_space<workgroup>>
      memref.dealloc %alloc : memref<64x68xf16, #gpu.address_space<workgroup>>
      gpu.return
    }
  }
}

