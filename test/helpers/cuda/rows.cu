// Rows whose length only the launch knows, in CUDA, each in a right and in wrong forms. Blocks of 256 threads, of 16 x 16
// where a name begins with tile: `nvcc -arch=sm_80 -std=c++17 -ptx rows.cu` (CUDA 13.0) wrote rows.ptx.
#define KERNEL extern "C" __global__ void __launch_bounds__(256)
#define ARGUMENTS (float* o, const float* x, int n, int m)
#define THREAD int t = threadIdx.x
#define ROW float* row = o + (long)blockIdx.x * n
#define AT int i = blockIdx.x * 16 + threadIdx.x, j = blockIdx.y * 16 + threadIdx.y

// A row of n for each block.
KERNEL block_right ARGUMENTS { THREAD; if (t < n) o[blockIdx.x * n + t] = x[t]; }
KERNEL block_strided_right ARGUMENTS { for (int i = threadIdx.x; i < n; i += blockDim.x) o[blockIdx.x * n + i] = x[i]; }
KERNEL block_pointer_right ARGUMENTS { ROW; for (int i = threadIdx.x; i < n; i += blockDim.x) row[i] = x[i]; }
KERNEL block_grid_right ARGUMENTS { for (int r = blockIdx.x; r < m; r += gridDim.x) for (int i = threadIdx.x; i < n; i += blockDim.x) o[r * n + i] = x[i]; }
KERNEL block_pieces_right ARGUMENTS { int i = blockIdx.x * 256 + threadIdx.x; if (i < n) o[blockIdx.y * n + i] = x[i]; }
KERNEL block_more_wrong ARGUMENTS { THREAD; if (t <= n) o[blockIdx.x * n + t] = x[t]; }
KERNEL block_strided_wrong ARGUMENTS { for (int i = threadIdx.x; i <= n; i += blockDim.x) o[blockIdx.x * n + i] = x[i]; }
KERNEL block_pointer_wrong ARGUMENTS { ROW; for (int i = threadIdx.x; i < n + 1; i += blockDim.x) row[i] = x[i]; }
KERNEL block_shorter_wrong ARGUMENTS { for (int i = threadIdx.x; i < n; i += blockDim.x) o[blockIdx.x * m + i] = x[i]; }
KERNEL block_grid_wrong ARGUMENTS { for (int r = blockIdx.x; r < m; r += gridDim.x) for (int i = threadIdx.x; i <= n; i += blockDim.x) o[r * n + i] = x[i]; }
KERNEL block_pieces_wrong ARGUMENTS { int i = blockIdx.x * 128 + threadIdx.x; if (i < n) o[blockIdx.y * n + i] = x[i]; }
KERNEL block_before_wrong ARGUMENTS { for (int i = threadIdx.x; i < n; i += blockDim.x) o[blockIdx.x * n + i - 1 + n] = x[i] + o[blockIdx.x * n + n]; }

// A row for each thread; nvcc unrolls these, and what is left over runs in a loop of its own.
KERNEL thread_right ARGUMENTS { int r = blockIdx.x * 256 + threadIdx.x; if (r < m) for (int i = 0; i < n; ++i) o[r * n + i] = x[i]; }
KERNEL thread_once_right ARGUMENTS { int r = blockIdx.x * 256 + threadIdx.x;
#pragma unroll 1
  for (int i = 0; i < n; ++i) o[r * n + i] = x[i]; }
KERNEL thread_wrong ARGUMENTS { int r = blockIdx.x * 256 + threadIdx.x; if (r < m) for (int i = 0; i <= n; ++i) o[r * n + i] = x[i]; }
KERNEL thread_half_wrong ARGUMENTS { int r = blockIdx.x * 256 + threadIdx.x; if (r < m) for (int i = 0; i < n; ++i) o[r / 2 * n + i] = x[i]; }

