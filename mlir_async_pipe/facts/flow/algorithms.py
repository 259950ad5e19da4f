"""Algorithms on graphs of anything: `after(node)` are the nodes that may follow a node.

They are asked for blocks, for the numbers of blocks, and for functions that call each other.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

N = TypeVar("N", bound=Hashable)
T = TypeVar("T")
After = Callable[[N], Iterable[N]]


def predecessors(nodes: Iterable[N], after: After[N]) -> dict[N, list[N]]:
    """For each of all nodes those before it, once for each edge."""
    before: dict[N, list[N]] = {node: [] for node in nodes}
    for node in before:
        for target in after(node):
            before[target].append(node)
    return before


def walked(starts: Iterable[N], after: After[N]) -> Iterator[N]:
    """The starts and all that can be reached, nearest first, each once; `after` is asked when the next is."""
    found = dict.fromkeys(starts)
    work = list(found)
    for node in work:
        yield node
        for other in after(node):
            if other not in found:
                found[other] = None
                work.append(other)


def reached(starts: Iterable[N], after: After[N]) -> set[N]:
    return set(walked(starts, after))


def computed(node: N, known: dict[N, T], needs: After[N], find: Callable[[N], T]) -> T:
    """What `find` gives of a node, after all that it needs is `known`; no recursion: chains may have 10^5 ops."""
    pending = [] if node in known else [node]
    while pending:
        current = pending[-1]
        missing = [] if current in known else [n for n in needs(current) if n not in known]
        if missing:
            pending += missing
            continue
        pending.pop()
        if current not in known:
            known[current] = find(current)
    return known[node]


def post_order(starts: Iterable[N], after: After[N]) -> list[N]:
    """All that can be reached, each node after those that follow it, but for its loops.

    Reversed, it has a block after all that dominate it.
    """
    order: list[N] = []
    seen: set[N] = set()
    for start in starts:
        if start in seen:
            continue
        seen.add(start)
        stack = [(start, iter(after(start)))]
        while stack:
            node, rest = stack[-1]
            target = next((other for other in rest if other not in seen), None)
            if target is None:
                order.append(node)
                stack.pop()
            else:
                seen.add(target)
                stack.append((target, iter(after(target))))
    return order


def natural_loops(entry: N, after: After[N]) -> dict[N, set[N]]:
    """The nodes of each loop that can be reached, by the loop's header."""
    order = post_order([entry], after)
    rank = {node: number for number, node in enumerate(order)}
    before = predecessors(order, after)
    loops: dict[N, set[N]] = {}
    for node in reversed(order):
        # An edge back to where the walk came from.
        sources = [source for source in before[node] if rank[source] <= rank[node]]
        if sources:
            loops[node] = loop_body(node, sources, before.__getitem__)
    return loops


def loop_body(header: N, sources: Iterable[N], before: After[N]) -> set[N]:
    """The nodes of a natural loop: all from which its back edges' `sources` are reached without
    passing its header. `before` gives the nodes before one."""
    return {header} | reached(sources, lambda node: () if node == header else before(node))


def components(nodes: Iterable[N], after: After[N]) -> dict[N, N]:
    """A node for each strongly connected component, by its members, after all that lead to it (Kosaraju, Sharir)."""
    nodes = list(nodes)
    before = predecessors(nodes, after)
    component: dict[N, N] = {}
    for head in reversed(post_order(nodes, after)):
        if head not in component:
            found = reached([head], lambda node: [b for b in before[node] if b not in component])
            component.update(dict.fromkeys(found, head))
    return component


def joined(nodes: Iterable[N], pairs: Iterable[tuple[N, N]]) -> list[list[N]]:
    """The nodes in the parts that pairs of them join, each part at the place of its first node."""
    beside: dict[N, list[N]] = {node: [] for node in nodes}
    for one, other in pairs:
        beside[one].append(other)
        beside[other].append(one)
    component = components(beside, beside.__getitem__)
    parts: dict[N, list[N]] = {}
    for node in beside:
        parts.setdefault(component[node], []).append(node)
    return list(parts.values())


def by_loops(starts: Iterable[N], after: After[N]) -> list[N]:
    """All that can be reached, each node after those that lead to it but for its loops, and a loop's nodes one after the other:
    what runs the first of several nodes lets paths meet where they come together.

    entry -> head, head -> latch, head -> arrive, arrive -> latch, latch -> head, latch -> end
    is  entry, head, arrive, latch, end.
    """
    order = post_order(starts, after)[::-1]
    members: dict[N, list[N]] = {}
    for node, head in components(order, after).items():
        members.setdefault(head, []).append(node)
    found: list[N] = []
    for head, nodes in members.items():
        inside = set(nodes) - {head}
        found.append(head)
        if inside:
            within = _within(inside, after)
            found += by_loops(within(head), within)
    return found


def _within(nodes: set[N], after: After[N]) -> After[N]:
    return lambda node: [one for one in after(node) if one in nodes]


def post_dominators(after: dict[N, list[N]], end: N) -> dict[N, N]:
    """For each node the nearest other one on all its paths to `end`, which has none itself; nodes
    that `end` is not reached from are left out.

    The algorithm is that of Cooper, Harvey and Kennedy ("A Simple, Fast Dominance Algorithm") on
    the reversed graph.
    """
    before = predecessors([*after, end], lambda node: after.get(node, ()))
    order = post_order([end], before.__getitem__)
    rank = {node: position for position, node in enumerate(order)}
    nearest: dict[N, N] = {end: end}
    changed = True
    while changed:
        changed = False
        for node in reversed(order[:-1]):
            found, *others = [target for target in after[node] if target in nearest]
            for other in others:
                found = _meet(found, other, nearest, rank)
            if nearest.get(node) != found:
                nearest[node] = found
                changed = True
    return nearest


def _meet(a: N, b: N, nearest: dict[N, N], rank: dict[N, int]) -> N:
    while a != b:
        while rank[a] < rank[b]:
            a = nearest[a]
        while rank[b] < rank[a]:
            b = nearest[b]
    return a


def by_halves(candidates: list[N], go: Callable[[list[N]], bool], tries: int) -> list[N]:
    """The candidates that go: all of them if `go` says so, else those of either half; it is asked so often at most."""
    gone: list[N] = []
    pending = [candidates] if candidates else []
    while pending and tries > 0:
        some, tries = pending.pop(), tries - 1
        if go(some):
            gone += some
        elif len(some) > 1:
            half = len(some) // 2
            pending += some[half:], some[:half]
    return gone
