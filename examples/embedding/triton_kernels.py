"""Kernels as one writes them for Triton and Gluon, compiled with a hook that proves their waits.

    python examples/embedding/triton_kernels.py

Needs no GPU: `triton.compile` for a chip stands for the launch, where the same happens. Triton counts the
waits of the product itself; those of the two slots are the kernel's own, and may be one too weak.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia.ampere import async_copy

import mlir_async_pipe

CHIP = GPUTarget("cuda", 80, 32)


@triton.jit
def product(a, b, c, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """One tile of a product: `a` has rows of 64, `b` rows of BN."""
    m, n, at = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    pa, pb = a + m[:, None] * 64 + at[None, :], b + at[:, None] * BN + n[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in tl.range(0, k, num_stages=3):
        acc = tl.dot(tl.load(pa), tl.load(pb), acc)
        pa += BK
        pb += BK * BN
    tl.store(c + m[:, None] * BN + n[None, :], acc)


@gluon.jit
def doubled(x, y, n, LEFT: gl.constexpr):
    """Two slots: when one is read, LEFT copies may be in flight. One is right, the youngest."""
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    slots = gl.allocate_shared_memory(gl.float32, [2, 512], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    at = gl.arange(0, 512, layout=layout)
    async_copy.async_load(slots.index(0), x + at)
    async_copy.commit_group()
    for k in range(n):
        async_copy.async_load(slots.index((k + 1) % 2), x + (k + 1) * 512 + at)
        async_copy.commit_group()
        async_copy.wait_group(LEFT)
        gl.store(y + k * 512 + at, 2 * slots.index(k % 2).load(layout))


@triton.jit
def rows(x, y, stride, B: tl.constexpr):
    """Each block its row, twice as large. That rows lie apart, only the caller knows."""
    at = tl.program_id(0) * stride + tl.arange(0, B)
    tl.store(y + at, 2 * tl.load(x + at))


def compile_product(chip: GPUTarget = CHIP) -> Any:
    types = {"a": "*fp16", "b": "*fp16", "c": "*fp32", "k": "i32"}
    return compiled(ASTSource, product, types, {"BM": 32, "BN": 32, "BK": 32}, chip)


def compile_doubled(left: int) -> Any:
    types = {"x": "*fp32", "y": "*fp32", "n": "i32"}
    return compiled(GluonASTSource, doubled, types, {"LEFT": left}, CHIP)


def compile_rows() -> Any:
    types = {"x": "*fp32", "y": "*fp32", "stride": "i32"}
    return compiled(ASTSource, rows, types, {"B": 1024}, CHIP)


def compiled(
    source: Any, kernel: Any, types: dict[str, str], constants: dict[str, int], chip: GPUTarget
) -> Any:
    """A kernel for 4 warps, whose arguments are multiples of 16."""
    signature = {**types, **dict.fromkeys(constants, "constexpr")}
    divisible = {(number,): [["tt.divisibility", 16]] for number in range(len(types))}
    made = source(fn=kernel, signature=signature, constexprs=constants, attrs=divisible)
    return triton.compile(made, target=chip, options={"num_warps": 4})


def main() -> None:
    """Compile all of them, and show what is proven."""
    with mlir_async_pipe.hooks.triton("warn", noalias=True) as hook:
        compile_product()
        compile_doubled(left=1)
        compile_doubled(left=2)
    for found in hook.reports:
        (summary,) = found.report.of("checks")
        print(f"{found.kernel}: {summary.accesses} accesses, {summary.unsafe} unsafe")


if __name__ == "__main__":
    main()
