"""What happens to one queue, block by block: the input of the count.

Of the items of a module only those are kept that commit to the queue, wait on it, define a
token that some wait sees, or contain such items.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter

from mlir_async_pipe.facts.flow.algorithms import components, post_order
from mlir_async_pipe.facts.flow.flow_graph import FlowGraph
from mlir_async_pipe.facts.flow.items import Frame, Item, Node
from mlir_async_pipe.vocabulary import Queue
from mlir_async_pipe.waits.token_values import Def, TokenValues

Event = Item | Def
by_position = attrgetter("position")


@dataclass(eq=False)
class Events:
    """The events of one queue.

    `of` maps each block to its events in order; `roots` are the functions with any, callees
    before callers, and `frames` their regions that may have some, outer ones first.
    `recursive` are the calls that may call themselves again, `selects` and `nested` the events
    that are selects, and ops with regions.
    """

    queue: Queue
    values: TokenValues
    of: dict[Node, list[Event]] = field(default_factory=dict)
    roots: list[Item] = field(default_factory=list)
    frames: dict[Item, list[Frame]] = field(default_factory=dict)
    recursive: set[Item] = field(default_factory=set)
    waits: list[Item] = field(default_factory=list)
    selects: list[Def] = field(default_factory=list)
    nested: list[Item] = field(default_factory=list)
    _commits: dict[Node, list[int]] = field(default_factory=dict)
    called: set[Item] = field(default_factory=set)
    committing: set[Item] = field(default_factory=set)

    def commits_in(self, item: Item) -> bool:
        """Whether a group may be committed to the queue inside an op with regions."""
        return item in self.committing

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
        return self.commits_in(item)


def collect(graph: FlowGraph, values: TokenValues, queue: Queue, waits: list[Item]) -> Events:
    """The events of `queue` in the module of `graph`, seen from these waits."""
    events = Events(queue, values, waits=waits)
    events.called = {call.callee for call in graph.calls if call.callee is not None}
    marking = _Marking(graph, events)
    committing = [item for item in graph.commits if item.queue is queue]
    marking.leaves(committing)
    marking.leaves(waits)
    for found in values.defs.values():
        if found.kind == "commit":
            assert found.item is not None
            if found.item.queue is not queue:
                marking.leaves([found.item])
        elif found.kind == "item":
            assert found.item is not None
            marking.mark(found.item)
        else:
            if found.kind != "argument":
                events.of.setdefault(found.node, []).append(found)
                if found.kind == "select":
                    events.selects.append(found)
            marking.mark(found.node.frame.item)
    # What follows an endless loop is not reached, whether or not the loop commits anything.
    # Calls of unknown functions may commit, which a witness has to mention.
    others = [*graph.maybe_endless(), *(call for call in graph.calls if call.callee is None)]
    for item in [item for item in others if graph.root_of(item) in marking.roots]:
        marking.mark(item)
    for found_here in events.of.values():
        found_here.sort(key=by_position)
    _find_committing(committing, marking.callers, events)
    events.frames = marking.frames()
    events.roots = _callees_first(graph, list(marking.roots), events)
    return events


class _Marking:
    """Makes items, and all that contains or calls them, events of their blocks."""

    def __init__(self, graph: FlowGraph, events: Events) -> None:
        self.events = events
        self.roots: dict[Item, None] = {}
        self.callers: dict[Item, list[Item]] = {}
        self._marked: set[Item] = set()
        for call in graph.calls:
            if call.callee is not None:
                self.callers.setdefault(call.callee, []).append(call)

    def leaves(self, items: list[Item]) -> None:
        """Mark commits or waits, each of which is given once."""
        of = self.events.of
        for item in items:
            node = item.node
            assert node is not None
            here = of.get(node)
            if here is None:
                of[node] = [item]
                self.mark(node.frame.item)
            else:
                here.append(item)

    def mark(self, item: Item) -> None:
        """Mark a call or an op with regions, and what is around it."""
        work = [item]
        while work:
            item = work.pop()
            while item not in self._marked:
                self._marked.add(item)
                if item.is_root:
                    self.roots[item] = None
                    work.extend(self.callers.get(item, ()))
                    break
                if item.kind == "nested":
                    self.events.nested.append(item)
                assert item.node is not None
                self.events.of.setdefault(item.node, []).append(item)
                item = item.node.frame.item

    def frames(self) -> dict[Item, list[Frame]]:
        """The regions with blocks of each root and of the ops in it, outer ones first."""
        inner: dict[Item, list[Item]] = {}
        for item in self.events.nested:
            assert item.node is not None
            inner.setdefault(item.node.frame.item, []).append(item)
        found: dict[Item, list[Frame]] = {}
        for root in self.roots:
            work = [root]
            for item in work:
                work += inner.get(item, ())
            found[root] = [frame for item in work for frame in item.frames if frame.nodes]
        return found


def _find_committing(
    committing: list[Item], callers: dict[Item, list[Item]], events: Events
) -> None:
    """Mark what holds commits of the queue, or calls something that does."""
    work = list(committing)
    while work:
        item = work.pop()
        while item.node is not None and item.node.frame.item not in events.committing:
            item = item.node.frame.item
            events.committing.add(item)
            work.extend(callers.get(item, ()))


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
