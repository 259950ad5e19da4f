"""What happens to one queue, block by block: the input of the count.

Of the items of a module only those are kept that commit to the queue, wait on it, define a
token that some wait sees, or contain such items.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter

from mlir_async_pipe.vocabulary import Queue
from mlir_async_pipe.waits.flow_graph import FlowGraph, Frame, Item, Node
from mlir_async_pipe.waits.token_values import Def, TokenValues

Event = Item | Def
by_position = attrgetter("position")


@dataclass(eq=False)
class Events:
    """The events of one queue.

    `of` maps each block to its events in order; `roots` are the functions with any, callees
    before callers; `recursive` are the calls that may call themselves again.
    """

    queue: Queue
    values: TokenValues
    of: dict[Node, list[Event]] = field(default_factory=dict)
    roots: list[Item] = field(default_factory=list)
    recursive: set[Item] = field(default_factory=set)
    waits: list[Item] = field(default_factory=list)
    _telling: dict[Node, list[int]] = field(default_factory=dict)
    called: set[Item] = field(default_factory=set)
    committing: set[Item] = field(default_factory=set)

    def commits_in(self, item: Item) -> bool:
        """Whether a group may be committed to the queue inside an op with regions."""
        return item in self.committing

    def telling(self, node: Node) -> list[int]:
        """The numbers of those events of a block that commit, or may."""
        found = self._telling.get(node)
        if found is None:
            found = self._telling[node] = [
                number
                for number, event in enumerate(self.of.get(node, ()))
                if isinstance(event, Item) and self._may_commit(event)
            ]
        return found

    def _may_commit(self, item: Item) -> bool:
        if item.kind == "commit":
            return item.queue == self.queue
        return item.kind == "call" or self.commits_in(item)

    def frames_of(self, root: Item) -> list[Frame]:
        """The frames below a root that have events, outer frames first."""
        found: list[Frame] = []
        work = [frame for frame in root.frames if frame.nodes]
        while work:
            frame = work.pop()
            found.append(frame)
            for node in frame.nodes:
                for event in self.of.get(node, ()):
                    if isinstance(event, Item) and not _is_root(event):
                        work.extend(inner for inner in event.frames if inner.nodes)
        return found


def _is_root(item: Item) -> bool:
    return item.node is None or (item.row is not None and item.row.flow == "isolated")


def collect(graph: FlowGraph, values: TokenValues, queue: Queue, waits: list[Item]) -> Events:
    """The events of `queue` in the module of `graph`, seen from these waits."""
    events = Events(queue, values, waits=waits)
    events.called = {call.callee for call in graph.calls if call.callee is not None}
    marked: set[Item] = set()
    roots: dict[Item, None] = {}
    callers: dict[Item, list[Item]] = {}
    for call in graph.calls:
        if call.callee is not None:
            callers.setdefault(call.callee, []).append(call)
    work = [item for item in graph.commits if item.queue == queue] + list(waits)
    for found in values.defs.values():
        if found.kind in ("copy", "select", "cast", "unknown"):
            events.of.setdefault(found.node, []).append(found)
            work.append(found.node.frame.item)
        elif found.item is not None:
            work.append(found.item)
    _mark(work, events, marked, roots, callers)
    # What follows an endless loop is not reached, whether or not the loop commits anything.
    # Calls of unknown functions may commit, which a witness has to mention.
    others = [*graph.maybe_endless(), *(call for call in graph.calls if call.callee is None)]
    inside = [item for item in others if graph.root_of(item) in roots]
    _mark(inside, events, marked, roots, callers)
    for found_here in events.of.values():
        found_here.sort(key=by_position)
    committing = [item for item in graph.commits if item.queue == queue]
    while committing:
        item = committing.pop()
        while item.node is not None and item.node.frame.item not in events.committing:
            item = item.node.frame.item
            events.committing.add(item)
            committing.extend(callers.get(item, ()))
    events.roots = _callees_first(graph, list(roots), events)
    return events


def _mark(
    work: list[Item],
    events: Events,
    marked: set[Item],
    roots: dict[Item, None],
    callers: dict[Item, list[Item]],
) -> None:
    """Make items, and all that contains or calls them, events of their blocks."""
    while work:
        item = work.pop()
        while item not in marked:
            marked.add(item)
            if _is_root(item):
                roots[item] = None
                work.extend(callers.get(item, ()))
                break
            assert item.node is not None
            events.of.setdefault(item.node, []).append(item)
            item = item.node.frame.item


def _callees_first(graph: FlowGraph, roots: list[Item], events: Events) -> list[Item]:
    """Order roots so that callees come first; calls inside a cycle of calls are recursive.

    Tarjan's strongly connected components, with an explicit stack.
    """
    calls: dict[Item, list[Item]] = {root: [] for root in roots}
    for call in graph.calls:
        root = graph.root_of(call)
        if root in calls and call.callee in calls:
            calls[root].append(call)
    index: dict[Item, int] = {}
    low: dict[Item, int] = {}
    component: dict[Item, int] = {}
    open_roots: list[Item] = []
    order: list[Item] = []
    for start in roots:
        if start in index:
            continue
        stack = [(start, 0)]
        while stack:
            root, position = stack.pop()
            if position == 0:
                index[root] = low[root] = len(index)
                open_roots.append(root)
            descended = False
            for number in range(position, len(calls[root])):
                callee = calls[root][number].callee
                assert callee is not None
                if callee not in index:
                    stack += [(root, number + 1), (callee, 0)]
                    descended = True
                    break
                if callee not in component:
                    low[root] = min(low[root], index[callee])
            if descended:
                continue
            if low[root] == index[root]:
                while True:
                    member = open_roots.pop()
                    component[member] = index[root]
                    order.append(member)
                    if member is root:
                        break
            if stack:
                above = stack[-1][0]
                low[above] = min(low[above], low[root])
    for root, made in calls.items():
        for call in made:
            if call.callee is not None and component[call.callee] == component[root]:
                events.recursive.add(call)
    return order
