"""The control-flow graph over nested regions, reduced to what matters for commit groups.

One walk over the module keeps commits, waits, calls, branches and the ops with regions
around them; everything else is skipped by its name. `token_values` adds the values.

    Frame   one region: its blocks, and how control goes from one to the next
    Node    one block: its items in textual order
    Item    one op in a node: commit, wait, call, or an op with frames of its own
    Edge    one successor of a block

A *position* orders the items of one block: it is the number of the op in pre-order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.ir_helpers import is_function, symbol_name
from mlir_async_pipe.vocabulary import ROWS, Queue, queue_of
from mlir_async_pipe.vocabulary.control_flow import (
    BRANCH_ROWS,
    CALL_OPS,
    CAST_OPS,
    EXIT_OPS,
    REGION_ROWS,
    SELECT_OPS,
    BranchRow,
    RegionRow,
)

END = 1 << 60
"""The position of a terminator: behind everything in its block."""

ItemKind = Literal["commit", "wait", "slot", "call", "nested"]


@dataclass(eq=False, slots=True)
class Item:
    """One op that matters ("slot": a slot is acquired or released). `queue` is None for calls, nested ops and dynamic queues.

    `results` and `operands` map result and operand numbers to the ids of those token values
    that some wait can see (operands of loops: by the number of the carried value).
    `callee` is the function that a call reaches, None if it is not known. `trips` is the
    static trip count of a loop. `op` is the handle, and behind `detach` its text.
    """

    kind: ItemKind
    op: Any
    position: int
    node: Node | None
    queue: Queue | None = None
    row: RegionRow | None = None
    frames: list[Frame] = field(default_factory=list)
    callee: Item | None = None
    operands: dict[int, int] = field(default_factory=dict)
    results: dict[int, int] = field(default_factory=dict)
    trips: int | None = None

    @property
    def is_boundary(self) -> bool:
        """Whether no token passes between the inside of this op and its surroundings."""
        return self.row is None or self.row.flow in ("isolated", "parallel")


@dataclass(eq=False, slots=True)
class Edge:
    """One successor of a block. `operands` are the operand numbers of the terminator that
    become the arguments of `target`, None if that is not known; `values` maps argument
    numbers to token values. `truth` is what the node's condition must be (None: free)."""

    target: Node
    operands: range | None
    truth: bool | None = None
    values: dict[int, int] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Node:
    """One block.

    `exits`: control leaves the frame at its end, handing on `leaving` (exit operand number
    to token value); else it goes along one of `edges`. `values` are the token values that
    are defined in the block, `arguments` those that are its arguments.
    """

    frame: Frame
    number: int
    block: Any
    items: list[Item] = field(default_factory=list)
    values: list[int] = field(default_factory=list)
    arguments: dict[int, int] = field(default_factory=dict)
    leaving: dict[int, int] = field(default_factory=dict)
    exits: bool = False
    edges: list[Edge] = field(default_factory=list)
    condition: Any = None


@dataclass(eq=False, slots=True)
class Frame:
    """Region `number` of `item`. `captured` are the token values that its ops see from
    outside, `first_carried` how many arguments of its entry block stand in front of those
    that a loop carries (None: not counted yet)."""

    item: Item
    number: int
    nodes: list[Node] = field(default_factory=list)
    captured: set[int] = field(default_factory=set)
    first_carried: int | None = None

    @property
    def entry(self) -> Node:
        """The first block."""
        return self.nodes[0]


