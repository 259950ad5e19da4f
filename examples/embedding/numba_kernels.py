"""Kernels as one writes them for Numba, compiled with a hook that pipelines their loops.

    python examples/embedding/numba_kernels.py

Needs no GPU: `compile_ptx` stands for the launch, where the same happens. A loop that fills a
shared array gets as many versions of it as there are stages; one without has its loads run
ahead into registers (the second loop of the softmax).
"""

from __future__ import annotations

import math
from typing import Any

from numba_cuda_mlir import cuda, types
from numba_cuda_mlir.cuda import compile_ptx

import mlir_async_pipe

f32 = types.float32
T = 16
N = 128
WITH_HALO = N + 2


@cuda.jit
def matmul(a, b, c):
    """A tile of 16 x 16 of each operand at a time."""
    tile_a = cuda.shared.array((T, T), f32)
    tile_b = cuda.shared.array((T, T), f32)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    x = cuda.blockIdx.x * T + tx
    y = cuda.blockIdx.y * T + ty
    total = f32(0.0)
    for k in range(a.shape[1] // T):
        tile_a[ty, tx] = a[y, k * T + tx]
        tile_b[ty, tx] = b[k * T + ty, x]
        cuda.syncthreads()
        for j in range(T):
            total += tile_a[ty, j] * tile_b[j, tx]
        cuda.syncthreads()
    c[y, x] = total


@cuda.jit
def stencil(source, target):
    """The mean of three neighbours in each row."""
    row = cuda.shared.array(WITH_HALO, f32)
    t = cuda.threadIdx.x
    column = cuda.blockIdx.x * N + t
    for y in range(source.shape[0]):
        row[t + 1] = source[y, column + 1]
        if t == 0:
            row[0] = source[y, column]
        if t == N - 1:
            row[N + 1] = source[y, column + 2]
        cuda.syncthreads()
        target[y, column] = (row[t] + row[t + 1] + row[t + 2]) / f32(3.0)
        cuda.syncthreads()


@cuda.jit
def reduction(x, out):
    """A sum of everything by one block: tile by tile, then a tree."""
    tile = cuda.shared.array(N, f32)
    t = cuda.threadIdx.x
    total = f32(0.0)
    for start in range(0, x.shape[0], N):
        tile[t] = x[start + t]
        cuda.syncthreads()
        # Two halves in one go, so that every thread reads what another one loaded.
        if t < N // 2:
            total += tile[t] + tile[N - 1 - t]
        cuda.syncthreads()
    tile[t] = total
    cuda.syncthreads()
    width = N // 2
    while width > 0:
        if t < width:
            tile[t] += tile[t + width]
        cuda.syncthreads()
        width //= 2
    if t == 0:
        out[0] = tile[0]


@cuda.jit
def softmax(x, out):
    """One row a block: the largest element and the sum in one go, then the quotients."""
    tile = cuda.shared.array(N, f32)
    t = cuda.threadIdx.x
    row = cuda.blockIdx.x
    largest = f32(-1e30)
    total = f32(0.0)
    for start in range(0, x.shape[1], N):
        tile[t] = x[row, start + t]
        cuda.syncthreads()
        for j in range(N):
            value = tile[j]
            if value > largest:
                total = total * math.exp(largest - value)
                largest = value
            total += math.exp(value - largest)
        cuda.syncthreads()
    for start in range(0, x.shape[1], N):
        out[row, start + t] = math.exp(x[row, start + t] - largest) / total


line, matrix = f32[::1], f32[:, ::1]
# Each kernel with its signature and its block size.
KERNELS: dict[str, tuple[Any, Any, tuple[int, ...]]] = {
    "matmul": (matmul, types.void(matrix, matrix, matrix), (T, T)),
    "stencil": (stencil, types.void(matrix, matrix), (N,)),
    "reduction": (reduction, types.void(line, line), (N,)),
    "softmax": (softmax, types.void(matrix, matrix), (N,)),
}


def main() -> None:
    """Compile all of them, and show what became of their loops."""
    for name, (kernel, signature, threads) in KERNELS.items():
        with mlir_async_pipe.hooks.numba_cuda_mlir(3, threads=threads, noalias=True) as hook:
            ptx, _ = compile_ptx(kernel, signature, cc=(8, 0))
        (made,) = hook.reports
        waits = [entry.count for entry in made.report.of("waits")] if made.report else []
        copies = ptx.count("cp.async.ca") + ptx.count("cp.async.cg")
        print(f"{name}: {made.loops} loops, {copies} cp.async, counts {waits}")
        for entry in made.diagnostics:
            print(f"  {entry.message}")


if __name__ == "__main__":
    main()
