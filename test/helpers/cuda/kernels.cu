// Kernels as people write them, of blocks of 128 threads: `nvcc -arch=sm_90 -std=c++17 -ptx kernels.cu` (CUDA 13.0) wrote kernels.ptx.
#include <cuda_pipeline_primitives.h>
#include <mma.h>

#define KERNEL extern "C" __global__ void __launch_bounds__(128)
#define NO_UNROLL _Pragma("unroll 1")

__device__ unsigned at(const void* memory) { return __cvta_generic_to_shared(memory); }
__device__ void init(unsigned barrier, unsigned count) { asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(count)); }
__device__ void arrive(unsigned barrier) { asm volatile("{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [%0]; }" ::"r"(barrier) : "memory"); }
__device__ void wait(unsigned barrier, unsigned parity) {
  asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @p bra done; bra again; done: }" ::"r"(barrier), "r"(parity) : "memory");
}

// A pipeline of the programming guide, its last groups empty.
KERNEL pipeline(const float4* a, float* out, int n) {
  __shared__ float4 tile[4][128];
  int t = threadIdx.x;
  for (int i = 0; i < 3; ++i) {
    if (i < n) __pipeline_memcpy_async(&tile[i][t], a + i * 128 + t, 16);
    __pipeline_commit();
  }
  float sum = 0;
  for (int i = 0; i < n; ++i) {
    if (i + 3 < n) __pipeline_memcpy_async(&tile[(i + 3) % 4][t], a + (i + 3) * 128 + t, 16);
    __pipeline_commit();
    __pipeline_wait_prior(3);
    __syncthreads();
    sum += tile[i % 4][(t + 1) % 128].x;
    __syncthreads();
  }
  out[blockIdx.x * 128 + t] = sum;
}

// Products of warps from two buffers.
KERNEL products(const __half* a, const __half* b, float* c, int n) {
  using namespace nvcuda;
  __shared__ __align__(128) __half as[2][64 * 16], bs[2][16 * 64];
  int t = threadIdx.x, w = t >> 5;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[2];
  for (int i = 0; i < 2; ++i) wmma::fill_fragment(sums[i], 0.f);
  __pipeline_memcpy_async(&as[0][t * 8], a + t * 8, 16);
  __pipeline_memcpy_async(&bs[0][t * 8], b + t * 8, 16);
  __pipeline_commit();
  NO_UNROLL for (int k = 0; k < n; ++k) {
    if (k + 1 < n) {
      __pipeline_memcpy_async(&as[(k + 1) & 1][t * 8], a + (k + 1) * 1024 + t * 8, 16);
      __pipeline_memcpy_async(&bs[(k + 1) & 1][t * 8], b + (k + 1) * 1024 + t * 8, 16);
    }
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
    wmma::load_matrix_sync(fa, &as[k & 1][w * 256], 16);
    for (int i = 0; i < 2; ++i) {
      wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> fb;
      wmma::load_matrix_sync(fb, &bs[k & 1][i * 16], 64);
      wmma::mma_sync(sums[i], fa, fb, sums[i]);
    }
    __syncthreads();
  }
  for (int i = 0; i < 2; ++i) wmma::store_matrix_sync(c + w * 16 * 32 + i * 16, sums[i], 32, wmma::mem_row_major);
}

// What a struct says, which the kernel is given by value.
struct Problem { int m, n, k; };
KERNEL by_value(Problem p, const float* a, float* out) {
  __shared__ float tile[128];
  int t = threadIdx.x;
  float sum = 0;
  NO_UNROLL for (int i = 0; i < p.k; ++i) {
    tile[t] = a[i * 128 + t];
    __syncthreads();
    sum += tile[t ^ 1];
    __syncthreads();
  }
  out[blockIdx.x * 128 + t] = sum;
}

// Half of the threads copy, each with cp.async, and arrive when their copies are over; the others read.
KERNEL copiers(const float4* a, float* out, int n) {
  __shared__ float4 tile[2][64];
  __shared__ unsigned long long full[2], empty[2];
  int t = threadIdx.x;
  if (t == 0)
    for (int s = 0; s < 2; ++s) { init(at(&full[s]), 64); init(at(&empty[s]), 64); }
  __syncthreads();
  if (t < 64) {
    NO_UNROLL for (int i = 0; i < n; ++i) {
      wait(at(&empty[i & 1]), (i >> 1 & 1) ^ 1);
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at(&tile[i & 1][t])), "l"(a + i * 64 + t) : "memory");
      asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(at(&full[i & 1])) : "memory");
    }
  } else {
    float sum = 0;
    NO_UNROLL for (int i = 0; i < n; ++i) {
      wait(at(&full[i & 1]), i >> 1 & 1);
      sum += tile[i & 1][(t + 1) & 63].x;
      arrive(at(&empty[i & 1]));
    }
    out[blockIdx.x * 64 + t - 64] = sum;
  }
}

