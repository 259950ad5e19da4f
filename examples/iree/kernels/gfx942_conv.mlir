module {
  gpu.module @kernels {
    gpu.func @conv_dispatch_0_conv_16x16x64x3x3x64_f16xf16xf32(%arg0: memref<18x18x64xf16, #gpu.address_space<global>> {llvm.noalias}, %arg1: memref<3x3x64x64xf16, #gpu.address_space<global>> {llvm.noalias}, %arg2: memref<16x16x64xf32, #gpu.address_space<global>> {llvm.noalias}) kernel attributes {known_block_size = array<i32: 512, 1, 1>} {
      %c4_i32 = arith.constant 4 : i32
      %c192_i32 = arith.constant 192 : i32
      %c9_i32 = arith.constant 9 : i32
      %c51_i32 = arith.constant 51 : i32
      %c50_i32 = arith.constant 50 : i32
      %c49_i32 = arith.constant 49 : i32
      %c35_i32 = arith.constant 35 : i32
      %c34_i32 = arith.constant 34 : i32
      %c33_i32 = arith.constant 33 : i32
      %c19_i32 = arith.constant 19 : i32
      %c18_i32 = arith.constant 18 : i32
      %c17_i32 = arith.constant 17 : i32
      %c3_i32 = arith.constant 3 : i32
      %c2_i32 = arith.constant 2 : i32
      %c1_i32 = arith.constant 1 : i32
      %c48_i32 = arith.constant 48 : i32
      %c32_i32 = arith.constant 32 : i32
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
      %16 = arith.index_castui %4 : i32 to index
      %17 = arith.divui %5, %c8_i32 : i32
      %18 = arith.index_castui %17 : i32 to index
      %19 = arith.addi %3, %c512_i32 overflow<nsw> : i32
      %20 = arith.divui %19, %c128_i32 : i32
      %21 = arith.index_castui %20 : i32 to index
      %22 = arith.remui %19, %c128_i32 : i32
      %23 = arith.divui %22, %c8_i32 : i32
      %24 = arith.index_castui %23 : i32 to index
      %25 = arith.remui %19, %c8_i32 : i32
      %26 = arith.muli %15, %c8_i32 overflow<nsw> : i32
      %27 = arith.index_castui %26 : i32 to index
      %28 = arith.muli %25, %c8_i32 overflow<nsw> : i32
      %29 = arith.index_castui %28 : i32 to index
      %block_id_x = gpu.block_id x
      %30 = arith.muli %4, %c2_i32 overflow<nsw> : i32
      %31 = arith.index_castui %30 : i32 to index
      %32 = arith.addi %11, %c16_i32 overflow<nsw> : i32
      %33 = arith.index_castui %32 : i32 to index
      %34 = arith.addi %11, %c32_i32 overflow<nsw> : i32
      %35 = arith.index_castui %34 : i32 to index
      %36 = arith.addi %11, %c48_i32 overflow<nsw> : i32
      %37 = arith.index_castui %36 : i32 to index
      %38 = arith.addi %30, %c1_i32 overflow<nsw> : i32
      %39 = arith.index_castui %38 : i32 to index
      %40 = arith.muli %6, %c32_i32 overflow<nsw> : i32
      %41 = arith.addi %40, %9 overflow<nsw> : i32
      %42 = arith.index_castui %41 : i32 to index
      %43 = arith.addi %41, %c16_i32 overflow<nsw> : i32
      %44 = arith.index_castui %43 : i32 to index
      %45 = arith.addi %11, %c1_i32 overflow<nsw> : i32
      %46 = arith.index_castui %45 : i32 to index
      %47 = arith.addi %11, %c2_i32 overflow<nsw> : i32
      %48 = arith.index_castui %47 : i32 to index
      %49 = arith.addi %11, %c3_i32 overflow<nsw> : i32
      %50 = arith.index_castui %49 : i32 to index
      %51 = arith.addi %11, %c17_i32 overflow<nsw> : i32
      %52 = arith.index_castui %51 : i32 to index
      %53 = arith.addi %11, %c18_i32 overflow<nsw> : i32
      %54 = arith.index_castui %53 : i32 to index
      %55 = arith.addi %11, %c19_i32 overflow<nsw> : i32
      %56 = arith.index_castui %55 : i32 to index
      %57 = arith.addi %11, %c33_i32 overflow<nsw> : i32
      %58 = arith.index_castui %57 : i32 to index
      %59 = arith.addi %11, %c34_i32 overflow<nsw> : i32
      %60 = arith.index_castui %59 : i32 to index
      %61 = arith.addi %11, %c35_i32 overflow<nsw> : i32
      %62 = arith.index_castui %61 : i32 to index
      %63 = arith.addi %11, %c49_i32 overflow<nsw> : i32
      %64 = arith.index_castui %63 : i32 to index
      %65 = arith.addi %11, %c50_i32 overflow<nsw> : i32
      %66 = arith.index_castui %65 : i32 to index
      %67 = arith.addi %11, %c51_i32 overflow<nsw> : i32
      %68 = arith.index_castui %67 : i32 to index
      %69 = arith.index_castui %block_id_x : index to i32
      %70 = arith.muli %69, %c8_i32 overflow<nsw> : i32
      %71 = arith.addi %4, %70 : i32
      %72 = arith.addi %20, %70 : i32
      %73:4 = scf.for %arg3 = %c0_i32 to %c9_i32 step %c1_i32 iter_args(%arg4 = %cst, %arg5 = %cst, %arg6 = %cst, %arg7 = %cst) -> (vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>)  : i32 {
        gpu.barrier memfence [#gpu.address_space<workgroup>]
        %110 = arith.muli %arg3, %c64_i32 overflow<nsw> : i32
        %111 = arith.addi %26, %110 : i32
        %112 = arith.divui %111, %c192_i32 : i32
        %113 = arith.remui %111, %c192_i32 : i32
        %114 = arith.divui %113, %c64_i32 : i32
        %115 = arith.remui %111, %c64_i32 : i32
        %116 = arith.index_castui %115 : i32 to index
        %117 = arith.addi %71, %112 : i32
        %118 = arith.index_castui %117 : i32 to index
        %119 = arith.addi %17, %114 : i32
        %120 = arith.index_castui %119 : i32 to index
        %121 = vector.load %0[%118, %120, %116] : memref<18x18x64xf16, #amdgpu.address_space<fat_raw_buffer>>, vector<8xf16>
        vector.store %121, %alloc_0[%16, %18, %27] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %122 = arith.addi %28, %110 : i32
        %123 = arith.divui %122, %c192_i32 : i32
        %124 = arith.remui %122, %c192_i32 : i32
        %125 = arith.divui %124, %c64_i32 : i32
        %126 = arith.remui %122, %c64_i32 : i32
        %127 = arith.index_castui %126 : i32 to index
        %128 = arith.addi %72, %123 : i32
        %129 = arith.index_castui %128 : i32 to index
        %130 = arith.addi %23, %125 : i32
        %131 = arith.index_castui %130 : i32 to index
        %132 = vector.load %0[%129, %131, %127] : memref<18x18x64xf16, #amdgpu.address_space<fat_raw_buffer>>, vector<8xf16>
        vector.store %132, %alloc_0[%21, %24, %29] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %133 = arith.addi %13, %110 : i32
        %134 = arith.divui %133, %c192_i32 : i32
        %135 = arith.index_castui %134 : i32 to index
        %136 = arith.remui %133, %c192_i32 : i32
        %137 = arith.divui %136, %c64_i32 : i32
        %138 = arith.index_castui %137 : i32 to index
        %139 = arith.remui %133, %c64_i32 : i32
        %140 = arith.index_castui %139 : i32 to index
        %141 = vector.load %1[%135, %138, %140, %27] : memref<3x3x64x64xf16, #amdgpu.address_space<fat_raw_buffer>>, vector<8xf16>
        vector.store %141, %alloc[%14, %27] : memref<64x68xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        gpu.barrier memfence [#gpu.address_space<workgroup>]
        %142 = vector.load %alloc_0[%31, %10, %12] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %143 = vector.load %alloc_0[%31, %10, %33] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %144 = vector.load %alloc_0[%31, %10, %35] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %145 = vector.load %alloc_0[%31, %10, %37] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %146 = vector.load %alloc_0[%39, %10, %12] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %147 = vector.load %alloc_0[%39, %10, %33] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %148 = vector.load %alloc_0[%39, %10, %35] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %149 = vector.load %alloc_0[%39, %10, %37] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %150 = vector.load %alloc[%12, %42] : memref<64x68xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %151 = vector.load %alloc[%12, %44] : memref<64x68xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %152 = vector.load %alloc[%46, %42] : memref<64x68xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %153 = vector.load %alloc[%46, %44] : memref<64x68xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %154 = vector.load %alloc[%48, %42] : memref<64x68xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %155 = vector.load %alloc[%48, %44] : memref<64x68xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %156 = vector.load %alloc[%50, %42] : memref<64x68xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %157 = vector.load %alloc[%50, %44] : memref<64x68xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %158 = vector.load %alloc[%33, %42] : memref<64x68xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %159 = vector.load %alloc[%33, %44] : memref<64x68xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %160 = vector.load %alloc[%52, %42] : memref<64x68xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %161 = vector.load %alloc[%52, %44] : memref<64x68xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %162 = vector.load %alloc[%54, %42] : memref<64x68xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %163 = vector.load %alloc[%54, %44] : memref<64x68xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %164 = vector.load %alloc[%56, %42] : memref<64x68xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %165 = vector.load %alloc[%56, %44] : memref<64x68xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %166 = vector.load %alloc[%35, %42] : memref<64x68xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %167 = vector.load %alloc[%35, %44] : memref<64x68xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %168 = vector.load %alloc[%58, %42] : memref<64x68xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %169 = vector.load %alloc[%58, %44] : memref<64x68xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %170 = vector.load %alloc[%60, %42] : memref<64x68xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %171 = vector.load %alloc[%60, %44] : memref<64x68xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %172 = vector.load %alloc[%62, %42] : memref<64x68xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %173 = vector.load %alloc[%62, %44] : memref<64x68xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %174 = vector.load %alloc[%37, %42] : memref<64x68xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %175 = vector.load %alloc[%37, %44] : memref<64x68xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %176 = vector.load %alloc[%64, %42] : memref<64x68xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %177 = vector.load %alloc[%64, %44] : memref<64x68xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %178 = vector.load %alloc[%66, %42] : memref<64x68xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %179 = vector.load %alloc[%66, %44] : memref<64x68xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %180 = vector.load %alloc[%68, %42] : memref<64x68xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %181 = vector.load %alloc[%68, %44] : memref<64x68xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %182 = vector.to_elements %150 : vector<1xf16>
        %183 = vector.to_elements %151 : vector<1xf16>
        %184 = vector.to_elements %152 : vector<1xf16>
        %185 = vector.to_elements %153 : vector<1xf16>
        %186 = vector.to_elements %154 : vector<1xf16>
        %187 = vector.to_elements %155 : vector<1xf16>
        %188 = vector.to_elements %156 : vector<1xf16>
        %189 = vector.to_elements %157 : vector<1xf16>
        %190 = vector.to_elements %158 : vector<1xf16>
        %191 = vector.to_elements %159 : vector<1xf16>
        %192 = vector.to_elements %160 : vector<1xf16>
        %193 = vector.to_elements %161 : vector<1xf16>
        %194 = vector.to_elements %162 : vector<1xf16>
        %195 = vector.to_elements %163 : vector<1xf16>
        %196 = vector.to_elements %164 : vector<1xf16>
        %197 = vector.to_elements %165 : vector<1xf16>
        %198 = vector.to_elements %166 : vector<1xf16>
        %199 = vector.to_elements %167 : vector<1xf16>
        %200 = vector.to_elements %168 : vector<1xf16>
        %201 = vector.to_elements %169 : vector<1xf16>
        %202 = vector.to_elements %170 : vector<1xf16>
        %203 = vector.to_elements %171 : vector<1xf16>
        %204 = vector.to_elements %172 : vector<1xf16>
        %205 = vector.to_elements %173 : vector<1xf16>
        %206 = vector.to_elements %174 : vector<1xf16>
        %207 = vector.to_elements %175 : vector<1xf16>
        %208 = vector.to_elements %176 : vector<1xf16>
        %209 = vector.to_elements %177 : vector<1xf16>
        %210 = vector.to_elements %178 : vector<1xf16>
        %211 = vector.to_elements %179 : vector<1xf16>
        %212 = vector.to_elements %180 : vector<1xf16>
        %213 = vector.to_elements %181 : vector<1xf16>
        %214 = vector.from_elements %182, %184, %186, %188 : vector<4xf16>
        %215 = vector.from_elements %183, %185, %187, %189 : vector<4xf16>
        %216 = vector.from_elements %190, %192, %194, %196 : vector<4xf16>
        %217 = vector.from_elements %191, %193, %195, %197 : vector<4xf16>
        %218 = vector.from_elements %198, %200, %202, %204 : vector<4xf16>
        %219 = vector.from_elements %199, %201, %203, %205 : vector<4xf16>
        %220 = vector.from_elements %206, %208, %210, %212 : vector<4xf16>
        %221 = vector.from_elements %207, %209, %211, %213 : vector<4xf16>
        %222 = amdgpu.mfma 16x16x16 %142 * %214 + %arg7 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %223 = amdgpu.mfma 16x16x16 %142 * %215 + %arg6 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %224 = amdgpu.mfma 16x16x16 %146 * %214 + %arg5 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %225 = amdgpu.mfma 16x16x16 %146 * %215 + %arg4 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %226 = amdgpu.mfma 16x16x16 %143 * %216 + %222 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %227 = amdgpu.mfma 16x16x16 %143 * %217 + %223 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %228 = amdgpu.mfma 16x16x16 %147 * %216 + %224 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %229 = amdgpu.mfma 16x16x16 %147 * %217 + %225 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %230 = amdgpu.mfma 16x16x16 %144 * %218 + %226 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %231 = amdgpu.mfma 16x16x16 %144 * %219 + %227 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %232 = amdgpu.mfma 16x16x16 %148 * %218 + %228 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %233 = amdgpu.mfma 16x16x16 %148 * %219 + %229 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %234 = amdgpu.mfma 16x16x16 %145 * %220 + %230 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %235 = amdgpu.mfma 16x16x16 %145 * %221 + %231 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %236 = amdgpu.mfma 16x16x16 %149 * %220 + %232 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %237 = amdgpu.mfma 16x16x16 %149 * %221 + %233 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        scf.yield %237, %236, %235, %234 : vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>
      }
      %74 = vector.extract %73#3[0] : f32 from vector<4xf32>
      %75 = vector.broadcast %74 : f32 to vector<1xf32>
      %76 = vector.extract %73#3[1] : f32 from vector<4xf32>
      %77 = vector.broadcast %76 : f32 to vector<1xf32>
      %78 = vector.extract %73#3[2] : f32 from vector<4xf32>
      %79 = vector.broadcast %78 : f32 to vector<1xf32>
      %80 = vector.extract %73#3[3] : f32 from vector<4xf32>
      %81 = vector.broadcast %80 : f32 to vector<1xf32>
      %82 = vector.extract %73#2[0] : f32 from vector<4xf32>
      %83 = vector.broadcast %82 : f32 to vector<1xf32>
      %84 = vector.extract %73#2[1] : f32 from vector<4xf32>
      %85 = vector.broadcast %84 : f32 to vector<1xf32>
      %86 = vector.extract %73#2[2] : f32 from vector<4xf32>
      %87 = vector.broadcast %86 : f32 to vector<1xf32>
      %88 = vector.extract %73#2[3] : f32 from vector<4xf32>
      %89 = vector.broadcast %88 : f32 to vector<1xf32>
      %90 = vector.extract %73#1[0] : f32 from vector<4xf32>
      %91 = vector.broadcast %90 : f32 to vector<1xf32>
      %92 = vector.extract %73#1[1] : f32 from vector<4xf32>
      %93 = vector.broadcast %92 : f32 to vector<1xf32>
      %94 = vector.extract %73#1[2] : f32 from vector<4xf32>
      %95 = vector.broadcast %94 : f32 to vector<1xf32>
      %96 = vector.extract %73#1[3] : f32 from vector<4xf32>
      %97 = vector.broadcast %96 : f32 to vector<1xf32>
      %98 = vector.extract %73#0[0] : f32 from vector<4xf32>
      %99 = vector.broadcast %98 : f32 to vector<1xf32>
      %100 = vector.extract %73#0[1] : f32 from vector<4xf32>
      %101 = vector.broadcast %100 : f32 to vector<1xf32>
      %102 = vector.extract %73#0[2] : f32 from vector<4xf32>
      %103 = vector.broadcast %102 : f32 to vector<1xf32>
      %104 = vector.extract %73#0[3] : f32 from vector<4xf32>
      %105 = vector.broadcast %104 : f32 to vector<1xf32>
      %106 = arith.addi %30, %70 : i32
      %107 = arith.index_castui %106 : i32 to index
      vector.store %75, %2[%107, %12, %42] : memref<16x16x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      vector.store %83, %2[%107, %12, %44] : memref<16x16x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      vector.store %77, %2[%107, %46, %42] : memref<16x16x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      vector.store %85, %2[%107, %46, %44] : memref<16x16x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      vector.store %79, %2[%107, %48, %42] : memref<16x16x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      vector.store %87, %2[%107, %48, %44] : memref<16x16x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      vector.store %81, %2[%107, %50, %42] : memref<16x16x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      vector.store %89, %2[%107, %50, %44] : memref<16x16x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %108 = arith.addi %106, %c1_i32 overflow<nsw> : i32
      %109 = arith.index_castui %108 : i32 to index
      vector.store %91, %2[%109, %12, %42] : memref<16x16x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      vector.store %99, %2[%109, %12, %44] : memref<16x16x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      vector.store %93, %2[%109, %46, %42] : memref<16x16x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      vector.store %101, %2[%109, %46, %44] : memref<16x16x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      vector.store %95, %2[%109, %48, %42] : memref<16x16x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      vector.store %103, %2[%109, %48, %44] : memref<16x16x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      vector.store %97, %2[%109, %50, %42] : memref<16x16x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      vector.store %105, %2[%109, %50, %44] : memref<16x16x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      gpu.barrier memfence [#gpu.address_space<workgroup>]
      memref.dealloc %alloc_0 : memref<8x16x68xf16, #gpu.address_space<workgroup>>
      memref.dealloc %alloc : memref<64x68xf16, #gpu.address_space<workgroup>>
      gpu.return
    }
  }
}

