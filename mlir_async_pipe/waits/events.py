"""What happens to one queue, block by block: the input of the count.

Of the items of a module only those are kept that commit to the queue, wait on it, define a
token that some wait sees, or contain such items.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mlir_async_pipe.facts.flow.algorithms import components, post_order
from mlir_async_pipe.facts.flow.flow_graph import FlowGraph
from mlir_async_pipe.facts.flow.items import Frame, Item, Node
from mlir_async_pipe.facts.flow.solver import ItemLayout
from mlir_async_pipe.vocabulary import Queue
from mlir_async_pipe.waits.token_values import Def, TokenValues

Event = Item | Def


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