class FlowGraph:
    """The reduced program of one module. Holds handles of ops: use it before rewriting."""

    def __init__(self, module_op: Any, queue: Callable[[Any], Queue | None] = queue_of) -> None:
        self.queue = queue
        self.items: dict[Any, Item] = {}
        self.nodes: dict[Any, Node] = {}
        self.roots: list[Item] = []
        self.waits: list[Item] = []
        self.commits: list[Item] = []
        self.calls: list[Item] = []
        self.slots: list[Item] = []
        self._positions: dict[Any, int] = {}
        self._module = module_op
        self._last: Node | None = None
        self._terminators: dict[Any, Any] | None = None
        self._branches: list[Any] = []
        self._endless: list[Item] | None = None
        self._functions: dict[tuple[Any, str], Item] = {}
        self._collect(module_op)

    # -- the walk ---------------------------------------------------------------------

    def _collect(self, module_op: Any) -> None:
        found: list[tuple[int, Any, str]] = []
        branches = self._branches
        kinds = _OP_KINDS
        position = 0

        def visit(op: Any) -> Any:
            nonlocal position
            position += 1
            kind = kinds.get(op.name)
            if kind is not None:
                if kind == "branch":
                    branches.append(op)
                else:
                    found.append((position, op, kind))
            return ir.WalkResult.ADVANCE

        module_op.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
        functions = []
        for position, op, kind in found:
            if kind == "commit":
                self._place(Item("commit", op, position, None, self.queue(op)), self.commits)
            elif kind == "wait":
                self._place(Item("wait", op, position, None, self.queue(op)), self.waits)
            elif kind == "slot":
                self._place(Item("slot", op, position, None, self.queue(op)), self.slots)
            elif kind == "call":
                self._place(Item("call", op, position, None), self.calls)
            else:
                self._positions[op] = position
                if kind == "nested" and is_function(op):
                    functions.append(op)
        for op in functions:
            parent = op.parent
            key = (None if parent is None else parent.operation, symbol_name(op))
            self._functions[key] = self.item_of(op)
        for call in self.calls:
            call.callee = self._callee(call)
        for node in list(self.nodes.values()):
            node.items.sort(key=lambda item: item.position)

    def _place(self, item: Item, kept: list[Item]) -> None:
        """Put an item into its block, making the frames around it, and into a list."""
        kept.append(item)
        block = item.op.block
        # Ops come block by block; hashing a handle takes 2 us, comparing it 0.1 us.
        node = self._last
        if node is None or node.block != block:
            node = self._last = self.node_of(block, item.position)
        item.node = node
        node.items.append(item)
        self.items[item.op] = item

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
        while op not in self.items:
            missing.append(op)
            above = op.parent
            if above is None:
                break
            op = above.operation
        for op in reversed(missing):
            self._make_nested(op, inside)
        return self.items[missing[0] if missing else op]

    def _make_nested(self, op: Any, inside: int) -> None:
        # The position of any op inside also orders the op among its siblings.
        position = self._positions.get(op) or inside or self.position_of(op)
        item = Item("nested", op, position, None, row=REGION_ROWS.get(op.name))
        if item.row is not None and item.row.flow == "for":
            item.trips = item.row.trips(op)
        self.items[op] = item
        for number, region in enumerate(op.regions):
            frame = Frame(item, number)
            item.frames.append(frame)
            for block_number, block in enumerate(region.blocks):
                node = Node(frame, block_number, block)
                frame.nodes.append(node)
                self.nodes[block] = node
            if len(frame.nodes) > 1:
                # A frame of one block has no edges: it would have to branch to its entry.
                for node in frame.nodes:
                    self._connect(node)
            elif frame.nodes:
                frame.entry.exits = True
        above = op.parent
        if above is None or (item.row is not None and item.row.flow == "isolated"):
            self.roots.append(item)
        if above is not None:
            item.node = self.nodes[op.block]
            item.node.items.append(item)

    def _connect(self, node: Node) -> None:
        """Fill in the successors of a block of a region with several blocks."""
        op = self.terminator_of(node)
        row: BranchRow | None = BRANCH_ROWS.get(op.name)
        successors = list(op.successors)
        ranges: list[range | None] = [None] * len(successors)
        truths: list[bool | None] = [None] * len(successors)
        if row is not None:
            ranges = list(row.operands(op))
            if row.condition:
                node.condition = op.operands[0]
                truths = [True, False]
        node.edges = [
            Edge(self.nodes[block], operands, value)
            for block, operands, value in zip(successors, ranges, truths, strict=True)
        ]
        node.exits = op.name in EXIT_OPS or (not successors and op.name != "llvm.unreachable")

    def terminator_of(self, node: Node) -> Any:
        """The last op of a block."""
        if self._terminators is None:
            self._terminators = {op.block: op for op in self._branches}
        op = self._terminators.get(node.block)
        if op is None:
            op = list(node.block.operations)[-1].operation
            self._terminators[node.block] = op
        return op

    def position_of(self, op: Any) -> int:
        """The number of an op in pre-order."""
        position = self._positions.get(op)
        if position is None:
            for number, other in enumerate(_walk(self._module), 1):
                self._positions.setdefault(other, number)
            position = self._positions[op]
        return position

    def _callee(self, call: Item) -> Item | None:
        attribute = CALL_OPS[call.op.name]
        if not attribute or attribute not in call.op.attributes:
            return None
        try:
            name = ir.FlatSymbolRefAttr(call.op.attributes[attribute]).value
        except ValueError:
            return None
        above = self.root_of(call).op.parent
        found = self._functions.get((None if above is None else above.operation, name))
        return found if found is not None and found.frames and found.frames[0].nodes else None

    def maybe_endless(self) -> list[Item]:
        """The ops that control may not leave: while loops, and nested graphs of blocks."""
        if self._endless is None:
            ops = {op: None for op in self._positions if _is_while(op)}
            for op in self._branches:
                if op.name in BRANCH_ROWS:
                    ops[op.parent.operation] = None
            self._endless = [self.item_of(op) for op in ops if not is_function(op)]
        return self._endless

    def forget_handles(self) -> None:
        """What is left is the graph; nothing can be looked up by its op or block."""
        self._module = None
        self._terminators = None
        self._branches = []
        for table in (self.items, self.nodes, self._positions, self._functions):
            table.clear()

    def root_of(self, item: Item) -> Item:
        """The function (or other isolated op) whose thread runs `item`."""
        while not (item.row is not None and item.row.flow == "isolated") and item.node is not None:
            item = item.node.frame.item
        return item


def _is_while(op: Any) -> bool:
    row = REGION_ROWS.get(op.name)
    return row is not None and row.flow == "while"


def _walk(root: Any) -> list[Any]:
    found: list[Any] = []

    def visit(op: Any) -> Any:
        found.append(op)
        return ir.WalkResult.ADVANCE

    root.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def _op_kinds() -> dict[str, str]:
    """What the walk keeps, by op name; every other op is passed over."""
    kinds = {name: "commit" for name, row in ROWS.items() if row.commits is not None}
    kinds |= {name: "wait" for name, row in ROWS.items() if row.wait is not None}
    kinds |= {name: "slot" for name, row in ROWS.items() if row.slots}
    kinds |= {name: "value" for name, row in ROWS.items() if row.token and row.commits is None}
    kinds |= dict.fromkeys(CALL_OPS, "call")
    kinds |= dict.fromkeys(REGION_ROWS, "nested")
    kinds |= dict.fromkeys((*SELECT_OPS, *CAST_OPS), "value")
    kinds |= dict.fromkeys((*BRANCH_ROWS, *EXIT_OPS), "branch")
    return kinds


_OP_KINDS = _op_kinds()