// Plain stores that one group hands to the other, and gets back.
KERNEL handed(const float* a, float* out, int n) {
  __shared__ float tile[64];
  __shared__ unsigned long long full, empty;
  int t = threadIdx.x;
  if (t == 0) { init(at(&full), 64); init(at(&empty), 64); }
  __syncthreads();
  if (t < 64) {
    NO_UNROLL for (int i = 0; i < n; ++i) { tile[t] = a[i * 64 + t]; arrive(at(&full)); wait(at(&empty), i & 1); }
  } else {
    float sum = 0;
    NO_UNROLL for (int i = 0; i < n; ++i) { wait(at(&full), i & 1); sum += tile[(t ^ 1) & 63]; arrive(at(&empty)); }
    out[t] = sum;
  }
}

// The same, given back before it is read.
KERNEL handed_back_early(const float* a, float* out, int n) {
  __shared__ float tile[64];
  __shared__ unsigned long long full, empty;
  int t = threadIdx.x;
  if (t == 0) { init(at(&full), 64); init(at(&empty), 64); }
  __syncthreads();
  if (t < 64) {
    NO_UNROLL for (int i = 0; i < n; ++i) { tile[t] = a[i * 64 + t]; arrive(at(&full)); wait(at(&empty), i & 1); }
  } else {
    float sum = 0;
    NO_UNROLL for (int i = 0; i < n; ++i) { wait(at(&full), i & 1); arrive(at(&empty)); sum += *(volatile float*)&tile[(t ^ 1) & 63]; }
    out[t] = sum;
  }
}

// A group of two warps meets by itself, at an mbarrier of two phases an iteration.
KERNEL among_themselves(const float* a, float* out, int n) {
  __shared__ float tile[64];
  __shared__ unsigned long long met;
  int t = threadIdx.x;
  if (t == 0) init(at(&met), 64);
  __syncthreads();
  if (t >= 64) {
    float sum = 0;
    NO_UNROLL for (int i = 0; i < n; ++i) {
      tile[t - 64] = a[i * 64 + t];
      arrive(at(&met));
      wait(at(&met), 0);
      sum += tile[(t ^ 33) - 64];
      arrive(at(&met));
      wait(at(&met), 1);
    }
    out[t] = sum;
  }
}

// It waits for others, who say nothing of its own stores.
KERNEL for_others(const float* a, float* out) {
  __shared__ float tile[64];
  __shared__ unsigned long long mine, theirs;
  int t = threadIdx.x;
  if (t == 0) { init(at(&mine), 64); init(at(&theirs), 64); }
  __syncthreads();
  if (t >= 64) { tile[t - 64] = a[t]; arrive(at(&mine)); wait(at(&theirs), 0); out[t] = tile[(t ^ 33) - 64]; }
  else { arrive(at(&theirs)); wait(at(&mine), 0); }
}

// Two groups take turns at barriers that have numbers, one for each slot.
KERNEL numbered(const float* a, float* out, int n) {
  __shared__ float tile[2][64];
  int t = threadIdx.x;
  if (t < 64) {
    NO_UNROLL for (int i = 0; i < n; ++i) {
      asm volatile("bar.sync %0, 128;" ::"r"(2 + (i & 1)) : "memory");
      tile[i & 1][t] = a[i * 64 + t];
      asm volatile("bar.arrive %0, 128;" ::"r"(4 + (i & 1)) : "memory");
    }
  } else {
    float sum = 0;
    asm volatile("bar.arrive 2, 128;" ::: "memory");
    asm volatile("bar.arrive 3, 128;" ::: "memory");
    NO_UNROLL for (int i = 0; i < n; ++i) {
      asm volatile("bar.sync %0, 128;" ::"r"(4 + (i & 1)) : "memory");
      sum += tile[i & 1][(t + 1) & 63];
      asm volatile("bar.arrive %0, 128;" ::"r"(2 + (i & 1)) : "memory");
    }
    out[blockIdx.x * 64 + t - 64] = sum;
  }
}

// Each thread copies sixteen bytes in bulk, and announces them itself.
KERNEL bulk(const float4* a, float* out, int n) {
  __shared__ float4 tile[128];
  __shared__ unsigned long long full;
  int t = threadIdx.x;
  if (t == 0) { init(at(&full), 128); asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
  __syncthreads();
  float sum = 0;
  NO_UNROLL for (int i = 0; i < n; ++i) {
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], 16;" ::"r"(at(&full)) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 16, [%2];" ::"r"(at(&tile[t])), "l"(a + i * 128 + t), "r"(at(&full)) : "memory");
    arrive(at(&full));
    wait(at(&full), i & 1);
    sum += tile[t ^ 1].x;
    __syncthreads();
  }
  out[t] = sum;
}

// Blocks of a cluster, each with copies of its own, as often as a struct says.
KERNEL __cluster_dims__(2, 1, 1) in_clusters(Problem p, const float4* a, float* out) {
  __shared__ float4 tile[128];
  __shared__ unsigned long long full;
  int t = threadIdx.x;
  if (t == 0) init(at(&full), 128);
  asm volatile("barrier.cluster.arrive;" ::: "memory");
  asm volatile("barrier.cluster.wait;" ::: "memory");
  float sum = 0;
  NO_UNROLL for (int i = 0; i < p.k; ++i) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at(&tile[t])), "l"(a + i * 128 + t) : "memory");
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(at(&full)) : "memory");
    wait(at(&full), i & 1);
    sum += tile[t ^ 33].x;
    __syncthreads();
  }
  out[blockIdx.x * 128 + t] = sum;
}
