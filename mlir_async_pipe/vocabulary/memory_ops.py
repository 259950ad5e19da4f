"""The synchronous rows of the vocabulary: what plain memory ops read and write.

Those of one vendor stand in `vendor_memory`. Ops without any row are pure if `pure_ops` says so,
else *opaque*: they may touch any memory. Never guess: an op that is not listed is opaque.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings.raw_ops import constant_value, integer_attribute
from mlir_async_pipe.vocabulary import extents
from mlir_async_pipe.vocabulary.memory_order import (
    acquire_release,
    attribute_order,
    volatile_order,
)
from mlir_async_pipe.vocabulary.rows import AccessKind, AccessRule, Row


def unmasked(op: Any) -> bool:
    """Vector transfers: no mask operand (operandSegmentSizes ends in 0)."""
    return not str(op.attributes["operandSegmentSizes"]).rstrip("> ").endswith("1")


def never(op: Any) -> bool:
    """The op may leave elements out."""
    return False


def _load(op: str, extent: extents.Callable[[Any], tuple[int, ...] | None]) -> Row:
    return Row(op, ("memory", "indices*"), (AccessRule("read", "memory", "indices", extent),))


def _store(op: str, extent: extents.Callable[[Any], tuple[int, ...] | None]) -> Row:
    return Row(
        op,
        ("value", "memory", "indices*"),
        (AccessRule("write", "memory", "indices", extent),),
        stores=True,
    )


_MASKED = ("memory", "indices*", "mask", "value")
_OFFSETS = ("memory", "indices*", "offsets", "mask", "value")


def _somewhere(op: str, operands: tuple[str, ...], kind: AccessKind) -> Row:
    """An op whose mask, vector of offsets or map says which elements it accesses."""
    return Row(op, operands, (AccessRule(kind, "memory", "indices", extents.whole, never),))


def _bulk(op: str, source: str, size: int | str) -> Row:
    """An intrinsic that fills as many bytes as operand `size`, or the attribute of that name, says: from a
    `source`, or with a value. Where that is no constant it touches some of both memories."""

    def covered(op: Any) -> tuple[int, ...] | None:
        count = (
            integer_attribute(op, size)
            if isinstance(size, str)
            else constant_value(op.operands[size])
        )
        return (count,) if count and count > 0 else None

    def known(op: Any) -> bool:
        return covered(op) is not None

    def rule(kind: AccessKind, memory: str) -> AccessRule:
        return AccessRule(kind, memory, "", covered, known, takes_slot_index=False)

    reads = (rule("read", "source"),) if source == "source" else ()
    operands = ("destination", source, *(("size",) if isinstance(size, int) else ()))
    return Row(op, operands, (*reads, rule("write", "destination")), order=volatile_order)


MEMORY_ROWS = {
    row.op: row
    for row in (
        _load("memref.load", extents.element),
        _store("memref.store", extents.element),
        _somewhere("affine.load", ("memory", "indices*"), "read"),
        _somewhere("affine.store", ("value", "memory", "indices*"), "write"),
        _load("vector.load", extents.vector_result),
        _store("vector.store", extents.vector_operand(0)),
        Row(
            "vector.transfer_read",
            ("memory", "indices*", "padding", "mask?"),
            (
                AccessRule(
                    "read",
                    "memory",
                    "indices",
                    extents.vector_result,
                    certain=unmasked,
                    takes_slot_index=False,
                ),
            ),
        ),
        Row(
            "vector.maskedload",
            ("memory", "indices*", "mask", "padding"),
            (AccessRule("read", "memory", "indices", extents.vector_result, never),),
        ),
        Row(
            "vector.maskedstore",
            _MASKED,
            (AccessRule("write", "memory", "indices", extents.vector_operand(-1), never),),
        ),
        _somewhere("vector.gather", _OFFSETS, "read"),
        _somewhere("vector.scatter", _OFFSETS, "write"),
        _somewhere("vector.expandload", _MASKED, "read"),
        _somewhere("vector.compressstore", _MASKED, "write"),
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
            "memref.atomic_rmw",
            ("value", "memory", "indices*"),
            (AccessRule("atomic", "memory", "indices", extents.element),),
            order=acquire_release,
        ),
        Row(
            "memref.generic_atomic_rmw",
            ("memory", "indices*"),
            (AccessRule("atomic", "memory", "indices", extents.element),),
            order=acquire_release,
        ),
        Row(
            "memref.copy",
            ("source", "destination"),
            (
                AccessRule("read", "source", "", extents.whole, takes_slot_index=False),
                AccessRule("write", "destination", "", extents.whole, takes_slot_index=False),
            ),
        ),
        _bulk("llvm.intr.memcpy", "source", 2),
        _bulk("llvm.intr.memmove", "source", 2),
        _bulk("llvm.intr.memset", "value", 2),
        _bulk("llvm.intr.memcpy.inline", "source", "len"),
        _bulk("llvm.intr.memset.inline", "value", "len"),
        Row(
            "llvm.load",
            ("memory",),
            (AccessRule("read", "memory", "", extents.result_bytes, takes_slot_index=False),),
            order=attribute_order,
        ),
        Row(
            "llvm.store",
            ("value", "memory"),
            (AccessRule("write", "memory", "", extents.operand_bytes(0), takes_slot_index=False),),
            stores=True,
            order=attribute_order,
        ),
        Row(
            "llvm.atomicrmw",
            ("memory", "value"),
            (AccessRule("atomic", "memory", "", extents.operand_bytes(1), takes_slot_index=False),),
            order=attribute_order,
        ),
        Row(
            "llvm.cmpxchg",
            ("memory", "expected", "value"),
            (AccessRule("atomic", "memory", "", extents.operand_bytes(2), takes_slot_index=False),),
            order=attribute_order,
        ),
    )
}
