"""The synchronous rows of the vocabulary: what plain memory ops read and write.

Ops in neither this table nor `async_ops` are pure if `is_pure` says so, else *opaque*: they
may touch any memory. Never guess: an op that is not listed is opaque.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings.raw_ops import integer_attribute
from mlir_async_pipe.vocabulary import extents
from mlir_async_pipe.vocabulary.rows import AccessRule, Row


def unmasked(op: Any) -> bool:
    """Vector transfers: no mask operand (operandSegmentSizes ends in 0)."""
    return not str(op.attributes["operandSegmentSizes"]).rstrip("> ").endswith("1")


def matrix_lanes(op: Any) -> int | None:
    """ldmatrix reads at the addresses of lanes below 8 * numTiles (PTX ISA, ldmatrix)."""
    tiles = integer_attribute(op, "numTiles" if op.name == "nvgpu.ldmatrix" else "num")
    return None if tiles is None else 8 * tiles


def _load(op: str, extent: extents.Callable[[Any], tuple[int, ...] | None]) -> Row:
    return Row(op, ("memory", "indices*"), (AccessRule("read", "memory", "indices", extent),))


def _store(
    op: str, extent: extents.Callable[[Any], tuple[int, ...] | None], stores: bool = True
) -> Row:
    return Row(
        op,
        ("value", "memory", "indices*"),
        (AccessRule("write", "memory", "indices", extent),),
        stores=stores,
    )


MEMORY_ROWS = {
    row.op: row
    for row in (
        _load("memref.load", extents.element),
        _store("memref.store", extents.element),
        _load("affine.load", extents.whole),
        _store("affine.store", extents.whole, stores=False),
        _load("vector.load", extents.vector_result),
        _store("vector.store", extents.vector_operand(0)),
        Row(
            "vector.transfer_read",
            ("memory", "indices*", "padding", "mask?"),
            (
                AccessRule(
                    "read", "memory", "indices", extents.vector_result, takes_slot_index=False
                ),
            ),
        ),
        Row(
            "vector.maskedload",
            ("memory", "indices*", "mask", "padding"),
            (AccessRule("read", "memory", "indices", extents.vector_result),),
        ),
        Row(
            "vector.transfer_write",
            ("value", "memory", "indices*", "mask?"),
            (
                AccessRule(
                    "write",
                    "memory",
                    "indices",
                    extents.vector_operand(0),
                    certain=unmasked,
                    takes_slot_index=False,
                ),
            ),
            stores=True,
        ),
        Row(
            "nvgpu.ldmatrix",
            ("memory", "indices*"),
            (
                AccessRule(
                    "read", "memory", "indices", extents.matrix_row, active_lanes=matrix_lanes
                ),
            ),
        ),
        # Each lane reads at the address it names; what it read goes to other lanes.
        _load("amdgpu.transpose_load", extents.vector_result),
        Row(
            "nvvm.ldmatrix",
            ("memory",),
            (
                AccessRule(
                    "read",
                    "memory",
                    "",
                    extents.bytes_of(16),
                    active_lanes=matrix_lanes,
                    takes_slot_index=False,
                ),
            ),
        ),
        Row(
            "memref.atomic_rmw",
            ("value", "memory", "indices*"),
            (AccessRule("atomic", "memory", "indices", extents.element),),
        ),
        Row(
            "memref.copy",
            ("source", "destination"),
            (
                AccessRule("read", "source", "", extents.whole, takes_slot_index=False),
                AccessRule("write", "destination", "", extents.whole, takes_slot_index=False),
            ),
        ),
        Row(
            "llvm.load",
            ("memory",),
            (AccessRule("read", "memory", "", extents.result_bytes, takes_slot_index=False),),
        ),
        Row(
            "llvm.store",
            ("value", "memory"),
            (AccessRule("write", "memory", "", extents.stored_bytes, takes_slot_index=False),),
        ),
    )
}
