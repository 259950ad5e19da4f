"""What `vector.transfer_read` and `vector.transfer_write` move, beside a plain load or store.

A transfer is a load or a store if it moves neighbours of the last dimension, has no mask and
stays in bounds; MLIR's own lowering (`lower_transfer`) makes the same distinction.
"""

from __future__ import annotations

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation
from mlir_async_pipe.vocabulary import groups_of


def moves_row(transfer: Operation) -> bool:
    """Whether a transfer moves neighbours in the last dimension, as vector.load does."""
    moved = ir.AffineMapAttr(transfer.attributes["permutation_map"]).value
    last = ir.AffineExpr.get_dim(moved.n_dims - 1, transfer.context)
    return list(moved.results) == [last]


def in_bounds(transfer: Operation) -> bool:
    """Whether a transfer says of every dimension that it does not leave the memory."""
    if "in_bounds" not in transfer.attributes:
        return False
    flags = list(ir.ArrayAttr(transfer.attributes["in_bounds"]))
    return bool(flags) and all(ir.BoolAttr(flag).value for flag in flags)


def is_plain(transfer: Operation) -> bool:
    """Whether a transfer moves every element of a row, as vector.load and vector.store do."""
    masked = groups_of(transfer).get("mask")
    return not masked and moves_row(transfer) and in_bounds(transfer)
