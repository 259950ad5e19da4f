"""Kernels of Pallas on Mosaic GPU, compiled with a hook that proves its waits.

    JAX_PLATFORMS=cpu python examples/embedding/pallas_kernels.py

Needs no GPU: to lower for CUDA stands for the call, where the same happens.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.mosaic import gpu as mgpu
from jax.experimental.pallas import mosaic_gpu as plgpu
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import arith, gpu, llvm, nvvm

import mlir_async_pipe

N = 512


def lower_rows() -> Any:
    """Rows from global memory, by a slot that they arrive in, and doubled."""

    def rows(x: Any, y: Any, slot: Any, arrived: Any) -> None:
        @pl.loop(0, 4)
        def row(k: Any) -> None:
            plgpu.copy_gmem_to_smem(x.at[k], slot, arrived)
            plgpu.barrier_wait(arrived)
            y[k] = slot[...] * 2.0

    return lowered(rows, (4, 256), [plgpu.SMEM((256,), jnp.float32), plgpu.Barrier()])


def lower_two_copies(left: int) -> Any:
    """Two asynchronous copies in code of Mosaic GPU's own level. When what the first one brought is
    read, `left` copies may be in flight: one is right, the younger."""

    def two_copies(x: Any, y: Any, slots: Any) -> None:
        @plgpu.inline_mgpu(arg_types=(plgpu.RefType(),) * 3)
        def copies(_: Any, x: Any, y: Any, slots: Any) -> None:
            f32, i32 = ir.F32Type.get(), ir.IntegerType.get_signless(32)
            four = arith.constant(i32, 4)
            at = arith.muli(arith.index_cast(i32, gpu.thread_id(gpu.Dimension.x)), four)
            source, target = mgpu.utils.memref_ptr(x), mgpu.utils.memref_ptr(y)
            first = mgpu.utils.memref_ptr(slots)
            second = mgpu.utils.getelementptr(first, [N], f32)
            source = llvm.addrspacecast(ir.Type.parse("!llvm.ptr<1>"), source)
            modifier = ir.Attribute.parse("#nvvm<load_cache_modifier ca>")
            for slot in (first, second):
                place = mgpu.utils.getelementptr(slot, [at], f32)
                start = mgpu.utils.getelementptr(source, [at], f32)
                nvvm.cp_async_shared_global(place, start, 16, modifier)
                nvvm.cp_async_commit_group()
            nvvm.cp_async_wait_group(left)
            value = llvm.load(f32, mgpu.utils.getelementptr(first, [at], f32))
            llvm.store(value, mgpu.utils.getelementptr(target, [at], f32))

        copies(x, y, slots)

    return lowered(two_copies, (N,), [plgpu.SMEM((2, N), jnp.float32)])


def lowered(body: Any, shape: tuple[int, ...], scratch: list[Any]) -> Any:
    given = jax.ShapeDtypeStruct(shape, jnp.float32)

    def kernel(x: Any) -> Any:
        return plgpu.kernel(body, out_type=given, scratch_types=scratch)(x)

    return jax.jit(kernel).trace(given).lower(lowering_platforms=("cuda",))


def main() -> None:
    """Lower them, one of them with a fault."""
    with mlir_async_pipe.hooks.pallas("warn", noalias=True) as hook:
        lower_rows()
        lower_two_copies(left=1)
        lower_two_copies(left=2)
    for found in hook.reports:
        (summary,) = found.report.of("checks")
        print(f"{found.kernel}: {summary.unsafe} unsafe and {summary.unknown} unknown accesses")


if __name__ == "__main__":
    main()