// The softmax of a row, in shared memory.
#define REDUCE(f) for (int k = blockDim.x / 2; k > 0; k >>= 1) { if (t < k) s[t] = f(s[t], s[t + k]); __syncthreads(); }
#define SUM(a, b) a + b
#define SOFTMAX(last, meet) __shared__ float s[256]; THREAD; const float* q = x + blockIdx.x * n; float* row = o + blockIdx.x * n; float most = -1e30f, sum = 0; \
  for (int i = t; i < n; i += blockDim.x) most = fmaxf(most, q[i]); s[t] = most; __syncthreads(); REDUCE(fmaxf) most = s[0]; meet; \
  for (int i = t; i < last; i += blockDim.x) { float e = __expf(q[i] - most); row[i] = e; sum += e; } s[t] = sum; __syncthreads(); REDUCE(SUM) \
  for (int i = t; i < n; i += blockDim.x) row[i] /= s[0];
KERNEL softmax_right ARGUMENTS { SOFTMAX(n, __syncthreads()) }
KERNEL softmax_meeting_wrong ARGUMENTS { SOFTMAX(n, ) }
KERNEL softmax_longer_wrong ARGUMENTS { SOFTMAX(n + 1, __syncthreads()) }

// Tiles of a matrix of m rows of n.
KERNEL tile_right ARGUMENTS { AT; if (i < n && j < m) o[j * n + i] = x[j * n + i]; }
KERNEL tile_inside_right ARGUMENTS { AT; if (i > 0 && j > 0 && i < n - 1 && j < m - 1) o[j * n + i] = x[j * n + i - 1] + x[j * n + i + 1] + x[(j - 1) * n + i]; }
KERNEL tile_batch_right ARGUMENTS { AT; if (i < n && j < m) o[(blockIdx.z * m + j) * n + i] = x[j * n + i]; }
KERNEL tile_transposed_right ARGUMENTS { __shared__ float s[16][17]; AT; if (i < n && j < m) s[threadIdx.y][threadIdx.x] = x[j * n + i]; __syncthreads();
  int u = blockIdx.y * 16 + threadIdx.x, v = blockIdx.x * 16 + threadIdx.y; if (u < m && v < n) o[v * m + u] = s[threadIdx.x][threadIdx.y]; }
KERNEL tile_product_right ARGUMENTS { __shared__ float s[16][16], r[16][16]; AT; float sum = 0;
  for (int k = 0; k < n; k += 16) { s[threadIdx.y][threadIdx.x] = j < n && k + (int)threadIdx.x < n ? x[j * n + k + threadIdx.x] : 0; r[threadIdx.y][threadIdx.x] = i < n && k + (int)threadIdx.y < n ? x[(k + threadIdx.y) * n + i] : 0;
    __syncthreads(); for (int l = 0; l < 16; ++l) sum += s[threadIdx.y][l] * r[l][threadIdx.x]; __syncthreads(); }
  if (i < n && j < n) o[j * n + i] = sum; }
KERNEL tile_more_wrong ARGUMENTS { AT; if (i <= n && j < m) o[j * n + i] = x[j * n + i]; }
KERNEL tile_other_wrong ARGUMENTS { AT; if (i < m && j < m) o[j * n + i] = x[j * n + i]; }
KERNEL tile_inside_wrong ARGUMENTS { AT; if (i > 0 && j > 0 && i < n - 1 && j < m - 1) o[j * n + i] = o[j * n + i - 1] + o[j * n + i + 1]; }
KERNEL tile_batch_wrong ARGUMENTS { AT; if (i < n && j <= m) o[(blockIdx.z * m + j) * n + i] = x[j * n + i]; }
KERNEL tile_swapped_wrong ARGUMENTS { AT; if (i < n && j < m) o[i * n + j] = x[j * n + i]; }
KERNEL tile_transposed_wrong ARGUMENTS { __shared__ float s[16][17]; AT; if (i < n && j < m) s[threadIdx.y][threadIdx.x] = x[j * n + i];
  int u = blockIdx.y * 16 + threadIdx.x, v = blockIdx.x * 16 + threadIdx.y; if (u < m && v < n) o[v * m + u] = s[threadIdx.x][threadIdx.y]; }
