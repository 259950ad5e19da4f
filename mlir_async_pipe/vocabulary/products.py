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


# How many groups nvgpu.warpgroup.mma leaves in flight; one where it does not say.
PRODUCTS_LEFT = "waitGroup"


def products_left(op: Any) -> int | None:
    """How many groups a product that commits and waits by itself leaves in flight."""
    if op.name != "nvgpu.warpgroup.mma":
        return None
    left = integer_attribute(op, PRODUCTS_LEFT)
    return 1 if left is None else left


def descriptor_span(op: Any, side: int, descriptor: int) -> int | None:
    """How many bytes an operand of nvvm.wgmma.mma_async takes from its first one on; `descriptor`
    holds its offsets and swizzle (`machine.dialects.wgmma` has the bits), `side` is 0 for A.

    K-major: 8 rows of a line each, every stride; else 8 lines of k, every stride, and panels of a
    line's width, every leading offset.
    """
    sizes = {
        name: int(n) for name, n in re.findall(r"([mnk]) = (\d+)", str(op.attributes["shape"]))
    }
    chunks = {1: 8, 2: 4, 3: 2}.get((descriptor >> 62) & 3)
    if chunks is None or {"m", "n", "k"} - set(sizes):
        return None
    line = 16 * chunks
    leading, stride = (16 * ((descriptor >> bit) & 0x3FFF) for bit in (16, 32))
    rows = sizes["m"] if side == 0 else sizes["n"]
    layout = str(op.attributes["layoutB" if side else "layoutA"])
    if ("col" if side else "row") in layout:
        return (rows // 8 - 1) * stride + 8 * line
    panels = -(-rows * 2 // line)
    return (panels - 1) * leading + (-(-sizes["k"] // 8) - 1) * stride + 8 * line
