"""Kernels as one writes them in FlyDSL, compiled with a hook that pipelines their loops.

    COMPILE_ONLY=1 ARCH=gfx950 python examples/embedding/flydsl_kernels.py

Needs no GPU; flydsl itself asks for torch, and for ROCm's linker at the very end, which a machine
without it shows as "lld invocation failed" after the loops are pipelined.
"""

import os

os.environ.setdefault("COMPILE_ONLY", "1")
os.environ.setdefault("ARCH", "gfx950")

import flydsl.compiler as flyc
import flydsl.expr as fx
import numpy as np

import mlir_async_pipe

N = 256
T = 16
STREAM = fx.Stream(None)


@flyc.kernel
def reversed_tiles(source: fx.Tensor, target: fx.Tensor, tiles: fx.Int32):
    """Each tile backwards, times 2, by way of shared memory."""
    t = fx.thread_idx.x
    shared = fx.get_dyn_shared(fx.Float32)
    for k in range(tiles):
        at = k * fx.Int32(N) + t
        fx.ptr_store(fx.ptr_load(fx.get_iter(source) + at), shared + t)
        fx.gpu.barrier()
        value = fx.ptr_load(shared + (fx.Int32(N - 1) - t))
        fx.ptr_store(value * fx.Float32(2.0), fx.get_iter(target) + at)
        fx.gpu.barrier()


@flyc.kernel
def matmul(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, tiles: fx.Int32, width: fx.Int32):
    """A tile of 16 x 16 of the product: `a` has 16 rows of 16 * tiles, `b` rows of `width`."""
    t = fx.thread_idx.x
    row = t // fx.Int32(T)
    column = t % fx.Int32(T)
    first = fx.block_idx.x * fx.Int32(T) + column
    tile_a = fx.get_dyn_shared(fx.Float32)
    tile_b = tile_a + fx.Int32(T * T)
    total = fx.Float32(0.0)
    for k in range(tiles):
        at_a = row * (tiles * fx.Int32(T)) + k * fx.Int32(T) + column
        at_b = (k * fx.Int32(T) + row) * width + first
        fx.ptr_store(fx.ptr_load(fx.get_iter(a) + at_a), tile_a + t)
        fx.ptr_store(fx.ptr_load(fx.get_iter(b) + at_b), tile_b + t)
        fx.gpu.barrier()
        for j in fx.range_constexpr(T):
            left = fx.ptr_load(tile_a + (row * fx.Int32(T) + fx.Int32(j)))
            right = fx.ptr_load(tile_b + (fx.Int32(j * T) + column))
            total = total + left * right
        fx.gpu.barrier()
    fx.ptr_store(total, fx.get_iter(c) + (row * width + first))


@flyc.jit
def run_reversed(source: fx.Tensor, target: fx.Tensor, tiles: fx.Int32, stream: fx.Stream = STREAM):
    """One block of N threads."""
    reversed_tiles(source, target, tiles).launch(
        grid=(1, 1, 1), block=(N, 1, 1), smem=N * 4, stream=stream
    )


@flyc.jit
def run_matmul(
    a: fx.Tensor,
    b: fx.Tensor,
    c: fx.Tensor,
    tiles: fx.Int32,
    width: fx.Int32,
    stream: fx.Stream = STREAM,
):
    """A block for each 16 columns."""
    matmul(a, b, c, tiles, width).launch(
        grid=(width // fx.Int32(T), 1, 1), block=(T * T, 1, 1), smem=2 * T * T * 4, stream=stream
    )


def compile_all() -> None:
    """Trace and compile both kernels."""
    x = flyc.from_dlpack(np.zeros(16 * N, np.float32))
    run_reversed(x, flyc.from_dlpack(np.zeros(16 * N, np.float32)), 16)
    a, b, c = (flyc.from_dlpack(np.zeros(size, np.float32)) for size in (1280, 2560, 512))
    run_matmul(a, b, c, 5, 32)


def main() -> None:
    """Compile them, and show what became of their loops."""
    with mlir_async_pipe.hooks.flydsl(num_stages=3, noalias=True) as hook:
        try:
            compile_all()
        finally:
            for made in hook.reports:
                print(f"{made.kernel}: {made.loops} loops")
                for entry in made.diagnostics:
                    print(f"  {entry.message}")


if __name__ == "__main__":
    main()
