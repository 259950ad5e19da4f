"""Cuts a count off its module, so that witnesses can be looked for when somebody asks.

    item.op  -->  OpText("scf.for", loc("f.mlir":3:1))

Handles of ops die with the next pass, locations live as long as their context. What a witness
needs of the IR is little: the names and locations of ops; whatever decides branches has been
looked up by then. So a count keeps no other handle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlir_async_pipe.waits.count import Analysis


@dataclass(eq=False, slots=True)
class OpText:
    """What is left of an op: its name and its location, which belongs to the context."""

    name: str
    location: Any


GONE = OpText("", "")
"""Stands where a handle was that is not asked for again."""


def detach(analysis: Analysis) -> None:
    """Replace all handles in an analysis, whose ops are still there. It counts no more."""
    graph, values = analysis.graph, analysis.values
    # A path is told from commits, calls and regions; a wait's own record has its place.
    for item in (*graph.waits, *graph.slots):
        item.op = GONE
    for item in (*graph.commits, *graph.items.values()):
        op = item.op
        item.op = OpText(op.name, op.location)
    for found in values.defs.values():
        if found.item is not None:
            found.op = found.item.op
        elif found.op is not None:
            found.op = OpText(found.op.name, found.op.location)
        found.condition = GONE
    for frame in graph.frames:
        for node in frame.nodes:
            node.block = node.terminator = GONE
            if node.condition is not None:
                node.condition = GONE
    graph.forget_handles()
    values.forget_handles()
    analysis.conditions.forget_handles()
