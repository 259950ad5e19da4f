module {
  gpu.module @kernels {
    gpu.func @matmul_dispatch_0_matmul_64x64x1024_f16xf16xf32(%arg0: memref<64x1024xf16, #gpu.address_space<global>> {llvm.noalias}, %arg1: memref<64x1024xf16, #gpu.address_space<global>> {llvm.noalias}, %arg2: memref<64x64xf32, #gpu.address_space<global>> {llvm.noalias}) kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
      %c4_i32 = arith.constant 4 : i32
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
      %c8_i32 = arith.constant 8 : i32
      %c112_i32 = arith.constant 112 : i32
      %c96_i32 = arith.constant 96 : i32
      %c80_i32 = arith.constant 80 : i32
      %c48_i32 = arith.constant 48 : i32
      %c32_i32 = arith.constant 32 : i32
      %c768_i32 = arith.constant 768 : i32
      %c512_i32 = arith.constant 512 : i32
      %c256_i32 = arith.constant 256 : i32
      %c16_i32 = arith.constant 16 : i32
      %c0_i32 = arith.constant 0 : i32
      %c64_i32 = arith.constant 64 : i32
      %c0 = arith.constant 0 : index
      %cst = arith.constant dense<0.000000e+00> : vector<4xf32>
      %alloc = memref.alloc() : memref<64x132xf16, #gpu.address_space<workgroup>>
      %alloc_0 = memref.alloc() : memref<64x132xf16, #gpu.address_space<workgroup>>
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
      %8 = arith.index_castui %7 : i32 to index
      %9 = arith.muli %6, %c4_i32 overflow<nsw> : i32
      %10 = arith.index_castui %9 : i32 to index
      %11 = arith.divui %3, %c16_i32 : i32
      %12 = arith.index_castui %11 : i32 to index
      %13 = arith.remui %3, %c16_i32 : i32
      %14 = arith.addi %3, %c256_i32 overflow<nsw> : i32
      %15 = arith.divui %14, %c16_i32 : i32
      %16 = arith.index_castui %15 : i32 to index
      %17 = arith.remui %14, %c16_i32 : i32
      %18 = arith.addi %3, %c512_i32 overflow<nsw> : i32
      %19 = arith.divui %18, %c16_i32 : i32
      %20 = arith.index_castui %19 : i32 to index
      %21 = arith.remui %18, %c16_i32 : i32
      %22 = arith.addi %3, %c768_i32 overflow<nsw> : i32
      %23 = arith.divui %22, %c16_i32 : i32
      %24 = arith.index_castui %23 : i32 to index
      %25 = arith.remui %22, %c16_i32 : i32
      %26 = arith.muli %13, %c8_i32 overflow<nsw> : i32
      %27 = arith.index_castui %26 : i32 to index
      %28 = arith.muli %17, %c8_i32 overflow<nsw> : i32
      %29 = arith.index_castui %28 : i32 to index
      %30 = arith.muli %21, %c8_i32 overflow<nsw> : i32
      %31 = arith.index_castui %30 : i32 to index
      %32 = arith.muli %25, %c8_i32 overflow<nsw> : i32
      %33 = arith.index_castui %32 : i32 to index
      %34 = arith.addi %9, %c16_i32 overflow<nsw> : i32
      %35 = arith.index_castui %34 : i32 to index
      %36 = arith.addi %9, %c32_i32 overflow<nsw> : i32
      %37 = arith.index_castui %36 : i32 to index
      %38 = arith.addi %9, %c48_i32 overflow<nsw> : i32
      %39 = arith.index_castui %38 : i32 to index
      %40 = arith.addi %9, %c64_i32 overflow<nsw> : i32
      %41 = arith.index_castui %40 : i32 to index
      %42 = arith.addi %9, %c80_i32 overflow<nsw> : i32
      %43 = arith.index_castui %42 : i32 to index
      %44 = arith.addi %9, %c96_i32 overflow<nsw> : i32
      %45 = arith.index_castui %44 : i32 to index
      %46 = arith.addi %9, %c112_i32 overflow<nsw> : i32
      %47 = arith.index_castui %46 : i32 to index
      %48 = arith.addi %7, %c16_i32 overflow<nsw> : i32
      %49 = arith.index_castui %48 : i32 to index
      %50 = arith.addi %7, %c32_i32 overflow<nsw> : i32
      %51 = arith.index_castui %50 : i32 to index
      %52 = arith.addi %7, %c48_i32 overflow<nsw> : i32
      %53 = arith.index_castui %52 : i32 to index
      %54 = arith.muli %4, %c16_i32 overflow<nsw> : i32
      %55 = arith.addi %54, %7 overflow<nsw> : i32
      %56 = arith.index_castui %55 : i32 to index
      %57:4 = scf.for %arg3 = %c0_i32 to %c64_i32 step %c8_i32 iter_args(%arg4 = %cst, %arg5 = %cst, %arg6 = %cst, %arg7 = %cst) -> (vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>)  : i32 {
        gpu.barrier memfence [#gpu.address_space<workgroup>]
        %114 = arith.muli %arg3, %c16_i32 overflow<nsw> : i32
        %115 = arith.addi %26, %114 : i32
        %116 = arith.index_castui %115 : i32 to index
        %117 = vector.load %0[%12, %116] : memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, vector<8xf16>
        vector.store %117, %alloc[%12, %27] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %118 = arith.addi %28, %114 : i32
        %119 = arith.index_castui %118 : i32 to index
        %120 = vector.load %0[%16, %119] : memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, vector<8xf16>
        vector.store %120, %alloc[%16, %29] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %121 = arith.addi %30, %114 : i32
        %122 = arith.index_castui %121 : i32 to index
        %123 = vector.load %0[%20, %122] : memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, vector<8xf16>
        vector.store %123, %alloc[%20, %31] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %124 = arith.addi %32, %114 : i32
        %125 = arith.index_castui %124 : i32 to index
        %126 = vector.load %0[%24, %125] : memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, vector<8xf16>
        vector.store %126, %alloc[%24, %33] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %127 = vector.load %1[%12, %116] : memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, vector<8xf16>
        vector.store %127, %alloc_0[%12, %27] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %128 = vector.load %1[%16, %119] : memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, vector<8xf16>
        vector.store %128, %alloc_0[%16, %29] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %129 = vector.load %1[%20, %122] : memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, vector<8xf16>
        vector.store %129, %alloc_0[%20, %31] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %130 = vector.load %1[%24, %125] : memref<64x1024xf16, #amdgpu.address_space<fat_raw_buffer>>, vector<8xf16>
        vector.store %130, %alloc_0[%24, %33] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        gpu.barrier memfence [#gpu.address_space<workgroup>]
        %131 = vector.load %alloc[%8, %10] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %132 = vector.load %alloc[%8, %35] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %133 = vector.load %alloc[%8, %37] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %134 = vector.load %alloc[%8, %39] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %135 = vector.load %alloc[%8, %41] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %136 = vector.load %alloc[%8, %43] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %137 = vector.load %alloc[%8, %45] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %138 = vector.load %alloc[%8, %47] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %139 = vector.load %alloc[%49, %10] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %140 = vector.load %alloc[%49, %35] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %141 = vector.load %alloc[%49, %37] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %142 = vector.load %alloc[%49, %39] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %143 = vector.load %alloc[%49, %41] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %144 = vector.load %alloc[%49, %43] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %145 = vector.load %alloc[%49, %45] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %146 = vector.load %alloc[%49, %47] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %147 = vector.load %alloc[%51, %10] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %148 = vector.load %alloc[%51, %35] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %149 = vector.load %alloc[%51, %37] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %150 = vector.load %alloc[%51, %39] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %151 = vector.load %alloc[%51, %41] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %152 = vector.load %alloc[%51, %43] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %153 = vector.load %alloc[%51, %45] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %154 = vector.load %alloc[%51, %47] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %155 = vector.load %alloc[%53, %10] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %156 = vector.load %alloc[%53, %35] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %157 = vector.load %alloc[%53, %37] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %158 = vector.load %alloc[%53, %39] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %159 = vector.load %alloc[%53, %41] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %160 = vector.load %alloc[%53, %43] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %161 = vector.load %alloc[%53, %45] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %162 = vector.load %alloc[%53, %47] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %163 = vector.load %alloc_0[%56, %10] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %164 = vector.load %alloc_0[%56, %35] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %165 = vector.load %alloc_0[%56, %37] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %166 = vector.load %alloc_0[%56, %39] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %167 = vector.load %alloc_0[%56, %41] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %168 = vector.load %alloc_0[%56, %43] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %169 = vector.load %alloc_0[%56, %45] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %170 = vector.load %alloc_0[%56, %47] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<4xf16>
        %171 = amdgpu.mfma 16x16x16 %131 * %163 + %arg7 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %172 = amdgpu.mfma 16x16x16 %139 * %163 + %arg6 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %173 = amdgpu.mfma 16x16x16 %147 * %163 + %arg5 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %174 = amdgpu.mfma 16x16x16 %155 * %163 + %arg4 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %175 = amdgpu.mfma 16x16x16 %132 * %164 + %171 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %176 = amdgpu.mfma 16x16x16 %140 * %164 + %172 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %177 = amdgpu.mfma 16x16x16 %148 * %164 + %173 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %178 = amdgpu.mfma 16x16x16 %156 * %164 + %174 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %179 = amdgpu.mfma 16x16x16 %133 * %165 + %175 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %180 = amdgpu.mfma 16x16x16 %141 * %165 + %176 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %181 = amdgpu.mfma 16x16x16 %149 * %165 + %177 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %182 = amdgpu.mfma 16x16x16 %157 * %165 + %178 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %183 = amdgpu.mfma 16x16x16 %134 * %166 + %179 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %184 = amdgpu.mfma 16x16x16 %142 * %166 + %180 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %185 = amdgpu.mfma 16x16x16 %150 * %166 + %181 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %186 = amdgpu.mfma 16x16x16 %158 * %166 + %182 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %187 = amdgpu.mfma 16x16x16 %135 * %167 + %183 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %188 = amdgpu.mfma 16x16x16 %143 * %167 + %184 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %189 = amdgpu.mfma 16x16x16 %151 * %167 + %185 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %190 = amdgpu.mfma 16x16x16 %159 * %167 + %186 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %191 = amdgpu.mfma 16x16x16 %136 * %168 + %187 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %192 = amdgpu.mfma 16x16x16 %144 * %168 + %188 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %193 = amdgpu.mfma 16x16x16 %152 * %168 + %189 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %194 = amdgpu.mfma 16x16x16 %160 * %168 + %190 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %195 = amdgpu.mfma 16x16x16 %137 * %169 + %191 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %196 = amdgpu.mfma 16x16x16 %145 * %169 + %192 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %197 = amdgpu.mfma 16x16x16 %153 * %169 + %193 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %198 = amdgpu.mfma 16x16x16 %161 * %169 + %194 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %199 = amdgpu.mfma 16x16x16 %138 * %170 + %195 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %200 = amdgpu.mfma 16x16x16 %146 * %170 + %196 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %201 = amdgpu.mfma 16x16x16 %154 * %170 + %197 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        %202 = amdgpu.mfma 16x16x16 %162 * %170 + %198 blgp = none : vector<4xf16>, vector<4xf16>, vector<4xf32>
        scf.yield %202, %201, %200, %199 : vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>
      }
      %58 = vector.extract %57#3[0] : f32 from vector<4xf32>
      %59 = vector.broadcast %58 : f32 to vector<1xf32>
      %60 = vector.extract %57#3[1] : f32 from vector<4xf32>
      %61 = vector.broadcast %60 : f32 to vector<1xf32>
      %62 = vector.extract %57#3[2] : f32 from vector<4xf32>
      %63 = vector.broadcast %62 : f32 to vector<1xf32>
      %64 = vector.extract %57#3[3] : f32 from vector<4xf32>
      %65 = vector.broadcast %64 : f32 to vector<1xf32>
      %66 = vector.extract %57#2[0] : f32 from vector<4xf32>
      %67 = vector.broadcast %66 : f32 to vector<1xf32>
      %68 = vector.extract %57#2[1] : f32 from vector<4xf32>
      %69 = vector.broadcast %68 : f32 to vector<1xf32>
      %70 = vector.extract %57#2[2] : f32 from vector<4xf32>
      %71 = vector.broadcast %70 : f32 to vector<1xf32>
      %72 = vector.extract %57#2[3] : f32 from vector<4xf32>
      %73 = vector.broadcast %72 : f32 to vector<1xf32>
      %74 = vector.extract %57#1[0] : f32 from vector<4xf32>
      %75 = vector.broadcast %74 : f32 to vector<1xf32>
      %76 = vector.extract %57#1[1] : f32 from vector<4xf32>
      %77 = vector.broadcast %76 : f32 to vector<1xf32>
      %78 = vector.extract %57#1[2] : f32 from vector<4xf32>
      %79 = vector.broadcast %78 : f32 to vector<1xf32>
      %80 = vector.extract %57#1[3] : f32 from vector<4xf32>
      %81 = vector.broadcast %80 : f32 to vector<1xf32>
      %82 = vector.extract %57#0[0] : f32 from vector<4xf32>
      %83 = vector.broadcast %82 : f32 to vector<1xf32>
      %84 = vector.extract %57#0[1] : f32 from vector<4xf32>
      %85 = vector.broadcast %84 : f32 to vector<1xf32>
      %86 = vector.extract %57#0[2] : f32 from vector<4xf32>
      %87 = vector.broadcast %86 : f32 to vector<1xf32>
      %88 = vector.extract %57#0[3] : f32 from vector<4xf32>
      %89 = vector.broadcast %88 : f32 to vector<1xf32>
      vector.store %59, %2[%10, %56] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %90 = arith.addi %9, %c1_i32 overflow<nsw> : i32
      %91 = arith.index_castui %90 : i32 to index
      vector.store %61, %2[%91, %56] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %92 = arith.addi %9, %c2_i32 overflow<nsw> : i32
      %93 = arith.index_castui %92 : i32 to index
      vector.store %63, %2[%93, %56] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %94 = arith.addi %9, %c3_i32 overflow<nsw> : i32
      %95 = arith.index_castui %94 : i32 to index
      vector.store %65, %2[%95, %56] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      vector.store %67, %2[%35, %56] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %96 = arith.addi %9, %c17_i32 overflow<nsw> : i32
      %97 = arith.index_castui %96 : i32 to index
      vector.store %69, %2[%97, %56] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %98 = arith.addi %9, %c18_i32 overflow<nsw> : i32
      %99 = arith.index_castui %98 : i32 to index
      vector.store %71, %2[%99, %56] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %100 = arith.addi %9, %c19_i32 overflow<nsw> : i32
      %101 = arith.index_castui %100 : i32 to index
      vector.store %73, %2[%101, %56] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      vector.store %75, %2[%37, %56] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %102 = arith.addi %9, %c33_i32 overflow<nsw> : i32
      %103 = arith.index_castui %102 : i32 to index
      vector.store %77, %2[%103, %56] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %104 = arith.addi %9, %c34_i32 overflow<nsw> : i32
      %105 = arith.index_castui %104 : i32 to index
      vector.store %79, %2[%105, %56] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %106 = arith.addi %9, %c35_i32 overflow<nsw> : i32
      %107 = arith.index_castui %106 : i32 to index
      vector.store %81, %2[%107, %56] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      vector.store %83, %2[%39, %56] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %108 = arith.addi %9, %c49_i32 overflow<nsw> : i32
      %109 = arith.index_castui %108 : i32 to index
      vector.store %85, %2[%109, %56] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %110 = arith.addi %9, %c50_i32 overflow<nsw> : i32
      %111 = arith.index_castui %110 : i32 to index
      vector.store %87, %2[%111, %56] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      %112 = arith.addi %9, %c51_i32 overflow<nsw> : i32
      %113 = arith.index_castui %112 : i32 to index
      vector.store %89, %2[%113, %56] : memref<64x64xf32, #amdgpu.address_space<fat_raw_buffer>>, vector<1xf32>
      gpu.barrier memfence [#gpu.address_space<workgroup>]
      memref.dealloc %alloc_0 : memref<64x132xf16, #gpu.address_space<workgroup>>
      memref.dealloc %alloc : memref<64x132xf16, #gpu.address_space<workgroup>>
      gpu.return
    }
  }
}

