"""Follows token values backwards from their waits to the commits that they denote.

    wait %r           %r = scf.for … iter_args(%a = %t) { … yield %u }
    result %r  <-  carried %a  <-  %t in front of the loop, %u at the end of its body

Only what a wait can see is looked at. The walk is a work list, so chains may be 10^5 long.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.vocabulary import row_of
from mlir_async_pipe.vocabulary.control_flow import CALL_OPS, CAST_OPS, EXIT_OPS, SELECT_OPS
from mlir_async_pipe.waits.flow_graph import END, Edge, FlowGraph, Frame, Item, Node

DefKind = Literal["commit", "copy", "select", "cast", "item", "argument", "unknown"]


@dataclass(eq=False, slots=True)
class Def:
    """Where a token value comes from.

    "commit": the group of `item`. "copy": the group that will take in this copy. "select":
    one of `sources` (true value, false value) by `condition`; "cast": `sources[0]`. "item":
    result of a nested op or call. "argument": of a block; "unknown": anything else.
    `op` made it (None for an argument); `uses` are the places (node, position) that read it.
    """

    kind: DefKind
    number: int
    op: Any
    node: Node
    position: int
    item: Item | None = None
    sources: tuple[int, ...] = ()
    condition: Any = None
    uses: list[tuple[Node, int]] = field(default_factory=list)


class TokenValues:
    """The token values of one module that some wait can see, numbered from 1."""

    def __init__(self, graph: FlowGraph) -> None:
        self.graph = graph
        self.defs: dict[int, Def] = {}
        self._ids: dict[Any, int] = {}
        self._handles: list[Any] | None = None
        self._last: Item | None = None
        self._work: list[tuple[int, Any]] = []
        self._uses: list[tuple[int, Node, int]] = []
        self._predecessors: dict[Frame, dict[Node, list[tuple[Node, Edge]]]] = {}

    def follow(self, uses: Iterable[tuple[Any, Node, int]]) -> list[int]:
        """The ids of values that are read at (node, position); all behind them is met too."""
        numbers = [self._use(*use) for use in uses]
        while self._work:
            number, value = self._work.pop()
            found = self._define(value, number)
            self.defs[number] = found
            found.node.values.append(number)
        for number, node, position in self._uses:
            found = self.defs[number]
            found.uses.append((node, position))
            _capture(number, found.node.frame, node.frame)
        self._uses.clear()
        return numbers

    def _use(self, value: Any, node: Node, position: int) -> int:
        number = self._ids.get(value)
        if number is None:
            number = self._ids[value] = len(self._ids) + 1
            self._work.append((number, value))
        self._uses.append((number, node, position))
        return number

    def used_in(self, value: int, frame: Frame) -> list[Node]:
        """The blocks of `frame` that use a value, themselves or in nested frames."""
        found: dict[Node, None] = {}
        for node, _ in self.defs[value].uses:
            here: Node | None = node
            while here is not None and here.frame is not frame:
                here = here.frame.item.node
            if here is not None:
                found[here] = None
        return list(found)

    def handle(self, number: int) -> Any:
        """The SSA value with a number."""
        if self._handles is None or len(self._handles) < len(self._ids):
            self._handles = list(self._ids)
        return self._handles[number - 1]

    def forget_handles(self) -> None:
        """No more values can be followed."""
        self._ids.clear()
        self._handles = None

    # -- one value ---------------------------------------------------------------------

    def _define(self, value: Any, number: int) -> Def:
        owner = value.owner
        if isinstance(owner, ir.Block):
            return self._define_argument(value, number, self.graph.node_of(owner))
        op = owner.operation
        item = self._last
        if item is None or item.op != op:
            # Hashing an op takes 0.06 us for each of its results, comparing it 0.1 us.
            item = self.graph.items.get(op)
        if item is not None and item.kind == "commit":
            assert item.node is not None
            item.results[0] = number
            return Def("commit", number, op, item.node, item.position, item)
        if op.name in CALL_OPS or len(op.regions) > 0:
            self._last = item or self.graph.item_of(op)
            return self._define_result(value, number, self._last)
        node, position = self.graph.node_of(op.block), self.graph.position_of(op)
        row = row_of(op)
        if row is not None and row.token:
            return Def("copy", number, op, node, position)
        if op.name in SELECT_OPS:
            sources = tuple(self._use(op.operands[i], node, position) for i in (1, 2))
            return Def("select", number, op, node, position, None, sources, op.operands[0])
        if op.name in CAST_OPS and len(op.operands) == 1:
            return Def(
                "cast",
                number,
                op,
                node,
                position,
                None,
                (self._use(op.operands[0], node, position),),
            )
        return Def("unknown", number, op, node, position)

    def _define_argument(self, value: Any, number: int, node: Node) -> Def:
        place = int(value.arg_number)
        frame = node.frame
        item = frame.item
        found = Def("argument", number, None, node, -1, item)
        node.arguments[place] = number
        if node is not frame.entry:
            self._follow_predecessors(node, place)
        elif item.row is not None and item.row.flow in ("for", "while"):
            carried = place - first_carried(frame)
            if carried >= 0:
                self._follow_carried(frame, carried)
        return found

    def _follow_carried(self, frame: Frame, carried: int) -> None:
        """A loop's argument comes from in front of the loop and from the end of its body."""
        item = frame.item
        assert item.row is not None
        if item.row.flow == "for":
            self._follow_operand(item, carried)
            self._follow_leaving(frame, carried)
        elif frame.number == 0:
            self._follow_operand(item, carried)
            self._follow_leaving(item.frames[1], carried)
        else:
            self._follow_leaving(item.frames[0], carried)

    def _follow_operand(self, item: Item, carried: int) -> None:
        assert item.row is not None and item.node is not None
        if carried not in item.operands:
            operand = item.op.operands[item.row.entry(item.op)[carried]]
            item.operands[carried] = self._use(operand, item.node, item.position)

    def _follow_leaving(self, frame: Frame, number: int) -> None:
        """The values that the exits of a frame hand on as operand `number`."""
        for node in frame.nodes:
            if node.exits and number not in node.leaving:
                op = self.graph.terminator_of(node)
                first = EXIT_OPS.get(op.name)
                if first is not None and first + number < len(op.operands):
                    node.leaving[number] = self._use(op.operands[first + number], node, END)

    def _follow_predecessors(self, node: Node, place: int) -> None:
        for source, edge in self._edges_into(node):
            if edge.operands is not None and place < len(edge.operands):
                op = self.graph.terminator_of(source)
                edge.values[place] = self._use(op.operands[edge.operands[place]], source, END)

    def _edges_into(self, node: Node) -> list[tuple[Node, Edge]]:
        into = self._predecessors.get(node.frame)
        if into is None:
            into = {}
            for source in node.frame.nodes:
                for edge in source.edges:
                    into.setdefault(edge.target, []).append((source, edge))
            self._predecessors[node.frame] = into
        return into.get(node, [])

    def _define_result(self, value: Any, number: int, item: Item) -> Def:
        place = int(value.result_number)
        assert item.node is not None
        item.results[place] = number
        if item.kind == "call":
            self._follow_call(value, place, item)
        elif item.row is not None and not item.is_boundary:
            if item.row.flow == "for":
                # The result is what the argument would be in one more iteration.
                frame = item.frames[0]
                argument = frame.entry.block.arguments[first_carried(frame) + place]
                self._use(argument, frame.entry, 0)
            else:
                for frame in item.frames[:1] if item.row.flow == "while" else item.frames:
                    self._follow_leaving(frame, place)
        return Def("item", number, item.op, item.node, item.position, item)

    def _follow_call(self, value: Any, place: int, item: Item) -> None:
        if item.callee is None:
            return
        frame = item.callee.frames[0]
        self._follow_leaving(frame, place)
        for number, operand in enumerate(item.op.operands):
            if operand.type == value.type and number not in item.operands:
                assert item.node is not None
                item.operands[number] = self._use(operand, item.node, item.position)


def first_carried(frame: Frame) -> int:
    """How many arguments of a loop's entry block stand in front of the carried ones."""
    if frame.first_carried is None:
        item = frame.item
        assert item.row is not None
        frame.first_carried = 0
        if item.row.flow == "for":
            arguments = len(frame.entry.block.arguments)
            frame.first_carried = arguments - len(item.row.entry(item.op))
    return frame.first_carried


def _capture(value: int, home: Frame, frame: Frame) -> None:
    """Note in every frame between a use and the home of a value that it comes from outside."""
    while frame is not home and value not in frame.captured:
        frame.captured.add(value)
        if frame.item.node is None:
            return
        frame = frame.item.node.frame
