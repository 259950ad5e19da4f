"""Puts the proven alignment on vector loads and stores.

    vector.load %tile[%r, %c] : …, vector<8xf16>
      -->  vector.load %tile[%r, %c] {alignment = 16 : i64} : …, vector<8xf16>

Without it a vector access is taken to be aligned like one element, and the back end splits it:
eight loads of 2 bytes instead of one of 16.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings.raw_ops import set_integer, walk
from mlir_async_pipe.facts.values.alignment import access_alignment, element_bytes
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.vocabulary import accesses

VECTOR_OPS = ("vector.load", "vector.store", "vector.maskedload")


def annotate_alignment(root: Any) -> None:
    """Set `alignment` on each vector load and store that has none and is aligned better."""
    arithmetic = Arithmetic()
    for op in walk(root):
        if op.name not in VECTOR_OPS or "alignment" in op.attributes:
            continue
        (access,) = accesses(op)
        element = element_bytes(access.memory)
        total = element
        for size in access.extent or ():
            total *= size
        useful = 1 << max(total - 1, 0).bit_length()
        known = min(access_alignment(access.memory, access.indices, arithmetic), useful)
        if known > element > 0:
            set_integer(op, "alignment", known, 64)
