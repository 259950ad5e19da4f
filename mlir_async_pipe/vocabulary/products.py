"""Which ops multiply small matrices: what tensor and matrix cores are kept busy with."""

from __future__ import annotations

import re
from typing import Any

from mlir_async_pipe.bindings.raw_ops import integer_attribute

PRODUCTS = frozenset(
    {
        "amdgpu.mfma",
        "amdgpu.scaled_mfma",
        "amdgpu.wmma",
        "nvgpu.mma.sp.sync",
        "nvgpu.mma.sync",
        "nvvm.mma.sync",
        "vector.contract",
    }
)


def is_product(op: Any) -> bool:
    """Whether the op itself (not its regions) multiplies matrices that stand in registers."""
    return op.name in PRODUCTS


# A product that commits and waits by itself, and how many groups it leaves in flight; one where it
# does not say.
WARPGROUP_MMA = "nvgpu.warpgroup.mma"
PRODUCTS_LEFT = "waitGroup"
# Orders registers of accumulators, and touches no memory.
PRODUCT_FENCE = "nvvm.wgmma.fence.aligned"


def products_left(op: Any) -> int | None:
    """How many groups a product that commits and waits by itself leaves in flight."""
    if op.name != WARPGROUP_MMA:
        return None
    left = integer_attribute(op, PRODUCTS_LEFT)
    return 1 if left is None else left


def described_bytes(op: Any, side: int, descriptor: int) -> list[tuple[int, int]]:
    """Where an operand of nvvm.wgmma.mma_async lies, as first and last bytes plus 1 from where the
    18 bits of addresses begin; [] if that is not known. `descriptor` holds its offsets and swizzle
    (`machine.dialects.wgmma` has the bits), `side` is 0 for A.

    K-major: 8 rows of a line each, every stride; else 8 lines of k, every stride, and so in each
    panel of a line's width, every leading offset. A product of some of a line's k begins inside of
    the 8 lines that the swizzle permutes.
    """
    sizes = {
        name: int(n) for name, n in re.findall(r"([mnk]) = (\d+)", str(op.attributes["shape"]))
    }
    chunks = {1: 8, 2: 4, 3: 2}.get((descriptor >> 62) & 3)
    if chunks is None or {"m", "n", "k"} - set(sizes):
        return []
    line = 16 * chunks
    leading, stride = (16 * ((descriptor >> bit) & 0x3FFF) for bit in (16, 32))
    first = 16 * (descriptor & 0x3FFF) // (8 * line) * (8 * line)
    rows = sizes["m"] if side == 0 else sizes["n"]
    layout = str(op.attributes["layoutB" if side else "layoutA"])
    if ("col" if side else "row") in layout:
        return [(first, first + (rows // 8 - 1) * stride + 8 * line)]
    span = (-(-sizes["k"] // 8) - 1) * stride + 8 * line
    panels = range(first, first + -(-rows * 2 // line) * max(leading, 1), max(leading, 1))
    return [(at, at + span) for at in panels]
