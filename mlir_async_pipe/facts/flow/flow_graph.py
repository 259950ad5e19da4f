"""The control-flow graph over nested regions, reduced to what matters for commit groups.

One walk over the module keeps commits, waits, calls, branches and the ops with regions
around them; everything else is skipped by its name. `token_values` adds the values.

The walk asks for names only, and the table says what becomes of an op of that name; what else is
asked of a handle costs more (docs/speed.md), so it is asked for once, of the ops that are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import FUNCTION_OPS, Operation, is_function, symbol_name, walk
from mlir_async_pipe.facts.flow.algorithms import reached
from mlir_async_pipe.facts.flow.region_flow import leaves
from mlir_async_pipe.vocabulary import ROWS, Queue, WaitRule, queue_of
from mlir_async_pipe.vocabulary.control_flow import (
    BRANCH_ROWS,
    CALL_OPS,
    CAST_OPS,
    DEAD_ENDS,
    EXIT_OPS,
    REGION_ROWS,
    SELECT_OPS,
    UNKNOWN,
    RegionRow,
    callee_name,
    regions_of,
)
from mlir_async_pipe.vocabulary.op_table import CALL, row_name

# What a flow graph is made of: ops that matter to commit groups, their blocks and regions.
#
#     Frame   one region: its blocks, and how control goes from one to the next
#     Node    one block: its items in textual order
#     Item    one op in a node: commit, wait, call, or an op with frames of its own
#     Edge    one successor of a block
#
# A *position* orders the items of one block: it is the number of the op in pre-order. These are
# made by the ten thousand, so fields that most of them leave empty share one empty value.
# `item_with_frames` and `connect` make them of any op, as the rows of control flow say.


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
    """One successor of a block: token `values` by argument of `target`, and the node's condition if that decides."""

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
    """Fill in the successors of a frame's blocks, and which of them control leaves; `end_of` gives a block's last op."""
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
    """The operands of a block's terminator, and the numbers that each of its `edges` passes on, None if not known."""
    row = BRANCH_ROWS.get(end.name)
    return end.operands, [None] * edges if row is None else [*row.operands(end)]


def forwarded_along(node: Node, end: Any) -> list[tuple[Node, list[Any]]]:
    """The blocks that a known branch leads to, with the values that it forwards to each."""
    operands, ranges = passed(end, len(node.edges))
    return [
        (edge.target, [operands[number] for number in numbers or ()])
        for edge, numbers in zip(node.edges, ranges, strict=True)
    ]


@dataclass(frozen=True, eq=False, slots=True)
class OpKind:
    """What becomes of an op of one name.

    `item`: such an item. Else it is one with regions or a token value, which becomes an item
    or is followed if something asks for it. `own_queue`: its attributes name the queue.
    """

    item: ItemKind | None = None
    own_queue: bool = False
    is_function: bool = False
    is_branch: bool = False
    is_dead_end: bool = False
    rule: WaitRule | None = None


Kept = tuple[int, Any, OpKind]
"""(position, op, kind)"""


def _op_kinds() -> dict[str, OpKind]:
    """What the walk keeps, by op name; every other op is passed over."""
    kinds: dict[str, OpKind] = {}
    for name, row in ROWS.items():
        own_queue = not isinstance(row.queue, Queue)
        if row.slots:
            kinds[name] = OpKind("slot", own_queue)
        elif row.wait is not None:
            kinds[name] = OpKind("wait", own_queue, rule=row.wait)
        elif row.commits is not None:
            kinds[name] = OpKind("commit", own_queue)
        elif row.token:
            kinds[name] = OpKind()
    # Which intrinsic it calls says what becomes of it.
    kinds[CALL] = OpKind()
    kinds |= {name: OpKind("call") for name in CALL_OPS}
    kinds |= {name: OpKind() for name in (*SELECT_OPS, *CAST_OPS)}
    kinds |= {name: OpKind(is_function=name in FUNCTION_OPS) for name in REGION_ROWS}
    kinds |= {name: OpKind(is_branch=True) for name in (*BRANCH_ROWS, *EXIT_OPS)}
    kinds |= {name: OpKind(is_branch=True, is_dead_end=True) for name in DEAD_ENDS}
    return kinds


