"""The frames of an op with regions, and the edges between the blocks of a frame, from the rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mlir_async_pipe.bindings.raw_ops import Operation
from mlir_async_pipe.facts.flow.items import Edge, Frame, Item, Node
from mlir_async_pipe.facts.flow.ways import leaves
from mlir_async_pipe.vocabulary.control_flow import (
    BRANCH_ROWS,
    EXIT_OPS,
    REGION_ROWS,
    UNKNOWN,
    regions_of,
)


def item_with_frames(op: Operation, position: int = 0) -> Item:
    """An op with regions and their blocks, which are not connected yet. One without a row is
    `UNKNOWN`; a branch that may run no region has a frame without blocks for that."""
    row = REGION_ROWS.get(op.name, UNKNOWN)
    item = Item("nested", op, position, None, None, row, operands={}, results={})
    if row.flow == "for":
        item.trips = row.trips(op)
    frames = item.frames = []
    for number, region in enumerate(regions_of(op, row)):
        frame = Frame(item, number)
        frames.append(frame)
        for block_number, block in enumerate(() if region is None else region.blocks):
            frame.nodes.append(Node(frame, block_number, block))
        if len(frame.nodes) == 1:
            # It would have to branch to its entry; a dead end is met when it is connected.
            frame.entry.exits = True
    return item


def connect(frame: Frame, nodes: Mapping[Any, Node], end_of: Callable[[Node], Any]) -> None:
    """Fill in the successors of the blocks of a frame, and which of them control leaves; `nodes`
    are found by their blocks, `end_of` gives the last op of one."""
    for node in frame.nodes:
        op = end_of(node)
        name = op.name
        targets = [nodes[block] for block in op.successors] if name not in EXIT_OPS else []
        row = BRANCH_ROWS.get(name)
        if row is not None and row.condition:
            node.condition = op.operands[0]
            node.edges = (Edge(targets[0], 0, True), Edge(targets[1], 1, False))
        else:
            node.edges = [Edge(target, number) for number, target in enumerate(targets)]
        node.exits = not targets and leaves(op)


def passed(end: Any, edges: int) -> tuple[Any, list[range | None]]:
    """The operands of a block's terminator, and the numbers of those that each of its `edges`
    passes on, None if that is not known."""
    row = BRANCH_ROWS.get(end.name)
    return end.operands, [None] * edges if row is None else [*row.operands(end)]


def handed_along(node: Node, end: Any) -> list[tuple[Node, list[Any]]]:
    """The blocks that a known branch leads to, with the values that it hands on to each."""
    operands, ranges = passed(end, len(node.edges))
    return [
        (edge.target, [operands[number] for number in numbers or ()])
        for edge, numbers in zip(node.edges, ranges, strict=True)
    ]
