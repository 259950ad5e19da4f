"""What a flow graph is made of: ops that matter to commit groups, their blocks and regions.

    Frame   one region: its blocks, and how control goes from one to the next
    Node    one block: its items in textual order
    Item    one op in a node: commit, wait, call, or an op with frames of its own
    Edge    one successor of a block

A *position* orders the items of one block: it is the number of the op in pre-order. These are
made by the ten thousand, so fields that most of them leave empty share one empty value.
`item_with_frames` and `connect` make them of any op, as the rows of control flow say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from mlir_async_pipe.bindings.raw_ops import Operation
from mlir_async_pipe.facts.flow.region_flow import leaves
from mlir_async_pipe.vocabulary import Queue, WaitRule
from mlir_async_pipe.vocabulary.control_flow import (
    BRANCH_ROWS,
    EXIT_OPS,
    REGION_ROWS,
    UNKNOWN,
    RegionRow,
    regions_of,
)

END = 1 << 60
"""The position of a terminator: after everything in its block."""

ItemKind = Literal["commit", "wait", "slot", "call", "nested"]


class _NoValues(dict[int, int]):
    """No token values; an item that gets some is given a dictionary of its own."""

    def __setitem__(self, key: int, value: int) -> None:
        raise TypeError("give the item a dictionary of its own first")

    def __hash__(self) -> int:  # type: ignore[override]
        return 0


NO_VALUES = _NoValues()


@dataclass(eq=False, slots=True)
class Item:
    """One op that matters ("slot": a slot is acquired or released).

    `queue` is None for calls, nested ops and dynamic queues.

    `results` and `operands` map result and operand numbers to the ids of those token values
    that some wait can see (operands of loops: by the number of the carried value).
    `callee` is the function that a call reaches, None if it is not known. `trips` is the
    static trip count of a loop, `rule` how a wait waits, `op` the handle.
    """

    kind: ItemKind
    op: Any
    position: int
    node: Node | None
    queue: Queue | None = None
    row: RegionRow = UNKNOWN
    frames: Sequence[Frame] = ()
    callee: Item | None = None
    operands: dict[int, int] = NO_VALUES
    results: dict[int, int] = NO_VALUES
    trips: int | None = None
    rule: WaitRule | None = None

    @property
    def is_boundary(self) -> bool:
        """Whether no token passes between the inside of this op and its surroundings."""
        return self.row.flow in ("isolated", "parallel", "unknown")

    @property
    def is_root(self) -> bool:
        """Whether a thread starts here: a function, or another isolated op."""
        return self.node is None or self.row.flow == "isolated"


@dataclass(eq=False, slots=True)
class Edge:
    """One successor of a block. `values` maps argument numbers of `target` to the token
    values that they get. `truth` is what the node's condition must be (None: free)."""

    target: Node
    number: int
    truth: bool | None = None
    values: dict[int, int] = NO_VALUES


@dataclass(eq=False, slots=True)
class Node:
    """One block.

    `exits`: control leaves the frame at its end, handing on `leaving` (exit operand number
    to token value); else it goes along one of `edges`. `values` are the token values that
    are defined in the block, `arguments` those that are its arguments. `terminator` is the
    handle of its last op, None until somebody asks the graph for it.
    """

    frame: Frame
    number: int
    block: Any
    items: list[Item] = field(default_factory=list)
    values: list[int] = field(default_factory=list)
    arguments: dict[int, int] = NO_VALUES
    leaving: dict[int, int] = NO_VALUES
    exits: bool = False
    edges: Sequence[Edge] = ()
    condition: Any = None
    terminator: Any = None

    @property
    def successors(self) -> list[Node]:
        """The blocks at the ends of its edges."""
        return [edge.target for edge in self.edges]


@dataclass(eq=False, slots=True)
class Frame:
    """Region `number` of `item`. `captured` are the token values that its ops see from
    outside, `first_carried` how many arguments of its entry block stand before those
    that a loop carries and some wait sees."""

    item: Item
    number: int
    nodes: list[Node] = field(default_factory=list)
    captured: set[int] = field(default_factory=set)
    first_carried: int = 0

    @property
    def entry(self) -> Node:
        return self.nodes[0]


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


def forwarded_along(node: Node, end: Any) -> list[tuple[Node, list[Any]]]:
    """The blocks that a known branch leads to, with the values that it forwards to each."""
    operands, ranges = passed(end, len(node.edges))
    return [
        (edge.target, [operands[number] for number in numbers or ()])
        for edge, numbers in zip(node.edges, ranges, strict=True)
    ]
