"""Turns constant masks into constants, which every conversion knows.

    vector.constant_mask [2] : vector<4xi1>   -->   arith.constant dense<[true, true, false, false]>

MLIR's patterns for AMD's path lower `vector.create_mask` and leave this one.
"""

from __future__ import annotations

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    attribute,
    before,
    create,
    walk,
)


def masks_to_constants(root: Operation) -> None:
    """Replace every vector.constant_mask below `root`."""
    for op in [op for op in walk(root) if op.name == "vector.constant_mask"]:
        kept = [int(size) for size in ir.DenseI64ArrayAttr(op.attributes["mask_dim_sizes"])]
        shape = [int(size) for size in ir.VectorType(op.results[0].type).shape]
        kind = op.results[0].type
        value = attribute(f"dense<{_elements(shape, kept, True)}> : {kind}", op.context)
        constant = create(
            "arith.constant",
            results=[kind],
            attributes={"value": value},
            ip=before(op),
            loc=op.location,
        )
        op.results[0].replace_all_uses_with(constant.results[0])
        op.erase()


def _elements(shape: list[int], kept: list[int], inside: bool) -> str:
    """The nested list of a mask: true where every subscript is below what is kept."""
    if not shape:
        return "true" if inside else "false"
    rows = (_elements(shape[1:], kept[1:], inside and i < kept[0]) for i in range(shape[0]))
    return f"[{', '.join(rows)}]"
