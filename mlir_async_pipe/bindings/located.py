"""Locations of ops and block arguments, of which copies get other ones."""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation


def can_be_placed() -> bool:
    """Whether the bindings let a copy have another location than what it was copied of."""
    settable = getattr(ir.Operation.location, "fset", None) is not None
    return settable and hasattr(ir.BlockArgument, "set_location")


def located(op: Operation) -> list[Any]:
    """All from an op down that has a location: ops, and arguments of blocks."""
    found: list[Any] = []
    advance = ir.WalkResult.ADVANCE

    def visit(each: Any) -> Any:
        raw = each.operation
        found.append(raw)
        for region in raw.regions:
            for block in region.blocks:
                found.extend(block.arguments)
        return advance

    op.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def put(each: Any, place: Any) -> None:
    """Give an op or a block argument another location."""
    if isinstance(each, ir.Operation):
        each.location = place
    else:
        ir.BlockArgument(each).set_location(place)
