module {
  gpu.module @kernels {
    gpu.func @matmul_dispatch_0_matmul_64x64x1024_f16xf16xf32(%arg0: memref<64x1024xf16, #gpu.address_space<global>> {llvm.noalias}, %arg1: memref<1024x64xf16, #gpu.address_space<global>> {llvm.noalias}, %arg2: memref<64x64xf32, #gpu.address_space<global>> {llvm.noalias}) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
      %c2_i32 = arith.constant 2 : i32
      %c121_i32 = arith.constant 121 : i32
      %c113_i32 = arith.constant 113 : i32
      %c105_i32 = arith.constant 105 : i32
      %c97_i32 = arith.constant 97 : i32
      %c89_i32 = arith.constant 89 : i32
      %c81_i32 = arith.constant 81 : i32
      %c73_i32 = arith.constant 73 : i32
      %c65_i32 = arith.constant 65 : i32
      %c57_i32 = arith.constant 57 : i32
      %c49_i32 = arith.constant 49 : i32
      %c41_i32 = arith.constant 41 : i32
      %c33_i32 = arith.constant 33 : i32
      %c25_i32 = arith.constant 25 : i32
      %c17_i32 = arith.constant 17 : i32
      %c9_i32 = arith.constant 9 : i32
      %c1_i32 = arith.constant 1 : i32
      %c120_i32 = arith.constant 120 : i32
      %c112_i32 = arith.constant 112 : i32
      %c104_i32 = arith.constant 104 : i32
      %c96_i32 = arith.constant 96 : i32
      %c88_i32 = arith.constant 88 : i32
      %c80_i32 = arith.constant 80 : i32
      %c72_i32 = arith.constant 72 : i32
      %c56_i32 = arith.constant 56 : i32
      %c48_i32 = arith.constant 48 : i32
      %c40_i32 = arith.constant 40 : i32
      %c24_i32 = arith.constant 24 : i32
      %c8_i32 = arith.constant 8 : i32
      %c4_i32 = arith.constant 4 : i32
      %c896_i32 = arith.constant 896 : i32
      %c768_i32 = arith.constant 768 : i32
      %c640_i32 = arith.constant 640 : i32
      %c512_i32 = arith.constant 512 : i32
      %c384_i32 = arith.constant 384 : i32
      %c256_i32 = arith.constant 256 : i32
      %c128_i32 = arith.constant 128 : i32
      %c16_i32 = arith.constant 16 : i32
      %c32_i32 = arith.constant 32 : i32
      %c0_i32 = arith.constant 0 : i32
      %c64_i32 = arith.constant 64 : i32
      %c0 = arith.constant 0 : index
      %cst = arith.constant dense<0.000000e+00> : vector<2xf32>
      %alloc = memref.alloc() : memref<128x36xf16, #gpu.address_space<workgroup>>
      %alloc_0 = memref.alloc() : memref<64x132xf16, #gpu.address_space<workgroup>>
      %thread_id_x = gpu.thread_id x upper_bound 128
      %assume_align = memref.assume_alignment %arg0, 64 : memref<64x1024xf16, #gpu.address_space<global>>
      %assume_align_1 = memref.assume_alignment %arg1, 64 : memref<1024x64xf16, #gpu.address_space<global>>
      %assume_align_2 = memref.assume_alignment %arg2, 64 : memref<64x64xf32, #gpu.address_space<global>>
      %0 = arith.index_castui %thread_id_x : index to i32
      %1 = arith.divui %0, %c64_i32 : i32
      %2 = arith.remui %0, %c64_i32 : i32
      %3 = arith.divui %2, %c32_i32 : i32
      %4 = arith.remui %0, %c32_i32 : i32
      %5 = arith.divui %4, %c4_i32 : i32
      %6 = arith.remui %4, %c4_i32 : i32
      %7 = arith.muli %6, %c2_i32 overflow<nsw> : i32
      %8 = arith.index_castui %7 : i32 to index
      %9 = arith.divui %0, %c16_i32 : i32
      %10 = arith.index_castui %9 : i32 to index
      %11 = arith.remui %0, %c16_i32 : i32
      %12 = arith.addi %0, %c128_i32 overflow<nsw> : i32
      %13 = arith.divui %12, %c16_i32 : i32
      %14 = arith.index_castui %13 : i32 to index
      %15 = arith.remui %12, %c16_i32 : i32
      %16 = arith.addi %0, %c256_i32 overflow<nsw> : i32
      %17 = arith.divui %16, %c16_i32 : i32
      %18 = arith.index_castui %17 : i32 to index
      %19 = arith.remui %16, %c16_i32 : i32
      %20 = arith.addi %0, %c384_i32 overflow<nsw> : i32
      %21 = arith.divui %20, %c16_i32 : i32
      %22 = arith.index_castui %21 : i32 to index
      %23 = arith.remui %20, %c16_i32 : i32
      %24 = arith.addi %0, %c512_i32 overflow<nsw> : i32
      %25 = arith.divui %24, %c16_i32 : i32
      %26 = arith.index_castui %25 : i32 to index
      %27 = arith.remui %24, %c16_i32 : i32
      %28 = arith.addi %0, %c640_i32 overflow<nsw> : i32
      %29 = arith.divui %28, %c16_i32 : i32
      %30 = arith.index_castui %29 : i32 to index
      %31 = arith.remui %28, %c16_i32 : i32
      %32 = arith.addi %0, %c768_i32 overflow<nsw> : i32
      %33 = arith.divui %32, %c16_i32 : i32
      %34 = arith.index_castui %33 : i32 to index
      %35 = arith.remui %32, %c16_i32 : i32
      %36 = arith.addi %0, %c896_i32 overflow<nsw> : i32
      %37 = arith.divui %36, %c16_i32 : i32
      %38 = arith.index_castui %37 : i32 to index
      %39 = arith.remui %36, %c16_i32 : i32
      %40 = arith.divui %0, %c4_i32 : i32
      %41 = arith.index_castui %40 : i32 to index
      %42 = arith.remui %0, %c4_i32 : i32
      %43 = arith.divui %12, %c4_i32 : i32
      %44 = arith.index_castui %43 : i32 to index
      %45 = arith.remui %12, %c4_i32 : i32
      %46 = arith.divui %16, %c4_i32 : i32
      %47 = arith.index_castui %46 : i32 to index
      %48 = arith.remui %16, %c4_i32 : i32
      %49 = arith.divui %20, %c4_i32 : i32
      %50 = arith.index_castui %49 : i32 to index
      %51 = arith.remui %20, %c4_i32 : i32
      %52 = arith.muli %11, %c8_i32 overflow<nsw> : i32
      %53 = arith.index_castui %52 : i32 to index
      %54 = arith.muli %15, %c8_i32 overflow<nsw> : i32
      %55 = arith.index_castui %54 : i32 to index
      %56 = arith.muli %19, %c8_i32 overflow<nsw> : i32
      %57 = arith.index_castui %56 : i32 to index
      %58 = arith.muli %23, %c8_i32 overflow<nsw> : i32
      %59 = arith.index_castui %58 : i32 to index
      %60 = arith.muli %27, %c8_i32 overflow<nsw> : i32
      %61 = arith.index_castui %60 : i32 to index
      %62 = arith.muli %31, %c8_i32 overflow<nsw> : i32
      %63 = arith.index_castui %62 : i32 to index
      %64 = arith.muli %35, %c8_i32 overflow<nsw> : i32
      %65 = arith.index_castui %64 : i32 to index
      %66 = arith.muli %39, %c8_i32 overflow<nsw> : i32
      %67 = arith.index_castui %66 : i32 to index
      %68 = arith.muli %42, %c8_i32 overflow<nsw> : i32
      %69 = arith.index_castui %68 : i32 to index
      %70 = arith.muli %45, %c8_i32 overflow<nsw> : i32
      %71 = arith.index_castui %70 : i32 to index
      %72 = arith.muli %48, %c8_i32 overflow<nsw> : i32
      %73 = arith.index_castui %72 : i32 to index
      %74 = arith.muli %51, %c8_i32 overflow<nsw> : i32
      %75 = arith.index_castui %74 : i32 to index
      %block_id_x = gpu.block_id x
      %76 = arith.index_castui %block_id_x : index to i32
      %77 = arith.muli %76, %c32_i32 overflow<nsw> : i32
      %78 = arith.addi %68, %77 : i32
      %79 = arith.index_castui %78 : i32 to index
      %80 = arith.addi %70, %77 : i32
      %81 = arith.index_castui %80 : i32 to index
      %82 = arith.addi %72, %77 : i32
      %83 = arith.index_castui %82 : i32 to index
      %84 = arith.addi %74, %77 : i32
      %85 = arith.index_castui %84 : i32 to index
      %86 = arith.muli %1, %c32_i32 overflow<nsw> : i32
      %87 = arith.addi %86, %5 overflow<nsw> : i32
      %88 = arith.index_castui %87 : i32 to index
      %89 = arith.addi %7, %c8_i32 overflow<nsw> : i32
      %90 = arith.index_castui %89 : i32 to index
      %91 = arith.addi %7, %c16_i32 overflow<nsw> : i32
      %92 = arith.index_castui %91 : i32 to index
      %93 = arith.addi %7, %c24_i32 overflow<nsw> : i32
      %94 = arith.index_castui %93 : i32 to index
      %95 = arith.addi %7, %c32_i32 overflow<nsw> : i32
      %96 = arith.index_castui %95 : i32 to index
      %97 = arith.addi %7, %c40_i32 overflow<nsw> : i32
      %98 = arith.index_castui %97 : i32 to index
      %99 = arith.addi %7, %c48_i32 overflow<nsw> : i32
      %100 = arith.index_castui %99 : i32 to index
      %101 = arith.addi %7, %c56_i32 overflow<nsw> : i32
      %102 = arith.index_castui %101 : i32 to index
      %103 = arith.addi %7, %c64_i32 overflow<nsw> : i32
      %104 = arith.index_castui %103 : i32 to index
      %105 = arith.addi %7, %c72_i32 overflow<nsw> : i32
      %106 = arith.index_castui %105 : i32 to index
      %107 = arith.addi %7, %c80_i32 overflow<nsw> : i32
      %108 = arith.index_castui %107 : i32 to index
      %109 = arith.addi %7, %c88_i32 overflow<nsw> : i32
      %110 = arith.index_castui %109 : i32 to index
      %111 = arith.addi %7, %c96_i32 overflow<nsw> : i32
      %112 = arith.index_castui %111 : i32 to index
      %113 = arith.addi %7, %c104_i32 overflow<nsw> : i32
      %114 = arith.index_castui %113 : i32 to index
      %115 = arith.addi %7, %c112_i32 overflow<nsw> : i32
      %116 = arith.index_castui %115 : i32 to index
      %117 = arith.addi %7, %c120_i32 overflow<nsw> : i32
      %118 = arith.index_castui %117 : i32 to index
      %119 = arith.addi %87, %c8_i32 overflow<nsw> : i32
      %120 = arith.index_castui %119 : i32 to index
      %121 = arith.addi %87, %c16_i32 overflow<nsw> : i32
      %122 = arith.index_castui %121 : i32 to index
      %123 = arith.addi %87, %c24_i32 overflow<nsw> : i32
      %124 = arith.index_castui %123 : i32 to index
      %125 = arith.muli %3, %c2_i32 overflow<nsw> : i32
      %126 = arith.muli %3, %c16_i32 overflow<nsw> : i32
      %127 = arith.addi %126, %5 overflow<nsw> : i32
      %128 = arith.index_castui %127 : i32 to index
      %129 = arith.addi %127, %c8_i32 overflow<nsw> : i32
      %130 = arith.index_castui %129 : i32 to index
      %131 = arith.addi %7, %c1_i32 overflow<nsw> : i32
      %132 = arith.index_castui %131 : i32 to index
      %133 = arith.addi %7, %c9_i32 overflow<nsw> : i32
      %134 = arith.index_castui %133 : i32 to index
      %135 = arith.addi %7, %c17_i32 overflow<nsw> : i32
      %136 = arith.index_castui %135 : i32 to index
      %137 = arith.addi %7, %c25_i32 overflow<nsw> : i32
      %138 = arith.index_castui %137 : i32 to index
      %139 = arith.addi %7, %c33_i32 overflow<nsw> : i32
      %140 = arith.index_castui %139 : i32 to index
      %141 = arith.addi %7, %c41_i32 overflow<nsw> : i32
      %142 = arith.index_castui %141 : i32 to index
      %143 = arith.addi %7, %c49_i32 overflow<nsw> : i32
      %144 = arith.index_castui %143 : i32 to index
      %145 = arith.addi %7, %c57_i32 overflow<nsw> : i32
      %146 = arith.index_castui %145 : i32 to index
      %147 = arith.addi %7, %c65_i32 overflow<nsw> : i32
      %148 = arith.index_castui %147 : i32 to index
      %149 = arith.addi %7, %c73_i32 overflow<nsw> : i32
      %150 = arith.index_castui %149 : i32 to index
      %151 = arith.addi %7, %c81_i32 overflow<nsw> : i32
      %152 = arith.index_castui %151 : i32 to index
      %153 = arith.addi %7, %c89_i32 overflow<nsw> : i32
      %154 = arith.index_castui %153 : i32 to index
      %155 = arith.addi %7, %c97_i32 overflow<nsw> : i32
      %156 = arith.index_castui %155 : i32 to index
      %157 = arith.addi %7, %c105_i32 overflow<nsw> : i32
      %158 = arith.index_castui %157 : i32 to index
      %159 = arith.addi %7, %c113_i32 overflow<nsw> : i32
      %160 = arith.index_castui %159 : i32 to index
      %161 = arith.addi %7, %c121_i32 overflow<nsw> : i32
      %162 = arith.index_castui %161 : i32 to index
      %163:8 = scf.for %arg3 = %c0_i32 to %c64_i32 step %c8_i32 iter_args(%arg4 = %cst, %arg5 = %cst, %arg6 = %cst, %arg7 = %cst, %arg8 = %cst, %arg9 = %cst, %arg10 = %cst, %arg11 = %cst) -> (vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>)  : i32 {
        %171:2 = vector.to_elements %arg10 : vector<2xf32>
        %172:2 = vector.to_elements %arg11 : vector<2xf32>
        %173 = vector.from_elements %171#0, %171#1, %172#0, %172#1 : vector<2x2xf32>
        %174:2 = vector.to_elements %arg8 : vector<2xf32>
        %175:2 = vector.to_elements %arg9 : vector<2xf32>
        %176 = vector.from_elements %174#0, %174#1, %175#0, %175#1 : vector<2x2xf32>
        %177:2 = vector.to_elements %arg6 : vector<2xf32>
        %178:2 = vector.to_elements %arg7 : vector<2xf32>
        %179 = vector.from_elements %177#0, %177#1, %178#0, %178#1 : vector<2x2xf32>
        %180:2 = vector.to_elements %arg4 : vector<2xf32>
        %181:2 = vector.to_elements %arg5 : vector<2xf32>
        %182 = vector.from_elements %180#0, %180#1, %181#0, %181#1 : vector<2x2xf32>
        gpu.barrier memfence [#gpu.address_space<workgroup>]
        %183 = arith.muli %arg3, %c16_i32 overflow<nsw> : i32
        %184 = arith.addi %52, %183 : i32
        %185 = arith.index_castui %184 : i32 to index
        %186 = vector.load %assume_align[%10, %185] : memref<64x1024xf16, #gpu.address_space<global>>, vector<8xf16>
        vector.store %186, %alloc_0[%10, %53] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %187 = arith.addi %54, %183 : i32
        %188 = arith.index_castui %187 : i32 to index
        %189 = vector.load %assume_align[%14, %188] : memref<64x1024xf16, #gpu.address_space<global>>, vector<8xf16>
        vector.store %189, %alloc_0[%14, %55] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %190 = arith.addi %56, %183 : i32
        %191 = arith.index_castui %190 : i32 to index
        %192 = vector.load %assume_align[%18, %191] : memref<64x1024xf16, #gpu.address_space<global>>, vector<8xf16>
        vector.store %192, %alloc_0[%18, %57] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %193 = arith.addi %58, %183 : i32
        %194 = arith.index_castui %193 : i32 to index
        %195 = vector.load %assume_align[%22, %194] : memref<64x1024xf16, #gpu.address_space<global>>, vector<8xf16>
        vector.store %195, %alloc_0[%22, %59] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %196 = arith.addi %60, %183 : i32
        %197 = arith.index_castui %196 : i32 to index
        %198 = vector.load %assume_align[%26, %197] : memref<64x1024xf16, #gpu.address_space<global>>, vector<8xf16>
        vector.store %198, %alloc_0[%26, %61] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %199 = arith.addi %62, %183 : i32
        %200 = arith.index_castui %199 : i32 to index
        %201 = vector.load %assume_align[%30, %200] : memref<64x1024xf16, #gpu.address_space<global>>, vector<8xf16>
        vector.store %201, %alloc_0[%30, %63] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %202 = arith.addi %64, %183 : i32
        %203 = arith.index_castui %202 : i32 to index
        %204 = vector.load %assume_align[%34, %203] : memref<64x1024xf16, #gpu.address_space<global>>, vector<8xf16>
        vector.store %204, %alloc_0[%34, %65] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %205 = arith.addi %66, %183 : i32
        %206 = arith.index_castui %205 : i32 to index
        %207 = vector.load %assume_align[%38, %206] : memref<64x1024xf16, #gpu.address_space<global>>, vector<8xf16>
        vector.store %207, %alloc_0[%38, %67] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %208 = arith.addi %40, %183 : i32
        %209 = arith.index_castui %208 : i32 to index
        %210 = vector.load %assume_align_1[%209, %79] : memref<1024x64xf16, #gpu.address_space<global>>, vector<8xf16>
        vector.store %210, %alloc[%41, %69] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %211 = arith.addi %43, %183 : i32
        %212 = arith.index_castui %211 : i32 to index
        %213 = vector.load %assume_align_1[%212, %81] : memref<1024x64xf16, #gpu.address_space<global>>, vector<8xf16>
        vector.store %213, %alloc[%44, %71] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %214 = arith.addi %46, %183 : i32
        %215 = arith.index_castui %214 : i32 to index
        %216 = vector.load %assume_align_1[%215, %83] : memref<1024x64xf16, #gpu.address_space<global>>, vector<8xf16>
        vector.store %216, %alloc[%47, %73] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %217 = arith.addi %49, %183 : i32
        %218 = arith.index_castui %217 : i32 to index
        %219 = vector.load %assume_align_1[%218, %85] : memref<1024x64xf16, #gpu.address_space<global>>, vector<8xf16>
        vector.store %219, %alloc[%50, %75] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        gpu.barrier memfence [#gpu.address_space<workgroup>]
        %220 = vector.load %alloc_0[%88, %8] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %221 = vector.load %alloc_0[%88, %90] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %222 = vector.load %alloc_0[%88, %92] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %223 = vector.load %alloc_0[%88, %94] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %224 = vector.load %alloc_0[%88, %96] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %225 = vector.load %alloc_0[%88, %98] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %226 = vector.load %alloc_0[%88, %100] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %227 = vector.load %alloc_0[%88, %102] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %228 = vector.load %alloc_0[%88, %104] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %229 = vector.load %alloc_0[%88, %106] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %230 = vector.load %alloc_0[%88, %108] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %231 = vector.load %alloc_0[%88, %110] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %232 = vector.load %alloc_0[%88, %112] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %233 = vector.load %alloc_0[%88, %114] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %234 = vector.load %alloc_0[%88, %116] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %235 = vector.load %alloc_0[%88, %118] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %236 = vector.load %alloc_0[%120, %8] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %237 = vector.load %alloc_0[%120, %90] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %238:2 = vector.to_elements %220 : vector<2xf16>
        %239:2 = vector.to_elements %236 : vector<2xf16>
        %240:2 = vector.to_elements %221 : vector<2xf16>
        %241:2 = vector.to_elements %237 : vector<2xf16>
        %242 = vector.from_elements %238#0, %238#1, %239#0, %239#1, %240#0, %240#1, %241#0, %241#1 : vector<4x2xf16>
        %243 = vector.load %alloc_0[%120, %92] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %244 = vector.load %alloc_0[%120, %94] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %245:2 = vector.to_elements %222 : vector<2xf16>
        %246:2 = vector.to_elements %243 : vector<2xf16>
        %247:2 = vector.to_elements %223 : vector<2xf16>
        %248:2 = vector.to_elements %244 : vector<2xf16>
        %249 = vector.from_elements %245#0, %245#1, %246#0, %246#1, %247#0, %247#1, %248#0, %248#1 : vector<4x2xf16>
        %250 = vector.load %alloc_0[%120, %96] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %251 = vector.load %alloc_0[%120, %98] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %252:2 = vector.to_elements %224 : vector<2xf16>
        %253:2 = vector.to_elements %250 : vector<2xf16>
        %254:2 = vector.to_elements %225 : vector<2xf16>
        %255:2 = vector.to_elements %251 : vector<2xf16>
        %256 = vector.from_elements %252#0, %252#1, %253#0, %253#1, %254#0, %254#1, %255#0, %255#1 : vector<4x2xf16>
        %257 = vector.load %alloc_0[%120, %100] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %258 = vector.load %alloc_0[%120, %102] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %259:2 = vector.to_elements %226 : vector<2xf16>
        %260:2 = vector.to_elements %257 : vector<2xf16>
        %261:2 = vector.to_elements %227 : vector<2xf16>
        %262:2 = vector.to_elements %258 : vector<2xf16>
        %263 = vector.from_elements %259#0, %259#1, %260#0, %260#1, %261#0, %261#1, %262#0, %262#1 : vector<4x2xf16>
        %264 = vector.load %alloc_0[%120, %104] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %265 = vector.load %alloc_0[%120, %106] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %266:2 = vector.to_elements %228 : vector<2xf16>
        %267:2 = vector.to_elements %264 : vector<2xf16>
        %268:2 = vector.to_elements %229 : vector<2xf16>
        %269:2 = vector.to_elements %265 : vector<2xf16>
        %270 = vector.from_elements %266#0, %266#1, %267#0, %267#1, %268#0, %268#1, %269#0, %269#1 : vector<4x2xf16>
        %271 = vector.load %alloc_0[%120, %108] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %272 = vector.load %alloc_0[%120, %110] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %273:2 = vector.to_elements %230 : vector<2xf16>
        %274:2 = vector.to_elements %271 : vector<2xf16>
        %275:2 = vector.to_elements %231 : vector<2xf16>
        %276:2 = vector.to_elements %272 : vector<2xf16>
        %277 = vector.from_elements %273#0, %273#1, %274#0, %274#1, %275#0, %275#1, %276#0, %276#1 : vector<4x2xf16>
        %278 = vector.load %alloc_0[%120, %112] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %279 = vector.load %alloc_0[%120, %114] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %280:2 = vector.to_elements %232 : vector<2xf16>
        %281:2 = vector.to_elements %278 : vector<2xf16>
        %282:2 = vector.to_elements %233 : vector<2xf16>
        %283:2 = vector.to_elements %279 : vector<2xf16>
        %284 = vector.from_elements %280#0, %280#1, %281#0, %281#1, %282#0, %282#1, %283#0, %283#1 : vector<4x2xf16>
        %285 = vector.load %alloc_0[%120, %116] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %286 = vector.load %alloc_0[%120, %118] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %287:2 = vector.to_elements %234 : vector<2xf16>
        %288:2 = vector.to_elements %285 : vector<2xf16>
        %289:2 = vector.to_elements %235 : vector<2xf16>
        %290:2 = vector.to_elements %286 : vector<2xf16>
        %291 = vector.from_elements %287#0, %287#1, %288#0, %288#1, %289#0, %289#1, %290#0, %290#1 : vector<4x2xf16>
        %292 = vector.load %alloc_0[%122, %8] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %293 = vector.load %alloc_0[%122, %90] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %294 = vector.load %alloc_0[%122, %92] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %295 = vector.load %alloc_0[%122, %94] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %296 = vector.load %alloc_0[%122, %96] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %297 = vector.load %alloc_0[%122, %98] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %298 = vector.load %alloc_0[%122, %100] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %299 = vector.load %alloc_0[%122, %102] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %300 = vector.load %alloc_0[%122, %104] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %301 = vector.load %alloc_0[%122, %106] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %302 = vector.load %alloc_0[%122, %108] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %303 = vector.load %alloc_0[%122, %110] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %304 = vector.load %alloc_0[%122, %112] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %305 = vector.load %alloc_0[%122, %114] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %306 = vector.load %alloc_0[%122, %116] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %307 = vector.load %alloc_0[%122, %118] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %308 = vector.load %alloc_0[%124, %8] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %309 = vector.load %alloc_0[%124, %90] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %310:2 = vector.to_elements %292 : vector<2xf16>
        %311:2 = vector.to_elements %308 : vector<2xf16>
        %312:2 = vector.to_elements %293 : vector<2xf16>
        %313:2 = vector.to_elements %309 : vector<2xf16>
        %314 = vector.from_elements %310#0, %310#1, %311#0, %311#1, %312#0, %312#1, %313#0, %313#1 : vector<4x2xf16>
        %315 = vector.load %alloc_0[%124, %92] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %316 = vector.load %alloc_0[%124, %94] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %317:2 = vector.to_elements %294 : vector<2xf16>
        %318:2 = vector.to_elements %315 : vector<2xf16>
        %319:2 = vector.to_elements %295 : vector<2xf16>
        %320:2 = vector.to_elements %316 : vector<2xf16>
        %321 = vector.from_elements %317#0, %317#1, %318#0, %318#1, %319#0, %319#1, %320#0, %320#1 : vector<4x2xf16>
        %322 = vector.load %alloc_0[%124, %96] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %323 = vector.load %alloc_0[%124, %98] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %324:2 = vector.to_elements %296 : vector<2xf16>
        %325:2 = vector.to_elements %322 : vector<2xf16>
        %326:2 = vector.to_elements %297 : vector<2xf16>
        %327:2 = vector.to_elements %323 : vector<2xf16>
        %328 = vector.from_elements %324#0, %324#1, %325#0, %325#1, %326#0, %326#1, %327#0, %327#1 : vector<4x2xf16>
        %329 = vector.load %alloc_0[%124, %100] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %330 = vector.load %alloc_0[%124, %102] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %331:2 = vector.to_elements %298 : vector<2xf16>
        %332:2 = vector.to_elements %329 : vector<2xf16>
        %333:2 = vector.to_elements %299 : vector<2xf16>
        %334:2 = vector.to_elements %330 : vector<2xf16>
        %335 = vector.from_elements %331#0, %331#1, %332#0, %332#1, %333#0, %333#1, %334#0, %334#1 : vector<4x2xf16>
        %336 = vector.load %alloc_0[%124, %104] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %337 = vector.load %alloc_0[%124, %106] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %338:2 = vector.to_elements %300 : vector<2xf16>
        %339:2 = vector.to_elements %336 : vector<2xf16>
        %340:2 = vector.to_elements %301 : vector<2xf16>
        %341:2 = vector.to_elements %337 : vector<2xf16>
        %342 = vector.from_elements %338#0, %338#1, %339#0, %339#1, %340#0, %340#1, %341#0, %341#1 : vector<4x2xf16>
        %343 = vector.load %alloc_0[%124, %108] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %344 = vector.load %alloc_0[%124, %110] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %345:2 = vector.to_elements %302 : vector<2xf16>
        %346:2 = vector.to_elements %343 : vector<2xf16>
        %347:2 = vector.to_elements %303 : vector<2xf16>
        %348:2 = vector.to_elements %344 : vector<2xf16>
        %349 = vector.from_elements %345#0, %345#1, %346#0, %346#1, %347#0, %347#1, %348#0, %348#1 : vector<4x2xf16>
        %350 = vector.load %alloc_0[%124, %112] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %351 = vector.load %alloc_0[%124, %114] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %352:2 = vector.to_elements %304 : vector<2xf16>
        %353:2 = vector.to_elements %350 : vector<2xf16>
        %354:2 = vector.to_elements %305 : vector<2xf16>
        %355:2 = vector.to_elements %351 : vector<2xf16>
        %356 = vector.from_elements %352#0, %352#1, %353#0, %353#1, %354#0, %354#1, %355#0, %355#1 : vector<4x2xf16>
        %357 = vector.load %alloc_0[%124, %116] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %358 = vector.load %alloc_0[%124, %118] : memref<64x132xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %359:2 = vector.to_elements %306 : vector<2xf16>
        %360:2 = vector.to_elements %357 : vector<2xf16>
        %361:2 = vector.to_elements %307 : vector<2xf16>
        %362:2 = vector.to_elements %358 : vector<2xf16>
        %363 = vector.from_elements %359#0, %359#1, %360#0, %360#1, %361#0, %361#1, %362#0, %362#1 : vector<4x2xf16>
        %364 = vector.load %alloc[%8, %128] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %365 = vector.load %alloc[%8, %130] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %366 = vector.load %alloc[%132, %128] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %367 = vector.load %alloc[%132, %130] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %368 = vector.load %alloc[%90, %128] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %369 = vector.load %alloc[%90, %130] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %370 = vector.load %alloc[%134, %128] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %371 = vector.load %alloc[%134, %130] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %372 = vector.load %alloc[%92, %128] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %373 = vector.load %alloc[%92, %130] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %374 = vector.load %alloc[%136, %128] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %375 = vector.load %alloc[%136, %130] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %376 = vector.load %alloc[%94, %128] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %377 = vector.load %alloc[%94, %130] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %378 = vector.load %alloc[%138, %128] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %379 = vector.load %alloc[%138, %130] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %380 = vector.load %alloc[%96, %128] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %381 = vector.load %alloc[%96, %130] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %382 = vector.load %alloc[%140, %128] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %383 = vector.load %alloc[%140, %130] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %384 = vector.load %alloc[%98, %128] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %385 = vector.load %alloc[%98, %130] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %386 = vector.load %alloc[%142, %128] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %387 = vector.load %alloc[%142, %130] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %388 = vector.load %alloc[%100, %128] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %389 = vector.load %alloc[%100, %130] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %390 = vector.load %alloc[%144, %128] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %391 = vector.load %alloc[%144, %130] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %392 = vector.load %alloc[%102, %128] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %393 = vector.load %alloc[%102, %130] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %394 = vector.load %alloc[%146, %128] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %395 = vector.load %alloc[%146, %130] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %396 = vector.load %alloc[%104, %128] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %397 = vector.load %alloc[%104, %130] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %398 = vector.load %alloc[%148, %128] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %399 = vector.load %alloc[%148, %130] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %400 = vector.load %alloc[%106, %128] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %401 = vector.load %alloc[%106, %130] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %402 = vector.load %alloc[%150, %128] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %403 = vector.load %alloc[%150, %130] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %404 = vector.load %alloc[%108, %128] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %405 = vector.load %alloc[%108, %130] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %406 = vector.load %alloc[%152, %128] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %407 = vector.load %alloc[%152, %130] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %408 = vector.load %alloc[%110, %128] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %409 = vector.load %alloc[%110, %130] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %410 = vector.load %alloc[%154, %128] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %411 = vector.load %alloc[%154, %130] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %412 = vector.load %alloc[%112, %128] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %413 = vector.load %alloc[%112, %130] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %414 = vector.load %alloc[%156, %128] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %415 = vector.load %alloc[%156, %130] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %416 = vector.load %alloc[%114, %128] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %417 = vector.load %alloc[%114, %130] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %418 = vector.load %alloc[%158, %128] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %419 = vector.load %alloc[%158, %130] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %420 = vector.load %alloc[%116, %128] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %421 = vector.load %alloc[%116, %130] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %422 = vector.load %alloc[%160, %128] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %423 = vector.load %alloc[%160, %130] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %424 = vector.load %alloc[%118, %128] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %425 = vector.load %alloc[%118, %130] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %426 = vector.load %alloc[%162, %128] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %427 = vector.load %alloc[%162, %130] : memref<128x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %428 = vector.to_elements %364 : vector<1xf16>
        %429 = vector.to_elements %365 : vector<1xf16>
        %430 = vector.to_elements %366 : vector<1xf16>
        %431 = vector.to_elements %367 : vector<1xf16>
        %432 = vector.to_elements %368 : vector<1xf16>
        %433 = vector.to_elements %369 : vector<1xf16>
        %434 = vector.to_elements %370 : vector<1xf16>
        %435 = vector.to_elements %371 : vector<1xf16>
        %436 = vector.to_elements %372 : vector<1xf16>
        %437 = vector.to_elements %373 : vector<1xf16>
        %438 = vector.to_elements %374 : vector<1xf16>
        %439 = vector.to_elements %375 : vector<1xf16>
        %440 = vector.to_elements %376 : vector<1xf16>
        %441 = vector.to_elements %377 : vector<1xf16>
        %442 = vector.to_elements %378 : vector<1xf16>
        %443 = vector.to_elements %379 : vector<1xf16>
        %444 = vector.to_elements %380 : vector<1xf16>
        %445 = vector.to_elements %381 : vector<1xf16>
        %446 = vector.to_elements %382 : vector<1xf16>
        %447 = vector.to_elements %383 : vector<1xf16>
        %448 = vector.to_elements %384 : vector<1xf16>
        %449 = vector.to_elements %385 : vector<1xf16>
        %450 = vector.to_elements %386 : vector<1xf16>
        %451 = vector.to_elements %387 : vector<1xf16>
        %452 = vector.to_elements %388 : vector<1xf16>
        %453 = vector.to_elements %389 : vector<1xf16>
        %454 = vector.to_elements %390 : vector<1xf16>
        %455 = vector.to_elements %391 : vector<1xf16>
        %456 = vector.to_elements %392 : vector<1xf16>
        %457 = vector.to_elements %393 : vector<1xf16>
        %458 = vector.to_elements %394 : vector<1xf16>
        %459 = vector.to_elements %395 : vector<1xf16>
        %460 = vector.to_elements %396 : vector<1xf16>
        %461 = vector.to_elements %397 : vector<1xf16>
        %462 = vector.to_elements %398 : vector<1xf16>
        %463 = vector.to_elements %399 : vector<1xf16>
        %464 = vector.to_elements %400 : vector<1xf16>
        %465 = vector.to_elements %401 : vector<1xf16>
        %466 = vector.to_elements %402 : vector<1xf16>
        %467 = vector.to_elements %403 : vector<1xf16>
        %468 = vector.to_elements %404 : vector<1xf16>
        %469 = vector.to_elements %405 : vector<1xf16>
        %470 = vector.to_elements %406 : vector<1xf16>
        %471 = vector.to_elements %407 : vector<1xf16>
        %472 = vector.to_elements %408 : vector<1xf16>
        %473 = vector.to_elements %409 : vector<1xf16>
        %474 = vector.to_elements %410 : vector<1xf16>
        %475 = vector.to_elements %411 : vector<1xf16>
        %476 = vector.to_elements %412 : vector<1xf16>
        %477 = vector.to_elements %413 : vector<1xf16>
        %478 = vector.to_elements %414 : vector<1xf16>
        %479 = vector.to_elements %415 : vector<1xf16>
        %480 = vector.to_elements %416 : vector<1xf16>
        %481 = vector.to_elements %417 : vector<1xf16>
        %482 = vector.to_elements %418 : vector<1xf16>
        %483 = vector.to_elements %419 : vector<1xf16>
        %484 = vector.to_elements %420 : vector<1xf16>
        %485 = vector.to_elements %421 : vector<1xf16>
        %486 = vector.to_elements %422 : vector<1xf16>
        %487 = vector.to_elements %423 : vector<1xf16>
        %488 = vector.to_elements %424 : vector<1xf16>
        %489 = vector.to_elements %425 : vector<1xf16>
        %490 = vector.to_elements %426 : vector<1xf16>
        %491 = vector.to_elements %427 : vector<1xf16>
        %492 = vector.from_elements %428, %430, %432, %434 : vector<2x2xf16>
        %493 = vector.from_elements %429, %431, %433, %435 : vector<2x2xf16>
        %494 = vector.from_elements %436, %438, %440, %442 : vector<2x2xf16>
        %495 = vector.from_elements %437, %439, %441, %443 : vector<2x2xf16>
        %496 = vector.from_elements %444, %446, %448, %450 : vector<2x2xf16>
        %497 = vector.from_elements %445, %447, %449, %451 : vector<2x2xf16>
        %498 = vector.from_elements %452, %454, %456, %458 : vector<2x2xf16>
        %499 = vector.from_elements %453, %455, %457, %459 : vector<2x2xf16>
        %500 = vector.from_elements %460, %462, %464, %466 : vector<2x2xf16>
        %501 = vector.from_elements %461, %463, %465, %467 : vector<2x2xf16>
        %502 = vector.from_elements %468, %470, %472, %474 : vector<2x2xf16>
        %503 = vector.from_elements %469, %471, %473, %475 : vector<2x2xf16>
        %504 = vector.from_elements %476, %478, %480, %482 : vector<2x2xf16>
        %505 = vector.from_elements %477, %479, %481, %483 : vector<2x2xf16>
        %506 = vector.from_elements %484, %486, %488, %490 : vector<2x2xf16>
        %507 = vector.from_elements %485, %487, %489, %491 : vector<2x2xf16>
        %508 = nvgpu.mma.sync(%242, %492, %173) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %509 = nvgpu.mma.sync(%242, %493, %176) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %510 = nvgpu.mma.sync(%314, %492, %179) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %511 = nvgpu.mma.sync(%314, %493, %182) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %512 = nvgpu.mma.sync(%249, %494, %508) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %513 = nvgpu.mma.sync(%249, %495, %509) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %514 = nvgpu.mma.sync(%321, %494, %510) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %515 = nvgpu.mma.sync(%321, %495, %511) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %516 = nvgpu.mma.sync(%256, %496, %512) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %517 = nvgpu.mma.sync(%256, %497, %513) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %518 = nvgpu.mma.sync(%328, %496, %514) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %519 = nvgpu.mma.sync(%328, %497, %515) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %520 = nvgpu.mma.sync(%263, %498, %516) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %521 = nvgpu.mma.sync(%263, %499, %517) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %522 = nvgpu.mma.sync(%335, %498, %518) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %523 = nvgpu.mma.sync(%335, %499, %519) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %524 = nvgpu.mma.sync(%270, %500, %520) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %525 = nvgpu.mma.sync(%270, %501, %521) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %526 = nvgpu.mma.sync(%342, %500, %522) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %527 = nvgpu.mma.sync(%342, %501, %523) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %528 = nvgpu.mma.sync(%277, %502, %524) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %529 = nvgpu.mma.sync(%277, %503, %525) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %530 = nvgpu.mma.sync(%349, %502, %526) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %531 = nvgpu.mma.sync(%349, %503, %527) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %532 = nvgpu.mma.sync(%284, %504, %528) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %533 = nvgpu.mma.sync(%284, %505, %529) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %534 = nvgpu.mma.sync(%356, %504, %530) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %535 = nvgpu.mma.sync(%356, %505, %531) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %536 = nvgpu.mma.sync(%291, %506, %532) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %537 = vector.extract %536[0] : vector<2xf32> from vector<2x2xf32>
        %538 = vector.extract %536[1] : vector<2xf32> from vector<2x2xf32>
        %539 = nvgpu.mma.sync(%291, %507, %533) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %540 = vector.extract %539[0] : vector<2xf32> from vector<2x2xf32>
        %541 = vector.extract %539[1] : vector<2xf32> from vector<2x2xf32>
        %542 = nvgpu.mma.sync(%363, %506, %534) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %543 = vector.extract %542[0] : vector<2xf32> from vector<2x2xf32>
        %544 = vector.extract %542[1] : vector<2xf32> from vector<2x2xf32>
        %545 = nvgpu.mma.sync(%363, %507, %535) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %546 = vector.extract %545[0] : vector<2xf32> from vector<2x2xf32>
        %547 = vector.extract %545[1] : vector<2xf32> from vector<2x2xf32>
        scf.yield %546, %547, %543, %544, %540, %541, %537, %538 : vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>
      }
      %164 = arith.muli %76, %c4_i32 overflow<nsw> : i32
      %165 = arith.addi %125, %164 : i32
      %166 = arith.muli %165, %c8_i32 overflow<nsw> : i32
      %167 = arith.addi %166, %7 overflow<nsw> : i32
      %168 = arith.index_castui %167 : i32 to index
      vector.store %163#6, %assume_align_2[%88, %168] : memref<64x64xf32, #gpu.address_space<global>>, vector<2xf32>
      %169 = arith.addi %167, %c8_i32 overflow<nsw> : i32
      %170 = arith.index_castui %169 : i32 to index
      vector.store %163#4, %assume_align_2[%88, %170] : memref<64x64xf32, #gpu.address_space<global>>, vector<2xf32>
      vector.store %163#7, %assume_align_2[%120, %168] : memref<64x64xf32, #gpu.address_space<global>>, vector<2xf32>
      vector.store %163#5, %assume_align_2[%120, %170] : memref<64x64xf32, #gpu.address_space<global>>, vector<2xf32>
      vector.store %163#2, %assume_align_2[%122, %168] : memref<64x64xf32, #gpu.address_space<global>>, vector<2xf32>
      vector.store %163#0, %assume_align_2[%122, %170] : memref<64x64xf32, #gpu.address_space<global>>, vector<2xf32>
      vector.store %163#3, %assume_align_2[%124, %168] : memref<64x64xf32, #gpu.address_space<global>>, vector<2xf32>
      vector.store %163#1, %assume_align_2[%124, %170] : memref<64x64xf32, #gpu.address_space<global>>, vector<2xf32>
      gpu.barrier memfence [#gpu.address_space<workgroup>]
      memref.dealloc %alloc_0 : memref<64x132xf16, #gpu.address_space<workgroup>>
      memref.dealloc %alloc : memref<128x36xf16, #gpu.address_space<workgroup>>
      gpu.return
    }
  }
}