_OP_KINDS = _op_kinds()
_CALL = _OP_KINDS[CALL]


def walk_kept(root: Any) -> list[Kept]:
    """The ops below `root` that matter, in pre-order."""
    found: list[Kept] = []
    keep, kind_of, advance = found.append, _OP_KINDS.get, ir.WalkResult.ADVANCE
    position = 0

    def visit(op: Any) -> Any:
        nonlocal position
        position += 1
        kind = kind_of(op.name)
        if kind is _CALL:
            kind = kind_of(row_name(op)) if row_name(op) != CALL else None
        if kind is not None:
            keep((position, op, kind))
        return advance

    root.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


class FlowGraph:
    """The reduced program of one module. Holds handles of ops: use it before rewriting.

    `items` finds calls and ops with regions by their op, `nodes` blocks by their handle.
    """

    def __init__(self, module_op: Any, queue: Callable[[Any], Queue | None] = queue_of) -> None:
        self.queue = queue
        self.items: dict[Any, Item] = {}
        self.nodes: dict[Any, Node] = {}
        self.frames: list[Frame] = []
        self.roots: list[Item] = []
        self.waits: list[Item] = []
        self.commits: list[Item] = []
        self.calls: list[Item] = []
        self.slots: list[Item] = []
        self._positions: dict[Any, int] = {}
        self._module = module_op
        self._terminators: dict[Any, Any] | None = None
        self._branches: list[Any] = []
        # Those of the branches that do not follow an item of their block.
        self._loose: list[Any] = []
        # The frames that have edges, or whose one block control does not leave.
        self._graphs: list[Frame] = []
        self._is_collecting = True
        self._endless: list[Item] | None = None
        self._functions: dict[tuple[Any, str], Item] = {}
        self._collect(module_op)

    # -- the walk ---------------------------------------------------------------------

    def _collect(self, module_op: Any) -> None:
        """Put the ops that matter into their blocks, making the frames around them."""
        lists = {"commit": self.commits, "wait": self.waits, "slot": self.slots, "call": self.calls}
        functions = []
        queues: dict[OpKind, Queue | None] = {}
        # Equal queues are one object, so that `is` tells them apart.
        same: dict[Queue | None, Queue | None] = {}
        node: Node | None = None
        for position, op, kind in walk_kept(module_op):
            if kind.item is None:
                if kind.is_branch:
                    self._branches.append(op)
                    if kind.is_dead_end:
                        self._graphs.append(self.node_of(op.block, position).frame)
                    if node is not None and node.block == op.block:
                        node.terminator = op
                    else:
                        self._loose.append(op)
                else:
                    # Known before the ops inside are met, which make an item of this one.
                    self._positions[op] = position
                    if kind.is_function:
                        functions.append(op)
                continue
            block = op.block
            # Ops come block by block, and comparing is cheaper than hashing.
            if node is None or node.block != block:
                node = self.node_of(block, position)
            if kind in queues:
                queue = queues[kind]
            else:
                queue = self.queue(op)
                queue = same.setdefault(queue, queue)
                if not kind.own_queue:
                    queues[kind] = queue
            item = Item(kind.item, op, position, node, queue, rule=kind.rule)
            node.items.append(item)
            lists[kind.item].append(item)
        self._is_collecting = False
        for frame in self._graphs:
            connect(frame, self.nodes, self.terminator_of)
        for call in self.calls:
            call.operands, call.results = {}, {}
            self.items[call.op] = call
        for op in functions:
            parent = op.parent
            key = (None if parent is None else parent.operation, symbol_name(op))
            self._functions[key] = self.item_of(op)
        for call in self.calls:
            call.callee = self._callee(call)

    def node_of(self, block: Any, inside: int = 0) -> Node:
        """The node of a block; `inside` is the position of any op in it."""
        node = self.nodes.get(block)
        if node is None:
            self.item_of(block.owner.operation, inside)
            node = self.nodes[block]
        return node

    def item_of(self, op: Any, inside: int = 0) -> Item:
        """The item of an op with regions, made (with all that are around it) if needed."""
        missing = []
        item = self.items.get(op)
        while item is None:
            missing.append(op)
            above = op.parent
            if above is None:
                break
            op = above.operation
            item = self.items.get(op)
        for op in reversed(missing):
            item = self._make_nested(op, inside)
        assert item is not None
        return item

    def _make_nested(self, op: Any, inside: int) -> Item:
        # The position of any op inside also orders the op among its siblings.
        position = self._positions.get(op) or inside or self.position_of(op)
        item = self.items[op] = item_with_frames(op, position)
        for frame in item.frames:
            self.frames.append(frame)
            for node in frame.nodes:
                self.nodes[node.block] = node
            if len(frame.nodes) > 1:
                self._graphs.append(frame)
                if not self._is_collecting:
                    connect(frame, self.nodes, self.terminator_of)
        above = op.parent
        if above is None or item.row.flow == "isolated":
            self.roots.append(item)
        if above is not None:
            item.node = self.nodes[op.block]
            item.node.items.append(item)
        return item

    def terminator_of(self, node: Node) -> Any:
        if node.terminator is None:
            if self._terminators is None:
                self._terminators = {op.block: op for op in self._loose}
            op = self._terminators.get(node.block)
            node.terminator = list(node.block.operations)[-1].operation if op is None else op
        return node.terminator

    def position_of(self, op: Any) -> int:
        """The number of an op in pre-order; 0 for what stands around the module."""
        position = self._positions.get(op)
        if position is None:
            for number, other in enumerate(walk(self._module), 1):
                self._positions.setdefault(other, number)
            position = self._positions.setdefault(op, 0)
        return position

    def _callee(self, call: Item) -> Item | None:
        name = callee_name(call.op) or ""
        above = self.root_of(call).op.parent
        found = self._functions.get((None if above is None else above.operation, name))
        return found if found is not None and found.frames and found.frames[0].nodes else None

    def with_callers(self, functions: Iterable[Item]) -> set[Item]:
        """The functions, and all that call them, themselves or through others."""
        callers: dict[Item, list[Item]] = {}
        for call in self.calls:
            if call.callee is not None:
                callers.setdefault(call.callee, []).append(self.root_of(call))
        return reached(functions, lambda function: callers.get(function, ()))

    def maybe_endless(self) -> list[Item]:
        """The ops that control may not leave: while loops, nested graphs of blocks, dead ends."""
        if self._endless is None:
            rows = {op: REGION_ROWS.get(op.name, UNKNOWN) for op in self._positions}
            ops = {op: None for op, row in rows.items() if row.flow == "while"}
            last: Any = None
            for op in self._branches:
                if op.name in BRANCH_ROWS or op.name in DEAD_ENDS:
                    above = op.parent
                    if last is None or above != last:
                        last = above
                        ops[above.operation] = None
            self._endless = [self.item_of(op) for op in ops if not is_function(op)]
        return self._endless

    def take_apart(self) -> None:
        """Let go of all items and blocks, which point at each other: the collector would have to walk them all."""
        for frame in self.frames:
            for node in frame.nodes:
                node.items, node.edges = [], ()
            frame.item.frames, frame.nodes = (), []

    def root_of(self, item: Item) -> Item:
        """The function (or other isolated op) whose thread runs `item`."""
        while not item.is_root:
            assert item.node is not None
            item = item.node.frame.item
        return item
