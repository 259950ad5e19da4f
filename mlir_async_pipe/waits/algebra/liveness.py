"""Which token values are alive across the blocks of a region."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_async_pipe.flow.algorithms import predecessors
from mlir_async_pipe.flow.items import Frame, Node

if TYPE_CHECKING:
    from mlir_async_pipe.waits.algebra.summaries import Summaries


def live_values(summaries: Summaries, frame: Frame) -> dict[Node, set[int]]:
    """The token values that each block of a frame sees from the blocks before it."""
    found = summaries.live.get(frame)
    if found is not None:
        return found
    before = predecessors(frame.nodes, lambda node: [edge.target for edge in node.edges])
    values = summaries.events.values
    live: dict[Node, set[int]] = {}
    used = values.used_elsewhere
    seen = {value for node in frame.nodes for value in node.values if value in used}
    for value in seen | frame.captured:
        home = values.defs[value].node
        work = values.used_in(value, frame)
        while work:
            node = work.pop()
            if node is home or value in live.setdefault(node, set()):
                continue
            live[node].add(value)
            work.extend(before[node])
    summaries.live[frame] = live
    return live
