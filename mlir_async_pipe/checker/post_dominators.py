"""The block that every way on from a block comes to, for all blocks of a flow graph.

    if %p { A } else { B }; C        the branch's is C, and so are those of A and B

The algorithm is that of Cooper, Harvey and Kennedy ("A Simple, Fast Dominance Algorithm") on
the reversed graph, with one end behind all blocks at which the kernel stops.
"""

from __future__ import annotations

from mlir_async_pipe.checker.step_graph import Flow


def post_dominators(flow: Flow) -> list[int | None]:
    """For each block the nearest other block on all ways to the end; None where there is none
    (a way stops before, or never ends)."""
    end = len(flow.blocks)
    after = [[edge.target for edge in flow.edges(b)] or [end] for b in flow.blocks]
    before: list[list[int]] = [[] for _ in range(end + 1)]
    for number, targets in enumerate(after):
        for target in targets:
            before[target].append(number)
    order = _post_order(end, before)
    rank = {number: position for position, number in enumerate(order)}
    nearest: dict[int, int] = {end: end}
    changed = True
    while changed:
        changed = False
        for number in reversed(order[:-1]):
            ways = [target for target in after[number] if target in nearest]
            found = ways[0]
            for other in ways[1:]:
                found = _meet(found, other, nearest, rank)
            if nearest.get(number) != found:
                nearest[number] = found
                changed = True
    return [None if nearest.get(n, end) == end else nearest[n] for n in range(end)]


def _post_order(first: int, ways: list[list[int]]) -> list[int]:
    order: list[int] = []
    seen = {first}
    stack = [(first, iter(ways[first]))]
    while stack:
        number, rest = stack[-1]
        target = next((t for t in rest if t not in seen), None)
        if target is None:
            order.append(number)
            stack.pop()
        else:
            seen.add(target)
            stack.append((target, iter(ways[target])))
    return order


def _meet(a: int, b: int, nearest: dict[int, int], rank: dict[int, int]) -> int:
    while a != b:
        while rank[a] < rank[b]:
            a = nearest[a]
        while rank[b] < rank[a]:
            b = nearest[b]
    return a
