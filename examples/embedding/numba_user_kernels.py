"""Kernels as Numba's users write them, with nothing in them for a pipeliner: sums, products with guards,
chunks, tails, loops over the grid.

    python examples/embedding/numba_user_kernels.py

prints what `num_stages=3` makes of each: how its loads run ahead, the counts of its waits, and what could not be
proven. Needs no GPU.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any

from numba_cuda_mlir import cuda, types
from numba_cuda_mlir.cuda import compile_ptx

import mlir_async_pipe

f16, f32, i32 = types.float16, types.float32, types.int32
N = 128
T = 16


@cuda.jit
def row_sums(x, out):
    """A row a block: a loop inside copies a chunk of it."""
    tile = cuda.shared.array(512, f32)
    t = cuda.threadIdx.x
    row = cuda.blockIdx.x
    total = f32(0.0)
    for start in range(0, x.shape[1], 512):
        for i in range(t, 512, cuda.blockDim.x):
            tile[i] = x[row, start + i]
        cuda.syncthreads()
        for i in range(t, 512, cuda.blockDim.x):
            total += tile[511 - i]
        cuda.syncthreads()
    cuda.atomic.add(out, row, total)


@cuda.jit
def row_sums_tree(x, out):
    """Four elements a thread, then a tree."""
    tile = cuda.shared.array(512, f32)
    part = cuda.shared.array(N, f32)
    t = cuda.threadIdx.x
    row = cuda.blockIdx.x
    total = f32(0.0)
    for start in range(0, x.shape[1], 512):
        for i in range(4):
            tile[t + i * N] = x[row, start + t + i * N]
        cuda.syncthreads()
        for i in range(4):
            total += tile[4 * t + i]
        cuda.syncthreads()
    part[t] = total
    cuda.syncthreads()
    s = N // 2
    while s > 0:
        if t < s:
            part[t] += part[t + s]
        cuda.syncthreads()
        s //= 2
    if t == 0:
        out[row] = part[0]


@cuda.jit
def matmul(a, b, c):
    """Tiles that are zeroed, then filled where there is something."""
    sA = cuda.shared.array((T, T), f32)
    sB = cuda.shared.array((T, T), f32)
    x, y = cuda.grid(2)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    bpg = cuda.gridDim.x
    total = f32(0.0)
    for i in range(bpg):
        sA[ty, tx] = 0
        sB[ty, tx] = 0
        if y < a.shape[0] and (tx + i * T) < a.shape[1]:
            sA[ty, tx] = a[y, tx + i * T]
        if x < b.shape[1] and (ty + i * T) < b.shape[0]:
            sB[ty, tx] = b[ty + i * T, x]
        cuda.syncthreads()
        for j in range(T):
            total += sA[ty, j] * sB[j, tx]
        cuda.syncthreads()
    if y < c.shape[0] and x < c.shape[1]:
        c[y, x] = total


@cuda.jit
def matmul_return(a, b, c):
    """Threads outside leave: whether all of a block do, nobody can tell."""
    sA = cuda.shared.array((T, T), f32)
    sB = cuda.shared.array((T, T), f32)
    x, y = cuda.grid(2)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    if x >= c.shape[0] and y >= c.shape[1]:
        return
    total = f32(0.0)
    for i in range(a.shape[1] // T):
        sA[tx, ty] = a[x, ty + i * T]
        sB[tx, ty] = b[tx + i * T, y]
        cuda.syncthreads()
        for j in range(T):
            total += sA[tx, j] * sB[j, ty]
        cuda.syncthreads()
    c[x, y] = total


@cuda.jit
def matmul_f16(a, b, c):
    """Tiles of halves, sums of floats."""
    sA = cuda.shared.array((T, T), f16)
    sB = cuda.shared.array((T, T), f16)
    x, y = cuda.grid(2)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    total = f32(0.0)
    for i in range(a.shape[1] // T):
        sA[ty, tx] = a[y, tx + i * T]
        sB[ty, tx] = b[ty + i * T, x]
        cuda.syncthreads()
        for j in range(T):
            total += f32(sA[ty, j]) * f32(sB[j, tx])
        cuda.syncthreads()
    c[y, x] = total


@cuda.jit
def dot(a, b, out):
    """Chunks of a block, one after the other over the grid; one sum for all."""
    sA = cuda.shared.array(N, f32)
    sB = cuda.shared.array(N, f32)
    t = cuda.threadIdx.x
    total = f32(0.0)
    for start in range(cuda.blockIdx.x * N, a.shape[0], cuda.gridDim.x * N):
        sA[t] = a[start + t]
        sB[t] = b[start + t]
        cuda.syncthreads()
        total += sA[N - 1 - t] * sB[N - 1 - t]
        cuda.syncthreads()
    cuda.atomic.add(out, 0, total)


@cuda.jit
def dot_plain(a, b, out):
    """Elements over the grid, then a tree."""
    part = cuda.shared.array(N, f32)
    t = cuda.threadIdx.x
    total = f32(0.0)
    for i in range(cuda.grid(1), a.shape[0], cuda.gridsize(1)):
        total += a[i] * b[i]
    part[t] = total
    cuda.syncthreads()
    s = N // 2
    while s > 0:
        if t < s:
            part[t] += part[t + s]
        cuda.syncthreads()
        s //= 2
    if t == 0:
        out[cuda.blockIdx.x] = part[0]


@cuda.jit
def softmax_rows(x, out):
    """Rows over the grid."""
    tile = cuda.shared.array(N, f32)
    t = cuda.threadIdx.x
    for row in range(cuda.blockIdx.x, x.shape[0], cuda.gridDim.x):
        tile[t] = x[row, t]
        cuda.syncthreads()
        big = f32(-1e30)
        for j in range(N):
            big = max(big, tile[j])
        total = f32(0.0)
        for j in range(N):
            total += math.exp(tile[j] - big)
        out[row, t] = math.exp(tile[t] - big) / total
        cuda.syncthreads()


@cuda.jit
def tail(x, out):
    """Any length: zeros after the end."""
    tile = cuda.shared.array(N, f32)
    t = cuda.threadIdx.x
    total = f32(0.0)
    for start in range(0, x.shape[0], N):
        if start + t < x.shape[0]:
            tile[t] = x[start + t]
        else:
            tile[t] = f32(0.0)
        cuda.syncthreads()
        total += tile[N - 1 - t]
        cuda.syncthreads()
    out[cuda.blockIdx.x * N + t] = total


@cuda.jit
def tail_n(x, n, out):
    """The length is an argument."""
    tile = cuda.shared.array(N, f32)
    t = cuda.threadIdx.x
    total = f32(0.0)
    for start in range(0, n, N):
        i = start + t
        tile[t] = x[i] if i < n else f32(0.0)
        cuda.syncthreads()
        total += tile[N - 1 - t]
        cuda.syncthreads()
    out[cuda.grid(1)] = total


@cuda.jit
def scale(x, y, a):
    """Copy, compute, store: a range of chunks a block."""
    tile = cuda.shared.array(N, f32)
    t = cuda.threadIdx.x
    chunks = x.shape[0] // (N * cuda.gridDim.x)
    base = cuda.blockIdx.x * chunks * N
    for c in range(chunks):
        tile[t] = x[base + c * N + t]
        cuda.syncthreads()
        y[base + c * N + t] = a * tile[N - 1 - t]
        cuda.syncthreads()


@cuda.jit
def saxpy(x, y, a):
    """In place, over the grid."""
    for i in range(cuda.grid(1), x.shape[0], cuda.gridsize(1)):
        y[i] = a * x[i] + y[i]


@cuda.jit
def largest(x, out):
    """The largest integer of a line."""
    tile = cuda.shared.array(N, i32)
    t = cuda.threadIdx.x
    best = i32(-2147483648)
    for start in range(0, x.shape[0], N):
        tile[t] = x[start + t]
        cuda.syncthreads()
        best = max(best, tile[N - 1 - t])
        cuda.syncthreads()
    cuda.atomic.max(out, 0, best)


@cuda.jit
def column_sums(x, out):
    """A column a thread, in tiles of eight rows."""
    tile = cuda.shared.array((8, N), f32)
    t = cuda.threadIdx.x
    col = cuda.grid(1)
    total = f32(0.0)
    for start in range(0, x.shape[0], 8):
        for i in range(8):
            tile[i, t] = x[start + i, col]
        cuda.syncthreads()
        for i in range(8):
            total += tile[i, N - 1 - t]
        cuda.syncthreads()
    out[cuda.blockIdx.x * N + N - 1 - t] = total


@cuda.jit
def convolution(x, w, out):
    """A tile with its halo, copied by a loop whose threads go round once or twice."""
    tile = cuda.shared.array(136, f32)
    ws = cuda.shared.array(9, f32)
    t = cuda.threadIdx.x
    if t < 9:
        ws[t] = w[t]
    cuda.syncthreads()
    row = cuda.blockIdx.x
    for start in range(0, out.shape[1], N):
        for i in range(t, N + 8, N):
            tile[i] = x[row, start + i]
        cuda.syncthreads()
        s = f32(0.0)
        for k in range(9):
            s += ws[k] * tile[t + k]
        out[row, start + t] = s
        cuda.syncthreads()


line, matrix, halves = f32[::1], f32[:, ::1], f16[:, ::1]
# Each kernel with its signature, its block and its grid.
KERNELS: dict[str, tuple[Any, Any, tuple[int, ...], tuple[int, ...]]] = {
    "row_sums": (row_sums, types.void(matrix, line), (N,), (2,)),
    "row_sums_tree": (row_sums_tree, types.void(matrix, line), (N,), (2,)),
    "matmul": (matmul, types.void(matrix, matrix, matrix), (T, T), (3, 3)),
    "matmul_return": (matmul_return, types.void(matrix, matrix, matrix), (T, T), (2, 2)),
    "matmul_f16": (matmul_f16, types.void(halves, halves, matrix), (T, T), (2, 2)),
    "dot": (dot, types.void(line, line, line), (N,), (2,)),
    "dot_plain": (dot_plain, types.void(line, line, line), (N,), (2,)),
    "softmax_rows": (softmax_rows, types.void(matrix, matrix), (N,), (2,)),
    "tail": (tail, types.void(line, line), (N,), (1,)),
    "tail_n": (tail_n, types.void(line, i32, line), (N,), (1,)),
    "scale": (scale, types.void(line, line, f32), (N,), (2,)),
    "saxpy": (saxpy, types.void(line, line, f32), (N,), (2,)),
    "largest": (largest, types.void(i32[::1], i32[::1]), (N,), (1,)),
    "column_sums": (column_sums, types.void(matrix, line), (N,), (2,)),
    "convolution": (convolution, types.void(matrix, line, matrix), (N,), (2,)),
}


def main() -> None:
    """Compile all of them, and print a table."""
    for name, (kernel, signature, threads, grid) in KERNELS.items():
        hook = mlir_async_pipe.hooks.numba_cuda_mlir(3, threads=threads, grid=grid)
        # A kernel that is refused is left to the stack, which needs its toolkit.
        with hook, contextlib.suppress(Exception):
            compile_ptx(kernel, signature, cc=(8, 0))
        print(f"{name}: {outcome(hook.reports[0])}")


def outcome(made: Any) -> str:
    """What became of a kernel in one line."""
    codes = {entry.code: entry.message for entry in made.diagnostics}
    if made.report is None:
        return codes["no-suggestion"]
    form = "loads" if "through-registers" in codes else "copies"
    counts = [entry.count for entry in made.report.of("waits")]
    unknown = sorted({entry.reason for entry in made.report.of("hazards")})
    return f"{form} {counts}, " + (f"unknown: {', '.join(unknown)}" if unknown else "proven")


if __name__ == "__main__":
    main()
