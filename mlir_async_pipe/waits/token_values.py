"""Follows token values backwards from their waits to the commits that they denote.

    wait %r           %r = scf.for … iter_args(%a = %t) { … yield %u }
    result %r  <-  carried %a  <-  %t before the loop, %u at the end of its body

Only what a wait can see is looked at. The walk is a work list, so chains may be 10^5 long.

Where values come from is what `flow.origins` says, from the same edges. It numbers them
where `origins` gives handles, and writes on the graph what is forwarded: so each op is asked once,
however many values pass it, and no handle is hashed twice (docs/speed.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.facts.flow.algorithms import components, post_order
from mlir_async_pipe.facts.flow.flow_graph import Edge, FlowGraph, Frame, Item, Node, passed
from mlir_async_pipe.facts.flow.region_flow import OUT, sources
from mlir_async_pipe.facts.flow.solver import ItemLayout
from mlir_async_pipe.vocabulary import Queue, row_of
from mlir_async_pipe.vocabulary.control_flow import CALL_OPS, CAST_OPS, EXIT_OPS, SELECT_OPS

DefKind = Literal["commit", "copy", "select", "cast", "item", "argument", "unknown"]


@dataclass(eq=False, slots=True)
class Def:
    """Where a token value comes from. "commit": the group of `item`. "copy": the group that will take in this copy.
    "select": one of `sources` (true value, false value) by `condition`; "cast": `sources[0]`. "item": result of a
    nested op or call. "argument": of a block; "unknown": anything else. `op` made it (None for an argument)."""

    kind: DefKind
    number: int
    op: Any
    node: Node
    position: int
    item: Item | None = None
    sources: tuple[int, ...] = ()
    condition: Any = None
    is_root: ClassVar[bool] = False
    frames: ClassVar[tuple[()]] = ()


class TokenValues:
    """The token values of one module that some wait can see, by their numbers from 1 on. `used_elsewhere` are the
    blocks that read a value and are not the one that defines it."""

    def __init__(self, graph: FlowGraph) -> None:
        self.graph = graph
        self.defs: dict[int, Def] = {}
        self._handles: dict[int, Any] = {}
        self.used_elsewhere: dict[int, list[Node]] = {}
        # The tokens of the commits are numbered by their places in the list.
        made = ((number, item.op.results) for number, item in enumerate(graph.commits, 1))
        self._ids = {results[0]: number for number, results in made if len(results)}
        self._free_number = len(graph.commits) + 1
        self._last: Item | None = None
        self._work: list[tuple[int, Any]] = []
        self._uses: list[tuple[int, Node]] = []
        self._predecessors: dict[Frame, dict[Node, list[tuple[Node, Edge]]]] = {}
        self._live: dict[Frame, dict[Node, set[int]]] = {}
        self._loops: dict[Item, _LoopHandles] = {}
        self._exits: dict[Node, tuple[Any, int]] = {}
        self._passed: dict[Node, tuple[Any, list[range | None]]] = {}

    def follow(self) -> None:
        """Meet all values behind those that were given to `use`."""
        while self._work:
            number, value = self._work.pop()
            found = self._define(value, number)
            self.defs[number] = found
            found.node.values.append(number)
        for number, node in self._uses:
            home = self.defs[number].node
            if node is not home:
                self.used_elsewhere.setdefault(number, []).append(node)
                if node.frame is not home.frame:
                    _capture(number, home.frame, node.frame)
        self._uses.clear()

    def use(self, value: Any, node: Node) -> int:
        """The number of a value that is read in a block."""
        number = self._ids.get(value)
        if number is None:
            number = self._ids[value] = self._free_number
            self._free_number += 1
            self._work.append((number, value))
            self._uses.append((number, node))
            return number
        found = self.defs.get(number)
        if found is None and number <= len(self.graph.commits):
            found = self._define_commit(number)
        if found is None or found.node is not node:
            self._uses.append((number, node))
        return number

    def _define_commit(self, number: int) -> Def:
        item = self.graph.commits[number - 1]
        node = item.node
        assert node is not None
        item.results = {0: number}
        found = self.defs[number] = Def("commit", number, item.op, node, item.position, item)
        node.values.append(number)
        return found

    def used_in(self, value: int, frame: Frame) -> list[Node]:
        """The blocks of `frame` that use a value which they do not define, also in nested frames."""
        found: dict[Node, None] = {}
        for node in self.used_elsewhere.get(value, ()):
            here: Node | None = node
            while here is not None and here.frame is not frame:
                here = here.frame.item.node
            if here is not None:
                found[here] = None
        return list(found)

    def live_in(self, frame: Frame) -> dict[Node, set[int]]:
        """The token values that each block of a frame sees from the blocks before it."""
        if frame not in self._live:
            live = self._live[frame] = {}
            used = self.used_elsewhere
            seen = {value for node in frame.nodes for value in node.values if value in used}
            for value in seen | frame.captured:
                home = self.defs[value].node
                work = self.used_in(value, frame)
                while work:
                    node = work.pop()
                    if node is not home and value not in live.setdefault(node, set()):
                        live[node].add(value)
                        work.extend(source for source, _ in self.edges_into(node))
        return self._live[frame]

    def handle(self, number: int) -> Any:
        if number not in self._handles:
            self._handles = {number: value for value, number in self._ids.items()}
        return self._handles[number]

    def number_of(self, value: Any) -> int:
        return self._ids[value]

    # -- one value ---------------------------------------------------------------------

    def _define(self, value: Any, number: int) -> Def:
        owner = value.owner
        if isinstance(owner, ir.Block):
            return self._define_argument(value, number, self.graph.node_of(owner))
        op = owner.operation
        if self._last is not None and self._last.op == op:
            # Compared first: the hash of an op grows with its results (docs/speed.md).
            return self._define_result(value, number, self._last)
        name = op.name
        if name in CALL_OPS or len(op.regions) > 0:
            self._last = self.graph.item_of(op)
            return self._define_result(value, number, self._last)
        node, position = self.graph.node_of(op.block), self.graph.position_of(op)
        row = row_of(op)
        if row.token and row.commits is None:
            return Def("copy", number, op, node, position)
        if name in SELECT_OPS:
            condition, *chosen = op.operands
            values = tuple(self.use(operand, node) for operand in chosen)
            return Def("select", number, op, node, position, None, values, condition)
        if name in CAST_OPS and len(op.operands) == 1:
            source = (self.use(op.operands[0], node),)
            return Def("cast", number, op, node, position, None, source)
        return Def("unknown", number, op, node, position)

    def _define_argument(self, value: Any, number: int, node: Node) -> Def:
        place = value.arg_number
        frame = node.frame
        item = frame.item
        node.arguments = node.arguments or {}
        node.arguments[place] = number
        if node is not frame.nodes[0]:
            self._follow_predecessors(node, place)
        elif item.row.flow in ("for", "while"):
            carried = place if frame.number else place - self._loop(item).first_argument
            if carried >= 0:
                self._follow_into(item, frame.number, carried)
        return Def("argument", number, None, node, -1, item)

    def _follow_into(self, item: Item, place: int, number: int) -> None:
        """What comes to a place of an op comes from before it and from the ends of regions."""
        for source in sources(item.row, place, len(item.frames)):
            if source != OUT:
                self._follow_leaving(item.frames[source], number)
            elif number not in item.operands:
                loop = self._loop(item)
                assert item.node is not None
                operand = loop.operands[loop.first_operand + number]
                item.operands[number] = self.use(operand, item.node)

    def _loop(self, item: Item) -> _LoopHandles:
        if item not in self._loops:
            self._loops[item] = _LoopHandles.of(item)
        return self._loops[item]

    def _follow_leaving(self, frame: Frame, number: int) -> None:
        """The values that the exits of a frame forward as operand `number`."""
        for node in frame.nodes:
            if node.exits and number not in node.leaving:
                known = self._exits.get(node)
                if known is None:
                    op = self.graph.terminator_of(node)
                    first = EXIT_OPS.get(op.name)
                    known = self._exits[node] = (() if first is None else op.operands, first or 0)
                operands, first = known
                if first + number < len(operands):
                    node.leaving = node.leaving or {}
                    node.leaving[number] = self.use(operands[first + number], node)

    def _follow_predecessors(self, node: Node, place: int) -> None:
        for source, edge in self.edges_into(node):
            known = self._passed.get(source)
            if known is None:
                known = self._passed[source] = passed(
                    self.graph.terminator_of(source), len(source.edges)
                )
            operands, ranges = known
            given = ranges[edge.number]
            if given is not None and place < len(given):
                edge.values = edge.values or {}
                edge.values[place] = self.use(operands[given.start + place], source)

    def edges_into(self, node: Node) -> list[tuple[Node, Edge]]:
        into = self._predecessors.get(node.frame)
        if into is None:
            into = self._predecessors[node.frame] = {}
            for source in node.frame.nodes:
                for edge in source.edges:
                    into.setdefault(edge.target, []).append((source, edge))
        return into.get(node, [])

    def _define_result(self, value: Any, number: int, item: Item) -> Def:
        place = value.result_number
        assert item.node is not None
        item.results[place] = number
        if item.kind == "call":
            self._follow_call(value, place, item)
        elif item.row.flow == "for":
            # The result is what the argument would be in one more iteration.
            loop = self._loop(item)
            argument = loop.arguments[loop.first_argument + place]
            self.use(argument, item.frames[0].nodes[0])
        else:
            self._follow_into(item, OUT, place)
        return Def("item", number, item.op, item.node, item.position, item)

    def _follow_call(self, value: Any, place: int, item: Item) -> None:
        if item.callee is None:
            return
        self._follow_leaving(item.callee.frames[0], place)
        for number, operand in enumerate(item.op.operands):
            if operand.type == value.type and number not in item.operands:
                assert item.node is not None
                item.operands[number] = self.use(operand, item.node)


@dataclass(eq=False, slots=True)
class _LoopHandles:
    """The operands of a loop and the arguments of its entry block, with the first carried ones."""

    operands: Any
    first_operand: int
    arguments: Any
    first_argument: int

    @staticmethod
    def of(item: Item) -> _LoopHandles:
        """The handles of a loop, whose frames learn how many arguments are not carried."""
        carried = item.row.entry(item.op)
        frame = item.frames[0]
        arguments = frame.nodes[0].block.arguments
        frame.first_carried = len(arguments) - len(carried) if item.row.flow == "for" else 0
        return _LoopHandles(item.op.operands, carried.start, arguments, frame.first_carried)


def _capture(value: int, home: Frame, frame: Frame) -> None:
    """Note in every frame between a use and the home of a value that it comes from outside."""
    while frame is not home and value not in frame.captured:
        frame.captured.add(value)
        if frame.item.node is None:
            return
        frame = frame.item.node.frame


# Events ------------------------------------------------------------------------------------------
#
# What happens to one queue, block by block: the input of the count.
#
# Of the items of a module only those are kept that commit to the queue, wait on it, define a
# token that some wait sees, or contain such items.


Event = Item | Def


@dataclass(eq=False)
class Events:
    """The events of one queue. `of` maps each block to its events in order; `roots` are the functions with any,
    callees before callers, and `frames` their regions that may have some, outer ones first. `recursive` are the
    calls that may call themselves again, `selects` and `nested` the events that are selects, and ops with regions;
    `committing` those of these, and functions, in which groups may be committed."""

    queue: Queue
    values: TokenValues
    of: Mapping[Node, Sequence[Event]]
    roots: list[Item] = field(default_factory=list)
    frames: dict[Item, list[Frame]] = field(default_factory=dict)
    recursive: set[Item] = field(default_factory=set)
    waits: list[Item] = field(default_factory=list)
    selects: list[Def] = field(default_factory=list)
    nested: list[Item] = field(default_factory=list)
    _commits: dict[Node, list[int]] = field(default_factory=dict)
    called: set[Item] = field(default_factory=set)
    committing: set[Item] = field(default_factory=set)

    def commits(self, node: Node) -> list[int]:
        """The numbers of those events of a block that commit, or may."""
        found = self._commits.get(node)
        if found is None:
            found = self._commits[node] = [
                number
                for number, event in enumerate(self.of.get(node, ()))
                if isinstance(event, Item) and self._may_commit(event)
            ]
        return found

    def _may_commit(self, item: Item) -> bool:
        if item.kind == "commit":
            return item.queue is self.queue
        if item.kind == "call":
            known = item.callee is not None and item not in self.recursive
            return self.queue.scope == "thread" or not known
        return item in self.committing


def collect(graph: FlowGraph, values: TokenValues, queue: Queue, waits: list[Item]) -> Events:
    """The events of `queue` in the module of `graph`, seen from these waits."""
    commits = [item for item in graph.commits if item.queue is queue]
    defs = values.defs.values()
    items: list[Any] = [*commits, *waits, *(found.item or found for found in defs)]
    # What follows an endless loop is not reached, whether or not the loop commits anything.
    # Calls of unknown functions may commit, which a witness has to mention.
    others = [*graph.maybe_endless(), *(call for call in graph.calls if call.callee is None)]
    if graph.calls or others:
        roots = graph.with_callers(map(graph.root_of, items))
        items += (call for call in graph.calls if call.callee in roots)
        items += (item for item in others if graph.root_of(item) in roots)
    layout = ItemLayout(items)
    # What holds commits of the queue, or calls something that does.
    committing = graph.with_callers(map(graph.root_of, commits)) if graph.calls else ()
    inside = ItemLayout([*commits, *(call for call in graph.calls if call.callee in committing)])
    events = Events(
        queue,
        values,
        layout.of,
        frames={root: layout.frames(root) for root in layout.roots},
        waits=waits,
        selects=[found for found in defs if found.kind == "select"],
        nested=_nested(layout),
        called={call.callee for call in graph.calls if call.callee is not None},
        committing={*_nested(inside), *inside.roots},
    )
    events.roots = _callees_first(graph, layout.roots, events)
    return events


def _nested(layout: ItemLayout) -> list[Item]:
    return [item for items in layout.of.values() for item in items if item.kind == "nested"]


def _callees_first(graph: FlowGraph, roots: list[Item], events: Events) -> list[Item]:
    """Order roots so that callees come first; calls inside a cycle of calls are recursive."""
    calls: dict[Item, list[tuple[Item, Item]]] = {root: [] for root in roots}
    for call in graph.calls:
        root, callee = graph.root_of(call), call.callee
        if root in calls and callee is not None and callee in calls:
            calls[root].append((call, callee))

    def callees(root: Item) -> list[Item]:
        return [callee for _, callee in calls[root]]

    component = components(roots, callees)
    for root, made in calls.items():
        events.recursive |= {call for call, callee in made if component[callee] is component[root]}
    return post_order(roots, callees)
