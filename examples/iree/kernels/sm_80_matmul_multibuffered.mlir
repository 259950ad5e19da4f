module {
  gpu.module @kernels {
    gpu.func @matmul_dispatch_0_matmul_64x64x1024_f16xf16xf32(%arg0: memref<64x1024xf16, #gpu.address_space<global>> {llvm.noalias}, %arg1: memref<64x1024xf16, #gpu.address_space<global>> {llvm.noalias}, %arg2: memref<64x64xf32, #gpu.address_space<global>> {llvm.noalias}) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
      %c3 = arith.constant 3 : index
      %c896 = arith.constant 896 : index
      %c768 = arith.constant 768 : index
      %c640 = arith.constant 640 : index
      %c512 = arith.constant 512 : index
      %c384 = arith.constant 384 : index
      %c256 = arith.constant 256 : index
      %c128 = arith.constant 128 : index
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
      %c40 = arith.constant 40 : index
      %c24 = arith.constant 24 : index
      %c16 = arith.constant 16 : index
      %c2 = arith.constant 2 : index
      %c4 = arith.constant 4 : index
      %c32 = arith.constant 32 : index
      %c8 = arith.constant 8 : index
      %c64 = arith.constant 64 : index
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
      %44:8 = scf.for %arg3 = %c0 to %c64 step %c8 iter_args(%arg4 = %cst, %arg5 = %cst, %arg6 = %cst, %arg7 = %cst, %arg8 = %cst, %arg9 = %cst, %arg10 = %cst, %arg11 = %cst) -> (vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>) {
        %64 = arith.divui %arg3, %c8 : index
        %65 = arith.remui %64, %c3 : index
        %subview = memref.subview %alloc_0[%65, 0, 0] [1, 64, 128] [1, 1, 1] : memref<3x64x128xf16, #gpu.address_space<workgroup>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
        %subview_3 = memref.subview %alloc[%65, 0, 0] [1, 32, 128] [1, 1, 1] : memref<3x32x128xf16, #gpu.address_space<workgroup>> to memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
        %66:2 = vector.to_elements %arg10 : vector<2xf32>
        %67:2 = vector.to_elements %arg11 : vector<2xf32>
        %68 = vector.from_elements %66#0, %66#1, %67#0, %67#1 : vector<2x2xf32>
        %69:2 = vector.to_elements %arg8 : vector<2xf32>
        %70:2 = vector.to_elements %arg9 : vector<2xf32>
        %71 = vector.from_elements %69#0, %69#1, %70#0, %70#1 : vector<2x2xf32>
        %72:2 = vector.to_elements %arg6 : vector<2xf32>
        %73:2 = vector.to_elements %arg7 : vector<2xf32>
        %74 = vector.from_elements %72#0, %72#1, %73#0, %73#1 : vector<2x2xf32>
        %75:2 = vector.to_elements %arg4 : vector<2xf32>
        %76:2 = vector.to_elements %arg5 : vector<2xf32>
        %77 = vector.from_elements %75#0, %75#1, %76#0, %76#1 : vector<2x2xf32>
        gpu.barrier memfence [#gpu.address_space<workgroup>]
        %78 = arith.muli %arg3, %c16 overflow<nsw> : index
        %79 = arith.addi %31, %78 : index
        %80 = nvgpu.device_async_copy %assume_align[%8, %79], %subview[%8, %31], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
        %81 = arith.addi %32, %78 : index
        %82 = nvgpu.device_async_copy %assume_align[%11, %81], %subview[%11, %32], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
        %83 = arith.addi %33, %78 : index
        %84 = nvgpu.device_async_copy %assume_align[%14, %83], %subview[%14, %33], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
        %85 = arith.addi %34, %78 : index
        %86 = nvgpu.device_async_copy %assume_align[%17, %85], %subview[%17, %34], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
        %87 = arith.addi %35, %78 : index
        %88 = nvgpu.device_async_copy %assume_align[%20, %87], %subview[%20, %35], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
        %89 = arith.addi %36, %78 : index
        %90 = nvgpu.device_async_copy %assume_align[%23, %89], %subview[%23, %36], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
        %91 = arith.addi %37, %78 : index
        %92 = nvgpu.device_async_copy %assume_align[%26, %91], %subview[%26, %37], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
        %93 = arith.addi %38, %78 : index
        %94 = nvgpu.device_async_copy %assume_align[%29, %93], %subview[%29, %38], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<64x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
        %95 = nvgpu.device_async_copy %assume_align_1[%40, %79], %subview_3[%8, %31], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
        %96 = nvgpu.device_async_copy %assume_align_1[%41, %81], %subview_3[%11, %32], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
        %97 = nvgpu.device_async_copy %assume_align_1[%42, %83], %subview_3[%14, %33], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
        %98 = nvgpu.device_async_copy %assume_align_1[%43, %85], %subview_3[%17, %34], 8 {bypassL1} : memref<64x1024xf16, #gpu.address_space<global>> to memref<32x128xf16, strided<[128, 1], offset: ?>, #gpu.address_space<workgroup>>
        %99 = nvgpu.device_async_create_group %80, %82, %84, %86, %88, %90, %92, %94, %95, %96, %97, %98
        nvgpu.device_async_wait %99
        gpu.barrier memfence [#gpu.address_space<workgroup>]
        %100 = arith.muli %0, %c32 overflow<nsw> : index
        %101 = arith.addi %5, %100 overflow<nsw> : index
        %102 = vector.load %alloc_0[%65, %101, %7] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %103 = arith.addi %7, %c8 overflow<nsw> : index
        %104 = vector.load %alloc_0[%65, %101, %103] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %105 = arith.addi %7, %c16 overflow<nsw> : index
        %106 = vector.load %alloc_0[%65, %101, %105] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %107 = arith.addi %7, %c24 overflow<nsw> : index
        %108 = vector.load %alloc_0[%65, %101, %107] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %109 = arith.addi %7, %c32 overflow<nsw> : index
        %110 = vector.load %alloc_0[%65, %101, %109] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %111 = arith.addi %7, %c40 overflow<nsw> : index
        %112 = vector.load %alloc_0[%65, %101, %111] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %113 = arith.addi %7, %c48 overflow<nsw> : index
        %114 = vector.load %alloc_0[%65, %101, %113] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %115 = arith.addi %7, %c56 overflow<nsw> : index
        %116 = vector.load %alloc_0[%65, %101, %115] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %117 = arith.addi %7, %c64 overflow<nsw> : index
        %118 = vector.load %alloc_0[%65, %101, %117] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %119 = arith.addi %7, %c72 overflow<nsw> : index
        %120 = vector.load %alloc_0[%65, %101, %119] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %121 = arith.addi %7, %c80 overflow<nsw> : index
        %122 = vector.load %alloc_0[%65, %101, %121] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %123 = arith.addi %7, %c88 overflow<nsw> : index
        %124 = vector.load %alloc_0[%65, %101, %123] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %125 = arith.addi %7, %c96 overflow<nsw> : index
        %126 = vector.load %alloc_0[%65, %101, %125] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %127 = arith.addi %7, %c104 overflow<nsw> : index
        %128 = vector.load %alloc_0[%65, %101, %127] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %129 = arith.addi %7, %c112 overflow<nsw> : index
        %130 = vector.load %alloc_0[%65, %101, %129] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %131 = arith.addi %7, %c120 overflow<nsw> : index
        %132 = vector.load %alloc_0[%65, %101, %131] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %133 = arith.addi %5, %c8 overflow<nsw> : index
        %134 = arith.addi %133, %100 overflow<nsw> : index
        %135 = vector.load %alloc_0[%65, %134, %7] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %136 = vector.load %alloc_0[%65, %134, %103] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %137:2 = vector.to_elements %102 : vector<2xf16>
        %138:2 = vector.to_elements %135 : vector<2xf16>
        %139:2 = vector.to_elements %104 : vector<2xf16>
        %140:2 = vector.to_elements %136 : vector<2xf16>
        %141 = vector.from_elements %137#0, %137#1, %138#0, %138#1, %139#0, %139#1, %140#0, %140#1 : vector<4x2xf16>
        %142 = vector.load %alloc_0[%65, %134, %105] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %143 = vector.load %alloc_0[%65, %134, %107] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %144:2 = vector.to_elements %106 : vector<2xf16>
        %145:2 = vector.to_elements %142 : vector<2xf16>
        %146:2 = vector.to_elements %108 : vector<2xf16>
        %147:2 = vector.to_elements %143 : vector<2xf16>
        %148 = vector.from_elements %144#0, %144#1, %145#0, %145#1, %146#0, %146#1, %147#0, %147#1 : vector<4x2xf16>
        %149 = vector.load %alloc_0[%65, %134, %109] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %150 = vector.load %alloc_0[%65, %134, %111] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %151:2 = vector.to_elements %110 : vector<2xf16>
        %152:2 = vector.to_elements %149 : vector<2xf16>
        %153:2 = vector.to_elements %112 : vector<2xf16>
        %154:2 = vector.to_elements %150 : vector<2xf16>
        %155 = vector.from_elements %151#0, %151#1, %152#0, %152#1, %153#0, %153#1, %154#0, %154#1 : vector<4x2xf16>
        %156 = vector.load %alloc_0[%65, %134, %113] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %157 = vector.load %alloc_0[%65, %134, %115] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %158:2 = vector.to_elements %114 : vector<2xf16>
        %159:2 = vector.to_elements %156 : vector<2xf16>
        %160:2 = vector.to_elements %116 : vector<2xf16>
        %161:2 = vector.to_elements %157 : vector<2xf16>
        %162 = vector.from_elements %158#0, %158#1, %159#0, %159#1, %160#0, %160#1, %161#0, %161#1 : vector<4x2xf16>
        %163 = vector.load %alloc_0[%65, %134, %117] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %164 = vector.load %alloc_0[%65, %134, %119] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %165:2 = vector.to_elements %118 : vector<2xf16>
        %166:2 = vector.to_elements %163 : vector<2xf16>
        %167:2 = vector.to_elements %120 : vector<2xf16>
        %168:2 = vector.to_elements %164 : vector<2xf16>
        %169 = vector.from_elements %165#0, %165#1, %166#0, %166#1, %167#0, %167#1, %168#0, %168#1 : vector<4x2xf16>
        %170 = vector.load %alloc_0[%65, %134, %121] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %171 = vector.load %alloc_0[%65, %134, %123] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %172:2 = vector.to_elements %122 : vector<2xf16>
        %173:2 = vector.to_elements %170 : vector<2xf16>
        %174:2 = vector.to_elements %124 : vector<2xf16>
        %175:2 = vector.to_elements %171 : vector<2xf16>
        %176 = vector.from_elements %172#0, %172#1, %173#0, %173#1, %174#0, %174#1, %175#0, %175#1 : vector<4x2xf16>
        %177 = vector.load %alloc_0[%65, %134, %125] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %178 = vector.load %alloc_0[%65, %134, %127] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %179:2 = vector.to_elements %126 : vector<2xf16>
        %180:2 = vector.to_elements %177 : vector<2xf16>
        %181:2 = vector.to_elements %128 : vector<2xf16>
        %182:2 = vector.to_elements %178 : vector<2xf16>
        %183 = vector.from_elements %179#0, %179#1, %180#0, %180#1, %181#0, %181#1, %182#0, %182#1 : vector<4x2xf16>
        %184 = vector.load %alloc_0[%65, %134, %129] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %185 = vector.load %alloc_0[%65, %134, %131] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %186:2 = vector.to_elements %130 : vector<2xf16>
        %187:2 = vector.to_elements %184 : vector<2xf16>
        %188:2 = vector.to_elements %132 : vector<2xf16>
        %189:2 = vector.to_elements %185 : vector<2xf16>
        %190 = vector.from_elements %186#0, %186#1, %187#0, %187#1, %188#0, %188#1, %189#0, %189#1 : vector<4x2xf16>
        %191 = arith.muli %0, %c2 overflow<nsw> : index
        %192 = arith.addi %191, %c1 : index
        %193 = arith.muli %192, %c16 overflow<nsw> : index
        %194 = arith.addi %5, %193 overflow<nsw> : index
        %195 = vector.load %alloc_0[%65, %194, %7] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %196 = vector.load %alloc_0[%65, %194, %103] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %197 = vector.load %alloc_0[%65, %194, %105] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %198 = vector.load %alloc_0[%65, %194, %107] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %199 = vector.load %alloc_0[%65, %194, %109] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %200 = vector.load %alloc_0[%65, %194, %111] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %201 = vector.load %alloc_0[%65, %194, %113] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %202 = vector.load %alloc_0[%65, %194, %115] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %203 = vector.load %alloc_0[%65, %194, %117] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %204 = vector.load %alloc_0[%65, %194, %119] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %205 = vector.load %alloc_0[%65, %194, %121] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %206 = vector.load %alloc_0[%65, %194, %123] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %207 = vector.load %alloc_0[%65, %194, %125] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %208 = vector.load %alloc_0[%65, %194, %127] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %209 = vector.load %alloc_0[%65, %194, %129] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %210 = vector.load %alloc_0[%65, %194, %131] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %211 = arith.addi %133, %193 overflow<nsw> : index
        %212 = vector.load %alloc_0[%65, %211, %7] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %213 = vector.load %alloc_0[%65, %211, %103] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %214:2 = vector.to_elements %195 : vector<2xf16>
        %215:2 = vector.to_elements %212 : vector<2xf16>
        %216:2 = vector.to_elements %196 : vector<2xf16>
        %217:2 = vector.to_elements %213 : vector<2xf16>
        %218 = vector.from_elements %214#0, %214#1, %215#0, %215#1, %216#0, %216#1, %217#0, %217#1 : vector<4x2xf16>
        %219 = vector.load %alloc_0[%65, %211, %105] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %220 = vector.load %alloc_0[%65, %211, %107] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %221:2 = vector.to_elements %197 : vector<2xf16>
        %222:2 = vector.to_elements %219 : vector<2xf16>
        %223:2 = vector.to_elements %198 : vector<2xf16>
        %224:2 = vector.to_elements %220 : vector<2xf16>
        %225 = vector.from_elements %221#0, %221#1, %222#0, %222#1, %223#0, %223#1, %224#0, %224#1 : vector<4x2xf16>
        %226 = vector.load %alloc_0[%65, %211, %109] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %227 = vector.load %alloc_0[%65, %211, %111] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %228:2 = vector.to_elements %199 : vector<2xf16>
        %229:2 = vector.to_elements %226 : vector<2xf16>
        %230:2 = vector.to_elements %200 : vector<2xf16>
        %231:2 = vector.to_elements %227 : vector<2xf16>
        %232 = vector.from_elements %228#0, %228#1, %229#0, %229#1, %230#0, %230#1, %231#0, %231#1 : vector<4x2xf16>
        %233 = vector.load %alloc_0[%65, %211, %113] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %234 = vector.load %alloc_0[%65, %211, %115] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %235:2 = vector.to_elements %201 : vector<2xf16>
        %236:2 = vector.to_elements %233 : vector<2xf16>
        %237:2 = vector.to_elements %202 : vector<2xf16>
        %238:2 = vector.to_elements %234 : vector<2xf16>
        %239 = vector.from_elements %235#0, %235#1, %236#0, %236#1, %237#0, %237#1, %238#0, %238#1 : vector<4x2xf16>
        %240 = vector.load %alloc_0[%65, %211, %117] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %241 = vector.load %alloc_0[%65, %211, %119] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %242:2 = vector.to_elements %203 : vector<2xf16>
        %243:2 = vector.to_elements %240 : vector<2xf16>
        %244:2 = vector.to_elements %204 : vector<2xf16>
        %245:2 = vector.to_elements %241 : vector<2xf16>
        %246 = vector.from_elements %242#0, %242#1, %243#0, %243#1, %244#0, %244#1, %245#0, %245#1 : vector<4x2xf16>
        %247 = vector.load %alloc_0[%65, %211, %121] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %248 = vector.load %alloc_0[%65, %211, %123] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %249:2 = vector.to_elements %205 : vector<2xf16>
        %250:2 = vector.to_elements %247 : vector<2xf16>
        %251:2 = vector.to_elements %206 : vector<2xf16>
        %252:2 = vector.to_elements %248 : vector<2xf16>
        %253 = vector.from_elements %249#0, %249#1, %250#0, %250#1, %251#0, %251#1, %252#0, %252#1 : vector<4x2xf16>
        %254 = vector.load %alloc_0[%65, %211, %125] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %255 = vector.load %alloc_0[%65, %211, %127] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %256:2 = vector.to_elements %207 : vector<2xf16>
        %257:2 = vector.to_elements %254 : vector<2xf16>
        %258:2 = vector.to_elements %208 : vector<2xf16>
        %259:2 = vector.to_elements %255 : vector<2xf16>
        %260 = vector.from_elements %256#0, %256#1, %257#0, %257#1, %258#0, %258#1, %259#0, %259#1 : vector<4x2xf16>
        %261 = vector.load %alloc_0[%65, %211, %129] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %262 = vector.load %alloc_0[%65, %211, %131] : memref<3x64x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %263:2 = vector.to_elements %209 : vector<2xf16>
        %264:2 = vector.to_elements %261 : vector<2xf16>
        %265:2 = vector.to_elements %210 : vector<2xf16>
        %266:2 = vector.to_elements %262 : vector<2xf16>
        %267 = vector.from_elements %263#0, %263#1, %264#0, %264#1, %265#0, %265#1, %266#0, %266#1 : vector<4x2xf16>
        %268 = arith.muli %2, %c16 overflow<nsw> : index
        %269 = arith.addi %5, %268 overflow<nsw> : index
        %270 = vector.load %alloc[%65, %269, %7] : memref<3x32x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %271 = vector.load %alloc[%65, %269, %103] : memref<3x32x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %272:2 = vector.to_elements %270 : vector<2xf16>
        %273:2 = vector.to_elements %271 : vector<2xf16>
        %274 = vector.from_elements %272#0, %272#1, %273#0, %273#1 : vector<2x2xf16>
        %275 = vector.load %alloc[%65, %269, %105] : memref<3x32x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %276 = vector.load %alloc[%65, %269, %107] : memref<3x32x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %277:2 = vector.to_elements %275 : vector<2xf16>
        %278:2 = vector.to_elements %276 : vector<2xf16>
        %279 = vector.from_elements %277#0, %277#1, %278#0, %278#1 : vector<2x2xf16>
        %280 = vector.load %alloc[%65, %269, %109] : memref<3x32x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %281 = vector.load %alloc[%65, %269, %111] : memref<3x32x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %282:2 = vector.to_elements %280 : vector<2xf16>
        %283:2 = vector.to_elements %281 : vector<2xf16>
        %284 = vector.from_elements %282#0, %282#1, %283#0, %283#1 : vector<2x2xf16>
        %285 = vector.load %alloc[%65, %269, %113] : memref<3x32x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %286 = vector.load %alloc[%65, %269, %115] : memref<3x32x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %287:2 = vector.to_elements %285 : vector<2xf16>
        %288:2 = vector.to_elements %286 : vector<2xf16>
        %289 = vector.from_elements %287#0, %287#1, %288#0, %288#1 : vector<2x2xf16>
        %290 = vector.load %alloc[%65, %269, %117] : memref<3x32x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %291 = vector.load %alloc[%65, %269, %119] : memref<3x32x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %292:2 = vector.to_elements %290 : vector<2xf16>
        %293:2 = vector.to_elements %291 : vector<2xf16>
        %294 = vector.from_elements %292#0, %292#1, %293#0, %293#1 : vector<2x2xf16>
        %295 = vector.load %alloc[%65, %269, %121] : memref<3x32x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %296 = vector.load %alloc[%65, %269, %123] : memref<3x32x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %297:2 = vector.to_elements %295 : vector<2xf16>
        %298:2 = vector.to_elements %296 : vector<2xf16>
        %299 = vector.from_elements %297#0, %297#1, %298#0, %298#1 : vector<2x2xf16>
        %300 = vector.load %alloc[%65, %269, %125] : memref<3x32x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %301 = vector.load %alloc[%65, %269, %127] : memref<3x32x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %302:2 = vector.to_elements %300 : vector<2xf16>
        %303:2 = vector.to_elements %301 : vector<2xf16>
        %304 = vector.from_elements %302#0, %302#1, %303#0, %303#1 : vector<2x2xf16>
        %305 = vector.load %alloc[%65, %269, %129] : memref<3x32x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %306 = vector.load %alloc[%65, %269, %131] : memref<3x32x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %307:2 = vector.to_elements %305 : vector<2xf16>
        %308:2 = vector.to_elements %306 : vector<2xf16>
        %309 = vector.from_elements %307#0, %307#1, %308#0, %308#1 : vector<2x2xf16>
        %310 = arith.muli %2, %c2 overflow<nsw> : index
        %311 = arith.addi %310, %c1 : index
        %312 = arith.muli %311, %c8 overflow<nsw> : index
        %313 = arith.addi %5, %312 overflow<nsw> : index
        %314 = vector.load %alloc[%65, %313, %7] : memref<3x32x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %315 = vector.load %alloc[%65, %313, %103] : memref<3x32x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %316:2 = vector.to_elements %314 : vector<2xf16>
        %317:2 = vector.to_elements %315 : vector<2xf16>
        %318 = vector.from_elements %316#0, %316#1, %317#0, %317#1 : vector<2x2xf16>
        %319 = vector.load %alloc[%65, %313, %105] : memref<3x32x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %320 = vector.load %alloc[%65, %313, %107] : memref<3x32x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %321:2 = vector.to_elements %319 : vector<2xf16>
        %322:2 = vector.to_elements %320 : vector<2xf16>
        %323 = vector.from_elements %321#0, %321#1, %322#0, %322#1 : vector<2x2xf16>
        %324 = vector.load %alloc[%65, %313, %109] : memref<3x32x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %325 = vector.load %alloc[%65, %313, %111] : memref<3x32x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %326:2 = vector.to_elements %324 : vector<2xf16>
        %327:2 = vector.to_elements %325 : vector<2xf16>
        %328 = vector.from_elements %326#0, %326#1, %327#0, %327#1 : vector<2x2xf16>
        %329 = vector.load %alloc[%65, %313, %113] : memref<3x32x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %330 = vector.load %alloc[%65, %313, %115] : memref<3x32x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %331:2 = vector.to_elements %329 : vector<2xf16>
        %332:2 = vector.to_elements %330 : vector<2xf16>
        %333 = vector.from_elements %331#0, %331#1, %332#0, %332#1 : vector<2x2xf16>
        %334 = vector.load %alloc[%65, %313, %117] : memref<3x32x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %335 = vector.load %alloc[%65, %313, %119] : memref<3x32x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %336:2 = vector.to_elements %334 : vector<2xf16>
        %337:2 = vector.to_elements %335 : vector<2xf16>
        %338 = vector.from_elements %336#0, %336#1, %337#0, %337#1 : vector<2x2xf16>
        %339 = vector.load %alloc[%65, %313, %121] : memref<3x32x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %340 = vector.load %alloc[%65, %313, %123] : memref<3x32x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %341:2 = vector.to_elements %339 : vector<2xf16>
        %342:2 = vector.to_elements %340 : vector<2xf16>
        %343 = vector.from_elements %341#0, %341#1, %342#0, %342#1 : vector<2x2xf16>
        %344 = vector.load %alloc[%65, %313, %125] : memref<3x32x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %345 = vector.load %alloc[%65, %313, %127] : memref<3x32x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %346:2 = vector.to_elements %344 : vector<2xf16>
        %347:2 = vector.to_elements %345 : vector<2xf16>
        %348 = vector.from_elements %346#0, %346#1, %347#0, %347#1 : vector<2x2xf16>
        %349 = vector.load %alloc[%65, %313, %129] : memref<3x32x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %350 = vector.load %alloc[%65, %313, %131] : memref<3x32x128xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %351:2 = vector.to_elements %349 : vector<2xf16>
        %352:2 = vector.to_elements %350 : vector<2xf16>
        %353 = vector.from_elements %351#0, %351#1, %352#0, %352#1 : vector<2x2xf16>
        %354 = nvgpu.mma.sync(%141, %274, %68) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %355 = nvgpu.mma.sync(%141, %318, %71) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %356 = nvgpu.mma.sync(%218, %274, %74) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %357 = nvgpu.mma.sync(%218, %318, %77) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %358 = nvgpu.mma.sync(%148, %279, %354) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %359 = nvgpu.mma.sync(%148, %323, %355) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %360 = nvgpu.mma.sync(%225, %279, %356) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %361 = nvgpu.mma.sync(%225, %323, %357) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %362 = nvgpu.mma.sync(%155, %284, %358) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %363 = nvgpu.mma.sync(%155, %328, %359) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %364 = nvgpu.mma.sync(%232, %284, %360) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %365 = nvgpu.mma.sync(%232, %328, %361) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %366 = nvgpu.mma.sync(%162, %289, %362) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %367 = nvgpu.mma.sync(%162, %333, %363) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %368 = nvgpu.mma.sync(%239, %289, %364) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %369 = nvgpu.mma.sync(%239, %333, %365) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %370 = nvgpu.mma.sync(%169, %294, %366) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %371 = nvgpu.mma.sync(%169, %338, %367) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %372 = nvgpu.mma.sync(%246, %294, %368) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %373 = nvgpu.mma.sync(%246, %338, %369) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %374 = nvgpu.mma.sync(%176, %299, %370) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %375 = nvgpu.mma.sync(%176, %343, %371) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %376 = nvgpu.mma.sync(%253, %299, %372) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %377 = nvgpu.mma.sync(%253, %343, %373) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %378 = nvgpu.mma.sync(%183, %304, %374) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %379 = nvgpu.mma.sync(%183, %348, %375) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %380 = nvgpu.mma.sync(%260, %304, %376) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %381 = nvgpu.mma.sync(%260, %348, %377) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %382 = nvgpu.mma.sync(%190, %309, %378) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %383 = vector.extract %382[0] : vector<2xf32> from vector<2x2xf32>
        %384 = vector.extract %382[1] : vector<2xf32> from vector<2x2xf32>
        %385 = nvgpu.mma.sync(%190, %353, %379) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %386 = vector.extract %385[0] : vector<2xf32> from vector<2x2xf32>
        %387 = vector.extract %385[1] : vector<2xf32> from vector<2x2xf32>
        %388 = nvgpu.mma.sync(%267, %309, %380) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %389 = vector.extract %388[0] : vector<2xf32> from vector<2x2xf32>
        %390 = vector.extract %388[1] : vector<2xf32> from vector<2x2xf32>
        %391 = nvgpu.mma.sync(%267, %353, %381) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %392 = vector.extract %391[0] : vector<2xf32> from vector<2x2xf32>
        %393 = vector.extract %391[1] : vector<2xf32> from vector<2x2xf32>
        scf.yield %392, %393, %389, %390, %386, %387, %383, %384 : vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>
      }
      %45 = arith.muli %2, %c2 overflow<nsw> : index
      %46 = arith.muli %block_id_x, %c4 overflow<nsw> : index
      %47 = arith.addi %45, %46 : index
      %48 = arith.muli %0, %c32 overflow<nsw> : index
      %49 = arith.addi %48, %5 overflow<nsw> : index
      %50 = arith.muli %47, %c8 overflow<nsw> : index
      %51 = arith.addi %50, %7 overflow<nsw> : index
      vector.store %44#6, %assume_align_2[%49, %51] : memref<64x64xf32, #gpu.address_space<global>>, vector<2xf32>
      %52 = arith.addi %45, %c1 : index
      %53 = arith.addi %52, %46 : index
      %54 = arith.muli %53, %c8 overflow<nsw> : index
      %55 = arith.addi %54, %7 overflow<nsw> : index
      vector.store %44#4, %assume_align_2[%49, %55] : memref<64x64xf32, #gpu.address_space<global>>, vector<2xf32>
      %56 = arith.addi %48, %c8 overflow<nsw> : index
      %57 = arith.addi %56, %5 overflow<nsw> : index
      vector.store %44#7, %assume_align_2[%57, %51] : memref<64x64xf32, #gpu.address_space<global>>, vector<2xf32>
      vector.store %44#5, %assume_align_2[%57, %55] : memref<64x64xf32, #gpu.address_space<global>>, vector<2xf32>
      %58 = arith.muli %0, %c2 overflow<nsw> : index
      %59 = arith.addi %58, %c1 : index
      %60 = arith.muli %59, %c16 overflow<nsw> : index
      %61 = arith.addi %60, %5 overflow<nsw> : index
      vector.store %44#2, %assume_align_2[%61, %51] : memref<64x64xf32, #gpu.address_space<global>>, vector<2xf32>
      vector.store %44#0, %assume_align_2[%61, %55] : memref<64x64xf32, #gpu.address_space<global>>, vector<2xf32>
      %62 = arith.addi %60, %c8 overflow<nsw> : index
      %63 = arith.addi %62, %5 overflow<nsw> : index
      vector.store %44#3, %assume_align_2[%63, %51] : memref<64x64xf32, #gpu.address_space<global>>, vector<2xf32>
      vector.store %44#1, %assume_align_2[%63, %55] : memref<64x64xf32, #gpu.address_space<global>>, vector<2xf32>
      gpu.barrier memfence [#gpu.address_space<workgroup>]
      memref.dealloc %alloc_0 : memref<3x64x128xf16, #gpu.address_space<workgroup>>
      memref.dealloc %alloc : memref<3x32x128xf16, #gpu.address_space<workgroup>>
      gpu.return
    }
  }
}

