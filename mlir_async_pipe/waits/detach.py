"""Cuts a count off its module, so that witnesses can be looked for when somebody asks.

    item.op  -->  OpText("scf.for", 'loc("f.mlir":3:1)')

Handles die with the next pass. What a witness needs of the IR is little: the names and places
of ops; whatever decides branches has been looked up by then. So a count keeps no handle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlir_async_pipe.waits.count import Analysis


@dataclass(frozen=True, eq=False, slots=True)
class OpText:
    """What is left of an op: its name and its location, as MLIR prints them."""

    name: str
    location: str

    @staticmethod
    def of(op: Any) -> OpText:
        """The text of an op."""
        return OpText(op.name, str(op.location))


GONE = OpText("", "")
"""Stands where a handle was that is not asked for again."""


def detach(analysis: Analysis) -> None:
    """Replace all handles in an analysis, whose ops are still there. It counts no more."""
    graph, values = analysis.graph, analysis.values
    for item in graph.items.values():
        # A path is told from commits, calls and regions; a wait's own record has its place.
        item.op = GONE if item.kind == "wait" else OpText.of(item.op)
    for found in values.defs.values():
        if found.item is not None:
            found.op = found.item.op
        elif found.op is not None:
            found.op = OpText.of(found.op)
        found.condition = GONE
    for node in graph.nodes.values():
        node.block = GONE
        if node.condition is not None:
            node.condition = GONE
    graph.forget_handles()
    values.forget_handles()
    analysis.conditions.forget_handles()
