"""Locations of ops and block arguments, of which copies get other ones."""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation, walk


def can_be_placed() -> bool:
    """Whether the bindings let a copy have another location than what it was copied of."""
    settable = getattr(ir.Operation.location, "fset", None) is not None
    return settable and hasattr(ir.BlockArgument, "set_location")


def located(op: Operation) -> list[Any]:
    """All from an op down that has a location: ops, and arguments of blocks."""
    if len(op.regions) == 0:
        return [op]
    found: list[Any] = []
    for inner in walk(op):
        found.append(inner)
        for region in inner.regions:
            for block in region.blocks:
                found += block.arguments
    return found


def put(each: Any, place: Any) -> None:
    """Give an op or a block argument another location."""
    if isinstance(each, ir.Operation):
        each.location = place
    else:
        ir.BlockArgument(each).set_location(place)
