"""Makes a folder of kernels as users write them for Numba, in the MLIR of numba-cuda-mlir.

    pip install -e '.[nvidia]'
    python bench/foreign_numba.py FOLDER

No GPU is needed: the module is kept that the stack gives to its own passes, with the block size of the launch.
`bench/foreign.py` reads the folder; names that begin with `racy.` are those of kernels that are wrong.
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from pathlib import Path
from typing import Any

from numba_cuda_mlir import cuda, types
from numba_cuda_mlir.cuda import compile_ptx

import mlir_async_pipe

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "embedding"))
numba_kernels = importlib.import_module("numba_kernels")

f32, i32 = types.float32, types.int32
T, N = 16, 128

# fmt: off

def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.shape[0]:
        y[i] = a * x[i] + y[i]


def grid_stride(x, y):
    for i in range(cuda.grid(1), x.shape[0], cuda.gridsize(1)):
        y[i] = x[i] * x[i]


def image(x, y):
    i, j = cuda.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        y[i, j] = x[i, j] * f32(0.5)


def matmul_plain(a, b, c):
    i, j = cuda.grid(2)
    if i < c.shape[0] and j < c.shape[1]:
        total = f32(0.0)
        for k in range(a.shape[1]):
            total += a[i, k] * b[k, j]
        c[i, j] = total


def matmul_once(a, b, c):
    ta, tb = cuda.shared.array((T, T), f32), cuda.shared.array((T, T), f32)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = f32(0.0)
    for k in range(a.shape[1] // T):
        ta[ty, tx] = a[y, k * T + tx]
        tb[ty, tx] = b[k * T + ty, x]
        cuda.syncthreads()
        for j in range(T):
            total += ta[ty, j] * tb[j, tx]
    c[y, x] = total


def transpose(x, y):
    tile = cuda.shared.array((T, T + 1), f32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    tile[ty, tx] = x[cuda.blockIdx.y * T + ty, cuda.blockIdx.x * T + tx]
    cuda.syncthreads()
    y[cuda.blockIdx.x * T + ty, cuda.blockIdx.y * T + tx] = tile[tx, ty]


def transpose_unordered(x, y):
    tile = cuda.shared.array((T, T + 1), f32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    tile[ty, tx] = x[cuda.blockIdx.y * T + ty, cuda.blockIdx.x * T + tx]
    y[cuda.blockIdx.x * T + ty, cuda.blockIdx.y * T + tx] = tile[tx, ty]


def block_sums(x, y):
    part = cuda.shared.array(N, f32)
    t = cuda.threadIdx.x
    part[t] = x[cuda.blockIdx.x * N + t]
    cuda.syncthreads()
    width = N // 2
    while width > 0:
        if t < width:
            part[t] += part[t + width]
        cuda.syncthreads()
        width //= 2
    if t == 0:
        y[cuda.blockIdx.x] = part[0]


def block_sums_unordered(x, y):
    part = cuda.shared.array(N, f32)
    t = cuda.threadIdx.x
    part[t] = x[cuda.blockIdx.x * N + t]
    cuda.syncthreads()
    width = N // 2
    while width > 0:
        if t < width:
            part[t] += part[t + width]
        width //= 2
    if t == 0:
        y[cuda.blockIdx.x] = part[0]


def dot(x, y, out):
    total = f32(0.0)
    for i in range(cuda.grid(1), x.shape[0], cuda.gridsize(1)):
        total += x[i] * y[i]
    cuda.atomic.add(out, 0, total)


def dot_without_atomic(x, y, out):
    total = f32(0.0)
    for i in range(cuda.grid(1), x.shape[0], cuda.gridsize(1)):
        total += x[i] * y[i]
    out[0] += total


def histogram(x, bins):
    near = cuda.shared.array(N, i32)
    t = cuda.threadIdx.x
    near[t] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), x.shape[0], cuda.gridsize(1)):
        cuda.atomic.add(near, x[i] & (N - 1), 1)
    cuda.syncthreads()
    cuda.atomic.add(bins, t, near[t])


def stencil(x, y):
    row = cuda.shared.array(N + 2, f32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * N + t
    row[t + 1] = x[i + 1]
    if t == 0:
        row[0] = x[i]
    if t == N - 1:
        row[N + 1] = x[i + 2]
    cuda.syncthreads()
    y[i] = (row[t] + row[t + 1] + row[t + 2]) / f32(3.0)


def prefix_sums(x, y):
    part = cuda.shared.array(N, f32)
    t = cuda.threadIdx.x
    part[t] = x[cuda.blockIdx.x * N + t]
    cuda.syncthreads()
    step = 1
    while step < N:
        before = f32(0.0)
        if t >= step:
            before = part[t - step]
        cuda.syncthreads()
        part[t] += before
        cuda.syncthreads()
        step *= 2
    y[cuda.blockIdx.x * N + t] = part[t]


def row_sums(x, y):
    part = cuda.shared.array(N, f32)
    r, t = cuda.blockIdx.x, cuda.threadIdx.x
    total = f32(0.0)
    for i in range(t, x.shape[1], N):
        total += x[r, i]
    part[t] = total
    cuda.syncthreads()
    if t == 0:
        total = f32(0.0)
        for i in range(N):
            total += part[i]
        y[r] = total


def gather(x, which, y):
    i = cuda.grid(1)
    if i < which.shape[0]:
        y[i] = x[which[i]]


def polynomial(x, y):
    local = cuda.local.array(4, f32)
    for k in range(4):
        local[k] = f32(k)
    i = cuda.grid(1)
    if i < x.shape[0]:
        total = f32(0.0)
        for k in range(4):
            total = total * x[i] + local[k]
        y[i] = total


def shuffle_sums(x, y):
    i = cuda.grid(1)
    v = x[i]
    for step in (16, 8, 4, 2, 1):
        v += cuda.shfl_down_sync(0xFFFFFFFF, v, step)
    if cuda.threadIdx.x % 32 == 0:
        y[i // 32] = v

# fmt: on

VECTOR, MATRIX, INTEGERS = f32[::1], f32[:, ::1], i32[::1]
KERNELS: dict[str, tuple[Any, tuple[Any, ...], tuple[int, ...]]] = {
    "saxpy": (saxpy, (f32, VECTOR, VECTOR), (N,)),
    "grid_stride": (grid_stride, (VECTOR,) * 2, (N,)),
    "image": (image, (MATRIX,) * 2, (T, T)),
    "matmul_plain": (matmul_plain, (MATRIX,) * 3, (T, T)),
    "matmul_tiled": (numba_kernels.matmul.py_func, (MATRIX,) * 3, (T, T)),
    "racy.matmul_once": (matmul_once, (MATRIX,) * 3, (T, T)),
    "transpose": (transpose, (MATRIX,) * 2, (T, T)),
    "racy.transpose_unordered": (transpose_unordered, (MATRIX,) * 2, (T, T)),
    "block_sums": (block_sums, (VECTOR,) * 2, (N,)),
    "racy.block_sums_unordered": (block_sums_unordered, (VECTOR,) * 2, (N,)),
    "dot": (dot, (VECTOR,) * 3, (N,)),
    "racy.dot_without_atomic": (dot_without_atomic, (VECTOR,) * 3, (N,)),
    "histogram": (histogram, (INTEGERS,) * 2, (N,)),
    "stencil": (stencil, (VECTOR,) * 2, (N,)),
    "stencil_rows": (numba_kernels.stencil.py_func, (MATRIX,) * 2, (N,)),
    "prefix_sums": (prefix_sums, (VECTOR,) * 2, (N,)),
    "row_sums": (row_sums, (MATRIX, VECTOR), (N,)),
    "gather": (gather, (VECTOR, INTEGERS, VECTOR), (N,)),
    "polynomial": (polynomial, (VECTOR,) * 2, (N,)),
    "shuffle_sums": (shuffle_sums, (VECTOR,) * 2, (N,)),
}


class KeptError(Exception):
    """The stack's way to code ends here, with the module as text."""


class Keep(mlir_async_pipe.hooks.numba_cuda_mlir):  # type: ignore[misc, name-defined]
    """In place of the stack's passes."""

    def _optimize(self, compiled: Any, original: Any) -> None:
        raise KeptError(compiled.metadata["mlir_module"].operation.get_asm(enable_debug_info=True))


def module_of(kernel: Any, kinds: tuple[Any, ...], threads: tuple[int, ...]) -> str:
    """The module of one kernel, launched with blocks of so many threads."""
    try:
        with Keep():
            compile_ptx(cuda.jit(kernel), types.void(*kinds), cc=(8, 0))
    except KeptError as kept:
        sizes = ", ".join(map(str, (*threads, 1, 1)[:3]))
        known = f"kernel attributes {{known_block_size = array<i32: {sizes}>, "
        return re.sub(r"\bkernel attributes \{", known, str(kept), count=1)
    raise SystemExit("the stack makes code in another way than this script knows")


def main() -> None:
    """One file a kernel."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, (kernel, kinds, threads) in KERNELS.items():
        (options.folder / f"{name}.mlir").write_text(module_of(kernel, kinds, threads))
        print(name)


if __name__ == "__main__":
    main()
