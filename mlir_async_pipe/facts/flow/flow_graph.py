"""The control-flow graph over nested regions, reduced to what matters for commit groups.

One walk over the module keeps commits, waits, calls, branches and the ops with regions
around them; everything else is skipped by its name. `token_values` adds the values.

The walk asks for names only, and the table says what becomes of an op of that name; what else is
asked of a handle costs more (docs/speed.md), so it is asked for once, of the ops that are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import FUNCTION_OPS, is_function, symbol_name, walk
from mlir_async_pipe.facts.flow.algorithms import reached
from mlir_async_pipe.facts.flow.items import Frame, Item, ItemKind, Node, connect, item_with_frames
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
    callee_name,
)
from mlir_async_pipe.vocabulary.op_table import CALL, row_name


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
        """Let go of all items and blocks, which point at each other: else the collector would
        have to walk all of them to free them."""
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
