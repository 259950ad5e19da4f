// Loops of CUDA over memory that threads and blocks share, of blocks of 256 threads, each in a right and in wrong forms:
// `nvcc -arch=sm_80 -std=c++17 -ptx strides.cu` (CUDA 13.0) wrote strides.ptx.
#define KERNEL extern "C" __global__ void __launch_bounds__(256)
#define ARGUMENTS (float* o, const float* x, int n, int m)
#define THREAD int t = threadIdx.x
#define GLOBAL int t = blockIdx.x * blockDim.x + threadIdx.x
#define GRID blockDim.x* gridDim.x

// One element a thread of the grid.
KERNEL each_right ARGUMENTS { GLOBAL; if (t < n) o[t] = x[t]; }
KERNEL each_shifted_right ARGUMENTS { unsigned i = blockIdx.x * 256 + threadIdx.x; if (i < n) o[i] = x[i]; }
KERNEL each_pair_right ARGUMENTS { int i = blockIdx.x * 512 + threadIdx.x * 2; if (i < n) { o[i] = x[i]; o[i + 1] = x[i]; } }
KERNEL each_wrong ARGUMENTS { int i = blockIdx.x * 128 + threadIdx.x; if (i < n) o[i] = x[i]; }

// Strides of the whole grid.
KERNEL grid_right ARGUMENTS { GLOBAL; for (int i = t; i < n; i += GRID) o[i] = x[i] + o[i]; }
KERNEL grid_pairs_right ARGUMENTS { GLOBAL; for (int i = 2 * t; i < n; i += 2 * GRID) { o[i] = x[i]; o[i + 1] = x[i + 1]; } }
KERNEL grid_twice_right ARGUMENTS { GLOBAL; for (int i = t; i < n; i += GRID) { o[i] = x[i]; o[i + GRID] = 2; } }
KERNEL grid_rows_right ARGUMENTS { for (int r = blockIdx.x; r < n / 1024; r += gridDim.x) for (int c = threadIdx.x; c < 1024; c += 256) o[r * 1024 + c] = x[r * 1024 + c]; }
KERNEL grid_short_wrong ARGUMENTS { GLOBAL; for (int i = t; i < n; i += GRID - 1) o[i] = x[i]; }
KERNEL grid_half_wrong ARGUMENTS { GLOBAL; for (int i = t; i < n; i += 128 * gridDim.x) o[i] = x[i]; }
KERNEL grid_neighbour_wrong ARGUMENTS { GLOBAL; for (int i = t; i + 1 < n; i += GRID) o[i + 1] = o[i] + x[0]; }
KERNEL grid_pairs_wrong ARGUMENTS { GLOBAL; for (int i = 2 * t; i < n; i += GRID) { o[i] = x[i]; o[i + 1] = x[i + 1]; } }
KERNEL grid_rows_wrong ARGUMENTS { for (int r = blockIdx.x; r < n / 1024; r += gridDim.x) for (int c = threadIdx.x; c < 1025; c += 256) o[r * 1024 + c] = x[c]; }
KERNEL grid_given_wrong ARGUMENTS { GLOBAL; for (int i = t; i < n; i += m) o[i] = x[i]; }

// Strides of a block; nvcc unrolls them, so that a second loop goes on where each thread left the first one.
KERNEL block_right ARGUMENTS { THREAD; for (int i = t; i < n; i += 256) o[i] = x[i]; }
KERNEL block_long_right ARGUMENTS { for (long i = threadIdx.x; i < n; i += 256) o[i] = x[i]; }
KERNEL block_size_right ARGUMENTS { THREAD; for (int i = t; i < n; i += blockDim.x) o[i] = x[i]; }
KERNEL block_fours_right ARGUMENTS { THREAD; for (int i = 4 * t; i < n; i += 1024) { o[i] = x[i]; o[i + 3] = 1; } }
KERNEL block_short_wrong ARGUMENTS { THREAD; for (int i = t; i < n; i += 255) o[i] = x[i]; }
KERNEL block_fours_wrong ARGUMENTS { THREAD; for (int i = 4 * t; i < n; i += 1024) { o[i] = x[i]; o[i + 4] = 1; } }
KERNEL block_two_wrong ARGUMENTS { THREAD; for (int i = 2 * t; i < n; i += 256) o[i] = x[i]; }
KERNEL block_begun_wrong ARGUMENTS { THREAD; int i = t; if (t < m) i += 1; for (; i < n; i += 256) o[i] = x[i]; }
KERNEL block_later_wrong ARGUMENTS { THREAD; int i = t; if (t > m) i += 128; for (; i < n; i += 256) o[i] = x[i]; }
KERNEL block_mixed_wrong ARGUMENTS { THREAD; for (int i = t; i < n; i += x[i] > 0 ? 256 : 100) o[i] = x[i]; }

// Rows, one a block: what the softmax of a row is made of.
KERNEL row_right ARGUMENTS { float* row = o + (long)blockIdx.x * 4096; for (int i = threadIdx.x; i < 4096; i += 256) row[i] = x[i]; }
KERNEL row_part_right ARGUMENTS { float* row = o + (long)blockIdx.x * 4096; for (int i = threadIdx.x; i < n && i < 4096; i += 256) row[i] = x[i]; }
KERNEL row_long_wrong ARGUMENTS { float* row = o + (long)blockIdx.x * 4096; for (int i = threadIdx.x; i <= 4096; i += 256) row[i] = x[i]; }
KERNEL row_part_wrong ARGUMENTS { float* row = o + (long)blockIdx.x * 4096; for (int i = threadIdx.x; i < n; i += 256) row[i] = x[i]; }

// Through workgroup memory.
KERNEL shared_right ARGUMENTS {
  __shared__ float s[1024];
  for (int i = threadIdx.x; i < 1024; i += 256) s[i] = x[i];
  __syncthreads();
  for (int i = threadIdx.x; i < 1024; i += 256) o[blockIdx.x * 1024 + i] = s[1023 - i];
}
KERNEL shared_wrong ARGUMENTS {
  __shared__ float s[1024];
  for (int i = threadIdx.x; i < 1024; i += 256) s[i] = x[i];
  for (int i = threadIdx.x; i < 1024; i += 256) o[blockIdx.x * 1024 + i] = s[1023 - i];
}
KERNEL shared_tiles_right ARGUMENTS {
  __shared__ float s[256];
  for (int b = blockIdx.x; b < n / 256; b += gridDim.x) {
    s[threadIdx.x] = x[b * 256 + threadIdx.x];
    __syncthreads();
    o[b * 256 + threadIdx.x] = s[255 - threadIdx.x];
    __syncthreads();
  }
}
KERNEL shared_tiles_wrong ARGUMENTS {
  __shared__ float s[256];
  for (int b = blockIdx.x; b < n / 256; b += gridDim.x) {
    s[threadIdx.x] = x[b * 256 + threadIdx.x];
    __syncthreads();
    o[b * 256 + threadIdx.x] = s[255 - threadIdx.x];
  }
}
