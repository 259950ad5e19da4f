module {
  gpu.module @kernels {
    gpu.func @conv_dispatch_0_conv_16x16x64x3x3x64_f16xf16xf32(%arg0: memref<18x18x64xf16, #gpu.address_space<global>> {llvm.noalias}, %arg1: memref<3x3x64x64xf16, #gpu.address_space<global>> {llvm.noalias}, %arg2: memref<16x16x64xf32, #gpu.address_space<global>> {llvm.noalias}) kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
      %c57_i32 = arith.constant 57 : i32
      %c49_i32 = arith.constant 49 : i32
      %c41_i32 = arith.constant 41 : i32
      %c33_i32 = arith.constant 33 : i32
      %c25_i32 = arith.constant 25 : i32
      %c17_i32 = arith.constant 17 : i32
      %c56_i32 = arith.constant 56 : i32
      %c48_i32 = arith.constant 48 : i32
      %c40_i32 = arith.constant 40 : i32
      %c24_i32 = arith.constant 24 : i32
      %c16_i32 = arith.constant 16 : i32
      %c192_i32 = arith.constant 192 : i32
      %c1_i32 = arith.constant 1 : i32
      %c9_i32 = arith.constant 9 : i32
      %c2_i32 = arith.constant 2 : i32
      %c768_i32 = arith.constant 768 : i32
      %c512_i32 = arith.constant 512 : i32
      %c256_i32 = arith.constant 256 : i32
      %c8_i32 = arith.constant 8 : i32
      %c128_i32 = arith.constant 128 : i32
      %c4_i32 = arith.constant 4 : i32
      %c32_i32 = arith.constant 32 : i32
      %c0_i32 = arith.constant 0 : i32
      %c64_i32 = arith.constant 64 : i32
      %c0 = arith.constant 0 : index
      %cst = arith.constant dense<0.000000e+00> : vector<2xf32>
      %alloc = memref.alloc() : memref<64x36xf16, #gpu.address_space<workgroup>>
      %alloc_0 = memref.alloc() : memref<8x16x68xf16, #gpu.address_space<workgroup>>
      %thread_id_x = gpu.thread_id x upper_bound 256
      %assume_align = memref.assume_alignment %arg0, 64 : memref<18x18x64xf16, #gpu.address_space<global>>
      %assume_align_1 = memref.assume_alignment %arg1, 64 : memref<3x3x64x64xf16, #gpu.address_space<global>>
      %assume_align_2 = memref.assume_alignment %arg2, 64 : memref<16x16x64xf32, #gpu.address_space<global>>
      %0 = arith.index_castui %thread_id_x : index to i32
      %1 = arith.divui %0, %c64_i32 : i32
      %2 = arith.remui %0, %c64_i32 : i32
      %3 = arith.divui %2, %c32_i32 : i32
      %4 = arith.remui %0, %c32_i32 : i32
      %5 = arith.divui %4, %c4_i32 : i32
      %6 = arith.index_castui %5 : i32 to index
      %7 = arith.remui %4, %c4_i32 : i32
      %8 = arith.muli %7, %c2_i32 overflow<nsw> : i32
      %9 = arith.index_castui %8 : i32 to index
      %10 = arith.divui %0, %c4_i32 : i32
      %11 = arith.index_castui %10 : i32 to index
      %12 = arith.remui %0, %c4_i32 : i32
      %13 = arith.divui %0, %c128_i32 : i32
      %14 = arith.index_castui %13 : i32 to index
      %15 = arith.remui %0, %c128_i32 : i32
      %16 = arith.divui %15, %c8_i32 : i32
      %17 = arith.index_castui %16 : i32 to index
      %18 = arith.remui %0, %c8_i32 : i32
      %19 = arith.addi %0, %c256_i32 overflow<nsw> : i32
      %20 = arith.divui %19, %c128_i32 : i32
      %21 = arith.index_castui %20 : i32 to index
      %22 = arith.remui %19, %c128_i32 : i32
      %23 = arith.divui %22, %c8_i32 : i32
      %24 = arith.index_castui %23 : i32 to index
      %25 = arith.remui %19, %c8_i32 : i32
      %26 = arith.addi %0, %c512_i32 overflow<nsw> : i32
      %27 = arith.divui %26, %c128_i32 : i32
      %28 = arith.index_castui %27 : i32 to index
      %29 = arith.remui %26, %c128_i32 : i32
      %30 = arith.divui %29, %c8_i32 : i32
      %31 = arith.index_castui %30 : i32 to index
      %32 = arith.remui %26, %c8_i32 : i32
      %33 = arith.addi %0, %c768_i32 overflow<nsw> : i32
      %34 = arith.divui %33, %c128_i32 : i32
      %35 = arith.index_castui %34 : i32 to index
      %36 = arith.remui %33, %c128_i32 : i32
      %37 = arith.divui %36, %c8_i32 : i32
      %38 = arith.index_castui %37 : i32 to index
      %39 = arith.remui %33, %c8_i32 : i32
      %40 = arith.muli %18, %c8_i32 overflow<nsw> : i32
      %41 = arith.index_castui %40 : i32 to index
      %42 = arith.muli %25, %c8_i32 overflow<nsw> : i32
      %43 = arith.index_castui %42 : i32 to index
      %44 = arith.muli %32, %c8_i32 overflow<nsw> : i32
      %45 = arith.index_castui %44 : i32 to index
      %46 = arith.muli %39, %c8_i32 overflow<nsw> : i32
      %47 = arith.index_castui %46 : i32 to index
      %48 = arith.muli %12, %c8_i32 overflow<nsw> : i32
      %49 = arith.index_castui %48 : i32 to index
      %block_id_x = gpu.block_id x
      %50 = arith.index_castui %block_id_x : index to i32
      %51 = arith.divui %50, %c2_i32 : i32
      %52 = arith.remui %50, %c2_i32 : i32
      %53 = arith.muli %52, %c32_i32 overflow<nsw> : i32
      %54 = arith.addi %48, %53 : i32
      %55 = arith.index_castui %54 : i32 to index
      %56 = arith.muli %1, %c2_i32 overflow<nsw> : i32
      %57 = arith.index_castui %56 : i32 to index
      %58 = arith.addi %8, %c8_i32 overflow<nsw> : i32
      %59 = arith.index_castui %58 : i32 to index
      %60 = arith.addi %8, %c16_i32 overflow<nsw> : i32
      %61 = arith.index_castui %60 : i32 to index
      %62 = arith.addi %8, %c24_i32 overflow<nsw> : i32
      %63 = arith.index_castui %62 : i32 to index
      %64 = arith.addi %8, %c32_i32 overflow<nsw> : i32
      %65 = arith.index_castui %64 : i32 to index
      %66 = arith.addi %8, %c40_i32 overflow<nsw> : i32
      %67 = arith.index_castui %66 : i32 to index
      %68 = arith.addi %8, %c48_i32 overflow<nsw> : i32
      %69 = arith.index_castui %68 : i32 to index
      %70 = arith.addi %8, %c56_i32 overflow<nsw> : i32
      %71 = arith.index_castui %70 : i32 to index
      %72 = arith.addi %5, %c8_i32 overflow<nsw> : i32
      %73 = arith.index_castui %72 : i32 to index
      %74 = arith.addi %56, %c1_i32 overflow<nsw> : i32
      %75 = arith.index_castui %74 : i32 to index
      %76 = arith.muli %3, %c2_i32 overflow<nsw> : i32
      %77 = arith.muli %3, %c16_i32 overflow<nsw> : i32
      %78 = arith.addi %77, %5 overflow<nsw> : i32
      %79 = arith.index_castui %78 : i32 to index
      %80 = arith.addi %78, %c8_i32 overflow<nsw> : i32
      %81 = arith.index_castui %80 : i32 to index
      %82 = arith.addi %8, %c1_i32 overflow<nsw> : i32
      %83 = arith.index_castui %82 : i32 to index
      %84 = arith.addi %8, %c9_i32 overflow<nsw> : i32
      %85 = arith.index_castui %84 : i32 to index
      %86 = arith.addi %8, %c17_i32 overflow<nsw> : i32
      %87 = arith.index_castui %86 : i32 to index
      %88 = arith.addi %8, %c25_i32 overflow<nsw> : i32
      %89 = arith.index_castui %88 : i32 to index
      %90 = arith.addi %8, %c33_i32 overflow<nsw> : i32
      %91 = arith.index_castui %90 : i32 to index
      %92 = arith.addi %8, %c41_i32 overflow<nsw> : i32
      %93 = arith.index_castui %92 : i32 to index
      %94 = arith.addi %8, %c49_i32 overflow<nsw> : i32
      %95 = arith.index_castui %94 : i32 to index
      %96 = arith.addi %8, %c57_i32 overflow<nsw> : i32
      %97 = arith.index_castui %96 : i32 to index
      %98 = arith.muli %51, %c8_i32 overflow<nsw> : i32
      %99 = arith.addi %13, %98 : i32
      %100 = arith.addi %20, %98 : i32
      %101 = arith.addi %27, %98 : i32
      %102 = arith.addi %34, %98 : i32
      %103:8 = scf.for %arg3 = %c0_i32 to %c9_i32 step %c1_i32 iter_args(%arg4 = %cst, %arg5 = %cst, %arg6 = %cst, %arg7 = %cst, %arg8 = %cst, %arg9 = %cst, %arg10 = %cst, %arg11 = %cst) -> (vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>)  : i32 {
        %115:2 = vector.to_elements %arg10 : vector<2xf32>
        %116:2 = vector.to_elements %arg11 : vector<2xf32>
        %117 = vector.from_elements %115#0, %115#1, %116#0, %116#1 : vector<2x2xf32>
        %118:2 = vector.to_elements %arg8 : vector<2xf32>
        %119:2 = vector.to_elements %arg9 : vector<2xf32>
        %120 = vector.from_elements %118#0, %118#1, %119#0, %119#1 : vector<2x2xf32>
        %121:2 = vector.to_elements %arg6 : vector<2xf32>
        %122:2 = vector.to_elements %arg7 : vector<2xf32>
        %123 = vector.from_elements %121#0, %121#1, %122#0, %122#1 : vector<2x2xf32>
        %124:2 = vector.to_elements %arg4 : vector<2xf32>
        %125:2 = vector.to_elements %arg5 : vector<2xf32>
        %126 = vector.from_elements %124#0, %124#1, %125#0, %125#1 : vector<2x2xf32>
        gpu.barrier memfence [#gpu.address_space<workgroup>]
        %127 = arith.muli %arg3, %c64_i32 overflow<nsw> : i32
        %128 = arith.addi %40, %127 : i32
        %129 = arith.divui %128, %c192_i32 : i32
        %130 = arith.remui %128, %c192_i32 : i32
        %131 = arith.divui %130, %c64_i32 : i32
        %132 = arith.remui %128, %c64_i32 : i32
        %133 = arith.index_castui %132 : i32 to index
        %134 = arith.addi %99, %129 : i32
        %135 = arith.index_castui %134 : i32 to index
        %136 = arith.addi %16, %131 : i32
        %137 = arith.index_castui %136 : i32 to index
        %138 = vector.load %assume_align[%135, %137, %133] : memref<18x18x64xf16, #gpu.address_space<global>>, vector<8xf16>
        vector.store %138, %alloc_0[%14, %17, %41] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %139 = arith.addi %42, %127 : i32
        %140 = arith.divui %139, %c192_i32 : i32
        %141 = arith.remui %139, %c192_i32 : i32
        %142 = arith.divui %141, %c64_i32 : i32
        %143 = arith.remui %139, %c64_i32 : i32
        %144 = arith.index_castui %143 : i32 to index
        %145 = arith.addi %100, %140 : i32
        %146 = arith.index_castui %145 : i32 to index
        %147 = arith.addi %23, %142 : i32
        %148 = arith.index_castui %147 : i32 to index
        %149 = vector.load %assume_align[%146, %148, %144] : memref<18x18x64xf16, #gpu.address_space<global>>, vector<8xf16>
        vector.store %149, %alloc_0[%21, %24, %43] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %150 = arith.addi %44, %127 : i32
        %151 = arith.divui %150, %c192_i32 : i32
        %152 = arith.remui %150, %c192_i32 : i32
        %153 = arith.divui %152, %c64_i32 : i32
        %154 = arith.remui %150, %c64_i32 : i32
        %155 = arith.index_castui %154 : i32 to index
        %156 = arith.addi %101, %151 : i32
        %157 = arith.index_castui %156 : i32 to index
        %158 = arith.addi %30, %153 : i32
        %159 = arith.index_castui %158 : i32 to index
        %160 = vector.load %assume_align[%157, %159, %155] : memref<18x18x64xf16, #gpu.address_space<global>>, vector<8xf16>
        vector.store %160, %alloc_0[%28, %31, %45] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %161 = arith.addi %46, %127 : i32
        %162 = arith.divui %161, %c192_i32 : i32
        %163 = arith.remui %161, %c192_i32 : i32
        %164 = arith.divui %163, %c64_i32 : i32
        %165 = arith.remui %161, %c64_i32 : i32
        %166 = arith.index_castui %165 : i32 to index
        %167 = arith.addi %102, %162 : i32
        %168 = arith.index_castui %167 : i32 to index
        %169 = arith.addi %37, %164 : i32
        %170 = arith.index_castui %169 : i32 to index
        %171 = vector.load %assume_align[%168, %170, %166] : memref<18x18x64xf16, #gpu.address_space<global>>, vector<8xf16>
        vector.store %171, %alloc_0[%35, %38, %47] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %172 = arith.addi %10, %127 : i32
        %173 = arith.divui %172, %c192_i32 : i32
        %174 = arith.index_castui %173 : i32 to index
        %175 = arith.remui %172, %c192_i32 : i32
        %176 = arith.divui %175, %c64_i32 : i32
        %177 = arith.index_castui %176 : i32 to index
        %178 = arith.remui %172, %c64_i32 : i32
        %179 = arith.index_castui %178 : i32 to index
        %180 = vector.load %assume_align_1[%174, %177, %179, %55] : memref<3x3x64x64xf16, #gpu.address_space<global>>, vector<8xf16>
        vector.store %180, %alloc[%11, %49] : memref<64x36xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        gpu.barrier memfence [#gpu.address_space<workgroup>]
        %181 = vector.load %alloc_0[%57, %6, %9] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %182 = vector.load %alloc_0[%57, %6, %59] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %183 = vector.load %alloc_0[%57, %6, %61] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %184 = vector.load %alloc_0[%57, %6, %63] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %185 = vector.load %alloc_0[%57, %6, %65] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %186 = vector.load %alloc_0[%57, %6, %67] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %187 = vector.load %alloc_0[%57, %6, %69] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %188 = vector.load %alloc_0[%57, %6, %71] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %189 = vector.load %alloc_0[%57, %73, %9] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %190 = vector.load %alloc_0[%57, %73, %59] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %191:2 = vector.to_elements %181 : vector<2xf16>
        %192:2 = vector.to_elements %189 : vector<2xf16>
        %193:2 = vector.to_elements %182 : vector<2xf16>
        %194:2 = vector.to_elements %190 : vector<2xf16>
        %195 = vector.from_elements %191#0, %191#1, %192#0, %192#1, %193#0, %193#1, %194#0, %194#1 : vector<4x2xf16>
        %196 = vector.load %alloc_0[%57, %73, %61] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %197 = vector.load %alloc_0[%57, %73, %63] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %198:2 = vector.to_elements %183 : vector<2xf16>
        %199:2 = vector.to_elements %196 : vector<2xf16>
        %200:2 = vector.to_elements %184 : vector<2xf16>
        %201:2 = vector.to_elements %197 : vector<2xf16>
        %202 = vector.from_elements %198#0, %198#1, %199#0, %199#1, %200#0, %200#1, %201#0, %201#1 : vector<4x2xf16>
        %203 = vector.load %alloc_0[%57, %73, %65] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %204 = vector.load %alloc_0[%57, %73, %67] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %205:2 = vector.to_elements %185 : vector<2xf16>
        %206:2 = vector.to_elements %203 : vector<2xf16>
        %207:2 = vector.to_elements %186 : vector<2xf16>
        %208:2 = vector.to_elements %204 : vector<2xf16>
        %209 = vector.from_elements %205#0, %205#1, %206#0, %206#1, %207#0, %207#1, %208#0, %208#1 : vector<4x2xf16>
        %210 = vector.load %alloc_0[%57, %73, %69] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %211 = vector.load %alloc_0[%57, %73, %71] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %212:2 = vector.to_elements %187 : vector<2xf16>
        %213:2 = vector.to_elements %210 : vector<2xf16>
        %214:2 = vector.to_elements %188 : vector<2xf16>
        %215:2 = vector.to_elements %211 : vector<2xf16>
        %216 = vector.from_elements %212#0, %212#1, %213#0, %213#1, %214#0, %214#1, %215#0, %215#1 : vector<4x2xf16>
        %217 = vector.load %alloc_0[%75, %6, %9] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %218 = vector.load %alloc_0[%75, %6, %59] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %219 = vector.load %alloc_0[%75, %6, %61] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %220 = vector.load %alloc_0[%75, %6, %63] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %221 = vector.load %alloc_0[%75, %6, %65] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %222 = vector.load %alloc_0[%75, %6, %67] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %223 = vector.load %alloc_0[%75, %6, %69] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %224 = vector.load %alloc_0[%75, %6, %71] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %225 = vector.load %alloc_0[%75, %73, %9] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %226 = vector.load %alloc_0[%75, %73, %59] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %227:2 = vector.to_elements %217 : vector<2xf16>
        %228:2 = vector.to_elements %225 : vector<2xf16>
        %229:2 = vector.to_elements %218 : vector<2xf16>
        %230:2 = vector.to_elements %226 : vector<2xf16>
        %231 = vector.from_elements %227#0, %227#1, %228#0, %228#1, %229#0, %229#1, %230#0, %230#1 : vector<4x2xf16>
        %232 = vector.load %alloc_0[%75, %73, %61] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %233 = vector.load %alloc_0[%75, %73, %63] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %234:2 = vector.to_elements %219 : vector<2xf16>
        %235:2 = vector.to_elements %232 : vector<2xf16>
        %236:2 = vector.to_elements %220 : vector<2xf16>
        %237:2 = vector.to_elements %233 : vector<2xf16>
        %238 = vector.from_elements %234#0, %234#1, %235#0, %235#1, %236#0, %236#1, %237#0, %237#1 : vector<4x2xf16>
        %239 = vector.load %alloc_0[%75, %73, %65] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %240 = vector.load %alloc_0[%75, %73, %67] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %241:2 = vector.to_elements %221 : vector<2xf16>
        %242:2 = vector.to_elements %239 : vector<2xf16>
        %243:2 = vector.to_elements %222 : vector<2xf16>
        %244:2 = vector.to_elements %240 : vector<2xf16>
        %245 = vector.from_elements %241#0, %241#1, %242#0, %242#1, %243#0, %243#1, %244#0, %244#1 : vector<4x2xf16>
        %246 = vector.load %alloc_0[%75, %73, %69] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %247 = vector.load %alloc_0[%75, %73, %71] : memref<8x16x68xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %248:2 = vector.to_elements %223 : vector<2xf16>
        %249:2 = vector.to_elements %246 : vector<2xf16>
        %250:2 = vector.to_elements %224 : vector<2xf16>
        %251:2 = vector.to_elements %247 : vector<2xf16>
        %252 = vector.from_elements %248#0, %248#1, %249#0, %249#1, %250#0, %250#1, %251#0, %251#1 : vector<4x2xf16>
        %253 = vector.load %alloc[%9, %79] : memref<64x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %254 = vector.load %alloc[%9, %81] : memref<64x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %255 = vector.load %alloc[%83, %79] : memref<64x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %256 = vector.load %alloc[%83, %81] : memref<64x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %257 = vector.load %alloc[%59, %79] : memref<64x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %258 = vector.load %alloc[%59, %81] : memref<64x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %259 = vector.load %alloc[%85, %79] : memref<64x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %260 = vector.load %alloc[%85, %81] : memref<64x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %261 = vector.load %alloc[%61, %79] : memref<64x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %262 = vector.load %alloc[%61, %81] : memref<64x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %263 = vector.load %alloc[%87, %79] : memref<64x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %264 = vector.load %alloc[%87, %81] : memref<64x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %265 = vector.load %alloc[%63, %79] : memref<64x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %266 = vector.load %alloc[%63, %81] : memref<64x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %267 = vector.load %alloc[%89, %79] : memref<64x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %268 = vector.load %alloc[%89, %81] : memref<64x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %269 = vector.load %alloc[%65, %79] : memref<64x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %270 = vector.load %alloc[%65, %81] : memref<64x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %271 = vector.load %alloc[%91, %79] : memref<64x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %272 = vector.load %alloc[%91, %81] : memref<64x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %273 = vector.load %alloc[%67, %79] : memref<64x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %274 = vector.load %alloc[%67, %81] : memref<64x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %275 = vector.load %alloc[%93, %79] : memref<64x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %276 = vector.load %alloc[%93, %81] : memref<64x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %277 = vector.load %alloc[%69, %79] : memref<64x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %278 = vector.load %alloc[%69, %81] : memref<64x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %279 = vector.load %alloc[%95, %79] : memref<64x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %280 = vector.load %alloc[%95, %81] : memref<64x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %281 = vector.load %alloc[%71, %79] : memref<64x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %282 = vector.load %alloc[%71, %81] : memref<64x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %283 = vector.load %alloc[%97, %79] : memref<64x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %284 = vector.load %alloc[%97, %81] : memref<64x36xf16, #gpu.address_space<workgroup>>, vector<1xf16>
        %285 = vector.to_elements %253 : vector<1xf16>
        %286 = vector.to_elements %254 : vector<1xf16>
        %287 = vector.to_elements %255 : vector<1xf16>
        %288 = vector.to_elements %256 : vector<1xf16>
        %289 = vector.to_elements %257 : vector<1xf16>
        %290 = vector.to_elements %258 : vector<1xf16>
        %291 = vector.to_elements %259 : vector<1xf16>
        %292 = vector.to_elements %260 : vector<1xf16>
        %293 = vector.to_elements %261 : vector<1xf16>
        %294 = vector.to_elements %262 : vector<1xf16>
        %295 = vector.to_elements %263 : vector<1xf16>
        %296 = vector.to_elements %264 : vector<1xf16>
        %297 = vector.to_elements %265 : vector<1xf16>
        %298 = vector.to_elements %266 : vector<1xf16>
        %299 = vector.to_elements %267 : vector<1xf16>
        %300 = vector.to_elements %268 : vector<1xf16>
        %301 = vector.to_elements %269 : vector<1xf16>
        %302 = vector.to_elements %270 : vector<1xf16>
        %303 = vector.to_elements %271 : vector<1xf16>
        %304 = vector.to_elements %272 : vector<1xf16>
        %305 = vector.to_elements %273 : vector<1xf16>
        %306 = vector.to_elements %274 : vector<1xf16>
        %307 = vector.to_elements %275 : vector<1xf16>
        %308 = vector.to_elements %276 : vector<1xf16>
        %309 = vector.to_elements %277 : vector<1xf16>
        %310 = vector.to_elements %278 : vector<1xf16>
        %311 = vector.to_elements %279 : vector<1xf16>
        %312 = vector.to_elements %280 : vector<1xf16>
        %313 = vector.to_elements %281 : vector<1xf16>
        %314 = vector.to_elements %282 : vector<1xf16>
        %315 = vector.to_elements %283 : vector<1xf16>
        %316 = vector.to_elements %284 : vector<1xf16>
        %317 = vector.from_elements %285, %287, %289, %291 : vector<2x2xf16>
        %318 = vector.from_elements %286, %288, %290, %292 : vector<2x2xf16>
        %319 = vector.from_elements %293, %295, %297, %299 : vector<2x2xf16>
        %320 = vector.from_elements %294, %296, %298, %300 : vector<2x2xf16>
        %321 = vector.from_elements %301, %303, %305, %307 : vector<2x2xf16>
        %322 = vector.from_elements %302, %304, %306, %308 : vector<2x2xf16>
        %323 = vector.from_elements %309, %311, %313, %315 : vector<2x2xf16>
        %324 = vector.from_elements %310, %312, %314, %316 : vector<2x2xf16>
        %325 = nvgpu.mma.sync(%195, %317, %117) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %326 = nvgpu.mma.sync(%195, %318, %120) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %327 = nvgpu.mma.sync(%231, %317, %123) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %328 = nvgpu.mma.sync(%231, %318, %126) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %329 = nvgpu.mma.sync(%202, %319, %325) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %330 = nvgpu.mma.sync(%202, %320, %326) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %331 = nvgpu.mma.sync(%238, %319, %327) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %332 = nvgpu.mma.sync(%238, %320, %328) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %333 = nvgpu.mma.sync(%209, %321, %329) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %334 = nvgpu.mma.sync(%209, %322, %330) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %335 = nvgpu.mma.sync(%245, %321, %331) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %336 = nvgpu.mma.sync(%245, %322, %332) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %337 = nvgpu.mma.sync(%216, %323, %333) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %338 = vector.extract %337[0] : vector<2xf32> from vector<2x2xf32>
        %339 = vector.extract %337[1] : vector<2xf32> from vector<2x2xf32>
        %340 = nvgpu.mma.sync(%216, %324, %334) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %341 = vector.extract %340[0] : vector<2xf32> from vector<2x2xf32>
        %342 = vector.extract %340[1] : vector<2xf32> from vector<2x2xf32>
        %343 = nvgpu.mma.sync(%252, %323, %335) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %344 = vector.extract %343[0] : vector<2xf32> from vector<2x2xf32>
        %345 = vector.extract %343[1] : vector<2xf32> from vector<2x2xf32>
        %346 = nvgpu.mma.sync(%252, %324, %336) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %347 = vector.extract %346[0] : vector<2xf32> from vector<2x2xf32>
        %348 = vector.extract %346[1] : vector<2xf32> from vector<2x2xf32>
        scf.yield %347, %348, %344, %345, %341, %342, %338, %339 : vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>
      }
      %104 = arith.addi %56, %98 : i32
      %105 = arith.index_castui %104 : i32 to index
      %106 = arith.muli %52, %c4_i32 overflow<nsw> : i32
      %107 = arith.addi %76, %106 : i32
      %108 = arith.muli %107, %c8_i32 overflow<nsw> : i32
      %109 = arith.addi %108, %8 overflow<nsw> : i32
      %110 = arith.index_castui %109 : i32 to index
      vector.store %103#6, %assume_align_2[%105, %6, %110] : memref<16x16x64xf32, #gpu.address_space<global>>, vector<2xf32>
      %111 = arith.addi %109, %c8_i32 overflow<nsw> : i32
      %112 = arith.index_castui %111 : i32 to index
      vector.store %103#4, %assume_align_2[%105, %6, %112] : memref<16x16x64xf32, #gpu.address_space<global>>, vector<2xf32>
      vector.store %103#7, %assume_align_2[%105, %73, %110] : memref<16x16x64xf32, #gpu.address_space<global>>, vector<2xf32>
      vector.store %103#5, %assume_align_2[%105, %73, %112] : memref<16x16x64xf32, #gpu.address_space<global>>, vector<2xf32>
      %113 = arith.addi %104, %c1_i32 overflow<nsw> : i32
      %114 = arith.index_castui %113 : i32 to index
      vector.store %103#2, %assume_align_2[%114, %6, %110] : memref<16x16x64xf32, #gpu.address_space<global>>, vector<2xf32>
      vector.store %103#0, %assume_align_2[%114, %6, %112] : memref<16x16x64xf32, #gpu.address_space<global>>, vector<2xf32>
      vector.store %103#3, %assume_align_2[%114, %73, %110] : memref<16x16x64xf32, #gpu.address_space<global>>, vector<2xf32>
      vector.store %103#1, %assume_align_2[%114, %73, %112] : memref<16x16x64xf32, #gpu.address_space<global>>, vector<2xf32>
      gpu.barrier memfence [#gpu.address_space<workgroup>]
      memref.dealloc %alloc_0 : memref<8x16x68xf16, #gpu.address_space<workgroup>>
      memref.dealloc %alloc : memref<64x36xf16, #gpu.address_space<workgroup>>
      gpu.return
    }
  }
}

