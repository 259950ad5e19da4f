"""Refuses ops of tensor cores and tensor copies that the chip does not have, where they stand.

| op                                  | chips                                | code                   |
|-------------------------------------|--------------------------------------|------------------------|
| copies that complete on an mbarrier | sm_90 and later                      | no-tensor-copies       |
| products of warpgroups (wgmma)      | sm_90a                               | no-warpgroup-products  |
| tensor memory (tcgen05)             | sm_100a, sm_103a, sm_110a            | no-tensor-memory       |
"""

from __future__ import annotations

from typing import NamedTuple

from mlir_async_pipe.bindings.raw_ops import Operation, walk
from mlir_async_pipe.chips.table import Chip
from mlir_async_pipe.session.diagnostics import LoweringError
from mlir_async_pipe.vocabulary import row_of
from mlir_async_pipe.vocabulary.rows import WGMMA


class _Lack(NamedTuple):
    """What a chip has not, and who has it or what to use."""

    what: str
    code: str
    advice: str


def check_tensor_ops(root: Operation, chip: Chip) -> None:
    """Raise LoweringError (the codes above) at the first op that the chip does not have."""
    for op in walk(root):
        found = _lacking(op, chip)
        if found is not None:
            raise LoweringError(
                f"{chip.name} has no {found.what}: '{op.name}'",
                code=found.code,
                at=op,
                advice=found.advice,
            )


def _lacking(op: Operation, chip: Chip) -> _Lack | None:
    """What the chip lacks for an op, None if nothing."""
    row = row_of(op)
    if row is None:
        return None
    if (row.tensor is not None or row.phase == "commit") and not chip.tensor_memory:
        advice = "sm_100a, sm_103a and sm_110a have; " + _products_of(chip)
        return _Lack("tensor memory", code="no-tensor-memory", advice=advice)
    if row.queue == WGMMA and not chip.warpgroup_products:
        advice = f"sm_90a has; {_products_of(chip)}"
        return _Lack("products of warpgroups", code="no-warpgroup-products", advice=advice)
    if row.completion == "mbarrier" and not chip.tensor_copies:
        advice = "sm_90 and later have; without roles all threads copy, by cp.async"
        return _Lack("copies that complete on an mbarrier", code="no-tensor-copies", advice=advice)
    return None


def _products_of(chip: Chip) -> str:
    if chip.tensor_memory:
        return "here nvvm.tcgen05.mma multiplies in tensor memory (docs/blackwell.md)"
    if chip.warpgroup_products:
        return "here warpgroups multiply by wgmma what tensor copies bring (docs/hopper.md)"
    return "here warps multiply by nvgpu.mma.sync what nvgpu.ldmatrix loads"
