"""Makes a folder of kernels in CUDA C++, as NVRTC compiles them to PTX, without a GPU.

    python -m venv cuda && cuda/bin/pip install nvidia-cuda-nvrtc-cu12 nvidia-cuda-runtime-cu12 nvidia-cuda-cccl-cu12
    cuda/bin/python bench/foreign_cuda.py FOLDER [--chip compute_90]

The kernels are written as CUDA's guide shows shared memory, its barriers, and its copies by `__pipeline_memcpy_async`.
`bench/foreign.py` reads the folder.
"""

from __future__ import annotations

import argparse
import ctypes
import glob
from pathlib import Path

import nvidia.cuda_cccl
import nvidia.cuda_nvrtc
import nvidia.cuda_runtime

HEAD = "#include <cuda_pipeline_primitives.h>\n"


def ring(slots: int, ahead: int) -> str:
    """Sums of tiles, whose copies are so many tiles ahead in a ring of so many slots."""
    return f"""
extern "C" __global__ void __block_size__((128, 1, 1)) ring(const float* __restrict__ x, float* __restrict__ y, int n) {{
  __shared__ float tile[{slots}][512];
  int t = threadIdx.x;
  float sum = 0;
  for (int s = 0; s < {ahead}; ++s) {{
    if (s < n) __pipeline_memcpy_async(&tile[s][t * 4], &x[s * 512 + t * 4], 16);
    __pipeline_commit();
  }}
  for (int i = 0; i < n; ++i) {{
    __pipeline_wait_prior({ahead - 1});
    __syncthreads();
    if (i + {ahead} < n)
      __pipeline_memcpy_async(&tile[(i + {ahead}) % {slots}][t * 4], &x[(i + {ahead}) * 512 + t * 4], 16);
    __pipeline_commit();
    sum += tile[i % {slots}][(t ^ 1) * 4];
  }}
  y[t] = sum;
}}
"""


MATMUL = """
extern "C" __global__ void __block_size__((256, 1, 1)) matmul(const float* __restrict__ a, const float* __restrict__ b,
                                                         float* __restrict__ c, int n) {
  __shared__ float ta[16][16], tb[16][17];
  int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  int row = blockIdx.y * 16 + ty, column = blockIdx.x * 16 + tx;
  float sum = 0;
  for (int k = 0; k < n; k += 16) {
    ta[ty][tx] = a[row * n + k + tx];
    tb[ty][tx] = b[(k + ty) * n + column];
    __syncthreads();
    for (int i = 0; i < 16; ++i) sum += ta[ty][i] * tb[i][tx];
    __syncthreads();
  }
  c[row * n + column] = sum;
}
"""

REDUCTION = """
extern "C" __global__ void __block_size__((256, 1, 1)) reduction(const float* __restrict__ x, float* __restrict__ y) {
  __shared__ float part[8];
  int t = threadIdx.x;
  float sum = x[blockIdx.x * 256 + t];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (t % 32 == 0) part[t / 32] = sum;
  __syncthreads();
  if (t == 0) {
    float total = 0;
    for (int i = 0; i < 8; ++i) total += part[i];
    y[blockIdx.x] = total;
  }
}
"""

TREE = """
extern "C" __global__ void __block_size__((256, 1, 1)) tree(const float* __restrict__ x, float* __restrict__ y) {
  __shared__ float part[256];
  int t = threadIdx.x;
  part[t] = x[blockIdx.x * 256 + t];
  __syncthreads();
  for (int step = 128; step > 0; step /= 2) {
    if (t < step) part[t] += part[t + step];
    __syncthreads();
  }
  if (t == 0) y[blockIdx.x] = part[0];
}
"""

TRANSPOSE = """
extern "C" __global__ void __block_size__((256, 1, 1)) transpose(const float* __restrict__ x, float* __restrict__ y, int n) {
  __shared__ float tile[32][33];
  int tx = threadIdx.x % 32, ty = threadIdx.x / 32;
  for (int i = ty; i < 32; i += 8) tile[i][tx] = x[(blockIdx.y * 32 + i) * n + blockIdx.x * 32 + tx];
  __syncthreads();
  for (int i = ty; i < 32; i += 8) y[(blockIdx.x * 32 + i) * n + blockIdx.y * 32 + tx] = tile[tx][i];
}
"""

STENCIL = """
extern "C" __global__ void __block_size__((256, 1, 1)) stencil(const float* __restrict__ x, float* __restrict__ y) {
  __shared__ float row[258];
  int t = threadIdx.x, at = blockIdx.x * 256 + t;
  row[t + 1] = x[at + 1];
  if (t == 0) row[0] = x[at];
  if (t == 255) row[257] = x[at + 2];
  __syncthreads();
  y[at] = row[t] + row[t + 1] + row[t + 2];
}
"""

HISTOGRAM = """
extern "C" __global__ void __block_size__((256, 1, 1)) histogram(const unsigned* __restrict__ x, unsigned* __restrict__ y, int n) {
  __shared__ unsigned bins[256];
  bins[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) atomicAdd(&bins[x[i] & 255], 1u);
  __syncthreads();
  atomicAdd(&y[threadIdx.x], bins[threadIdx.x]);
}
"""

KERNELS = {
    **{f"ring_{s}_{a}": ring(s, a) for s, a in ((2, 1), (3, 2), (4, 2), (4, 3), (8, 7))},
    # The copy for the next iteration but one goes to the slot that is read now.
    "racy.ring_2_2": ring(2, 2),
    "matmul": MATMUL,
    "reduction": REDUCTION,
    "tree": TREE,
    "transpose": TRANSPOSE,
    "stencil": STENCIL,
    "histogram": HISTOGRAM,
}


def compiled(source: str, chip: str) -> bytes:
    """The PTX of one program."""
    (library,) = glob.glob(str(Path(nvidia.cuda_nvrtc.__path__[0]) / "lib" / "libnvrtc.so*[0-9]"))
    nvrtc = ctypes.CDLL(library)
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    text = (HEAD + source).encode()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, b"kernel.cu", 0, None, None)
    options = [f"--gpu-architecture={chip}".encode(), b"-std=c++17", b"-default-device"]
    for package in (nvidia.cuda_runtime, nvidia.cuda_cccl):
        options.append(f"-I{package.__path__[0]}/include".encode())
    given = (ctypes.c_char_p * len(options))(*options)
    failed = nvrtc.nvrtcCompileProgram(program, len(options), given)
    what = ("ProgramLogSize", "ProgramLog") if failed else ("PTXSize", "PTX")
    getattr(nvrtc, f"nvrtcGet{what[0]}")(program, ctypes.byref(size))
    found = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, f"nvrtcGet{what[1]}")(program, found)
    if failed:
        raise SystemExit(found.value.decode())
    return found.value


def main() -> None:
    """One file a kernel."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--chip", default="compute_90")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, source in KERNELS.items():
        (options.folder / f"{name}.ptx").write_bytes(compiled(source, options.chip))
        print(name)


if __name__ == "__main__":
    main()
