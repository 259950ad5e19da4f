"""Which ops multiply small matrices: what tensor and matrix cores are kept busy with."""

from __future__ import annotations

from typing import Any

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
