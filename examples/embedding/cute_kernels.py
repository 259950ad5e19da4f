"""A kernel as one writes it in CuTe DSL, compiled with a hook that proves its waits and barriers.

    CUTE_DSL_ARCH=sm_80 python examples/embedding/cute_kernels.py

Needs no GPU: `cute.compile` with tensors that have no memory stands for the launch, where the same happens.
"""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("CUTE_DSL_ARCH", "sm_80")

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_compact_tensor

import mlir_async_pipe


@cute.kernel
def reversed_tiles(
    x: cute.Tensor,
    y: cute.Tensor,
    tiles: cutlass.Int32,
    left: cutlass.Constexpr,
    meet: cutlass.Constexpr,
):
    """Each tile of 4 x 128 backwards, by way of two slots. When one is read, `left` copies may be in
    flight: one is right, the youngest. Where threads do not `meet`, slots are overwritten too early."""
    t, _, _ = cute.arch.thread_idx()
    slots = cutlass.memory.SmemAllocator().allocate_tensor(
        cutlass.Float32, cute.make_layout((4, 128, 2)), byte_alignment=16
    )
    copy = cute.make_copy_atom(
        cute.nvgpu.cpasync.CopyG2SOp(), cutlass.Float32, num_bits_per_copy=128
    )
    cute.copy(copy, x[None, t, 0], slots[None, t, 0])
    cute.arch.cp_async_commit_group()
    for k in cutlass.range(tiles):
        cute.copy(copy, x[None, t, k + 1], slots[None, t, (k + 1) % 2])
        cute.arch.cp_async_commit_group()
        cute.arch.cp_async_wait_group(left)
        cute.arch.sync_threads()
        for j in cutlass.range_constexpr(4):
            y[j, t, k] = slots[3 - j, 127 - t, k % 2]
        if cutlass.const_expr(meet):
            cute.arch.sync_threads()


@cute.jit
def launch(
    x: cute.Tensor,
    y: cute.Tensor,
    tiles: cutlass.Int32,
    left: cutlass.Constexpr,
    meet: cutlass.Constexpr,
):
    """One block of 128 threads."""
    reversed_tiles(x, y, tiles, left, meet).launch(grid=(1, 1, 1), block=(128, 1, 1))


def compile_reversed(left: int = 1, meet: bool = True) -> Any:
    x, y = (
        make_fake_compact_tensor(
            cutlass.Float32, (4, 128, 64), stride_order=(0, 1, 2), assumed_align=16
        )
        for _ in range(2)
    )
    return cute.compile(launch, x, y, cutlass.Int32(4), left, meet)


def main() -> None:
    """Compile it as it is right, and with a fault."""
    with mlir_async_pipe.hooks.cutlass("warn", noalias=True) as hook:
        compile_reversed()
        compile_reversed(left=2)
        compile_reversed(meet=False)
    for found in hook.reports:
        (summary,) = found.report.of("checks")
        print(f"{summary.accesses} accesses, {summary.unsafe} unsafe")


if __name__ == "__main__":
    main()
