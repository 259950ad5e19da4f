"""Commits whose group nobody waits for, and that the next commit of their queue can take over.

    copy A; commit %a (no wait sees %a); copy B; commit %b   -->   copy A; copy B; commit %b

The ops of the first group complete no later than those of the second one, for every wait. It
stays where that would not hold or could hurt: where another wait counts groups by number, where
it pads the queue on purpose (`async_pipe.empty`), where a wait or a call stands before the next
commit, or where both groups may touch the same memory (inside a group nothing is ordered).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from mlir_async_pipe.bindings.raw_ops import operations, walk
from mlir_async_pipe.facts.flow.items import Item, Node
from mlir_async_pipe.facts.values.memory_roots import may_alias, root_of
from mlir_async_pipe.vocabulary import Access, accesses, row_of
from mlir_async_pipe.vocabulary.control_flow import CALL_OPS
from mlir_async_pipe.waits.count import Analysis, waits_on_tokens
from mlir_async_pipe.waits.redundant.in_flight import starts_thread

PADDING = "async_pipe.empty"


def idle_commits(analysis: Analysis) -> list[Item]:
    """The commits whose ops the next commit of their queue can take over."""
    graph = analysis.graph
    # Functions in which groups are counted by number; a function that is called is in doubt.
    numbered = {graph.root_of(item) for item in graph.waits if not waits_on_tokens(item.op)}
    if numbered:
        numbered |= {call.callee for call in graph.calls if call.callee is not None}
    found: list[Item] = []
    for node in graph.nodes.values():
        commits = [item for item in node.items if item.kind == "commit"]
        for item, following in pairwise(commits):
            if item.results or item.queue is None or item.queue != following.queue:
                continue
            if graph.root_of(item) in numbered or PADDING in item.op.attributes:
                continue
            if not _is_group(item) or not _is_group(following) or _has_uses(item.op):
                continue
            if _between(node, item, following):
                continue
            # Three groups in a row become one: the first may not touch what the third does.
            joined = {other.op for other in found if other.node is node}
            if _may_merge(node, item, following, joined):
                found.append(item)
    return found


def _has_uses(op: Any) -> bool:
    return any(True for result in op.results for _ in result.uses)


def _is_group(item: Item) -> bool:
    row = row_of(item.op)
    return row is not None and row.commits == "group"


def _between(node: Node, first: Item, last: Item) -> bool:
    """Whether a wait, a call or an op with such inside stands between two commits."""
    return any(first.position < item.position < last.position for item in node.items)


def _may_merge(node: Node, first: Item, last: Item, joined: set[Any]) -> bool:
    """Whether the ops of both groups are known and touch no common memory with a write.
    The commits in `joined` go, so their ops are part of the group after them."""
    commits = {item.op for item in node.items if _is_group(item) and item.queue == first.queue}
    # The first group holds what was issued since the last commit; that is all in this block
    # if the block has such a commit, or is where a thread starts.
    known = node is node.frame.entry and starts_thread(node.frame.item.op)
    group: list[Access] = []
    earlier: list[Access] = []
    for op in operations(node.block):
        if op == last.op:
            break
        if op in joined:
            continue
        if op in commits:
            known, earlier, group = known or op != first.op, group, []
            continue
        for inner in walk(op) if len(op.regions) else (op,):
            if inner.name in CALL_OPS:
                # What a callee issued is in the group too.
                known = False
            group += [access for access in accesses(inner) if access.asynchronous or inner != op]
    return known and not _conflict(earlier, group)


def _conflict(first: list[Access], second: list[Access]) -> bool:
    return any(
        (a.writes or b.writes) and may_alias(root_of(a.memory), root_of(b.memory))
        for a in first
        for b in second
    )
