"""Counts through regions with several blocks: Dijkstra's search on (block, token value).

A *place* is a block together with one truth value for each condition that the region
defines; entering the block that defines a condition chooses its truth anew. Edges cost the
groups that the block commits, so the search settles every token value at every place that
it lives through, loops and irreducible graphs included.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mlir_async_pipe.waits.flow_graph import Edge, Frame, Node
from mlir_async_pipe.waits.passages import Passage
from mlir_async_pipe.waits.rows import FOREVER, FRESH, Row, resolved

if TYPE_CHECKING:
    from mlir_async_pipe.waits.conditions import Assumption
    from mlir_async_pipe.waits.summaries import Summaries

PASSING = -1
"""A value that is there from the entry on: its cost is that of the way through."""

Place = tuple[Node, tuple[bool, ...]]
Reached = dict[Place, dict[int, Row]]
Step = tuple[Place, int, int, int]
"""(place that follows, value there, value at the end of the block that becomes it, cost)"""
CameFrom = dict[tuple[Place, int, int], tuple[Place, int, int]]
"""(place, value, source) to (place before, value there, value at the end of its block)"""


def passage(summaries: Summaries, frame: Frame, assumption: Assumption) -> Passage:
    """The summary of a frame with several blocks."""
    reached = search(summaries, frame, assumption, symbolic_start(frame))
    cost = FOREVER
    results: dict[int, Row] = {}
    for place, values in reached.items():
        node = place[0]
        if not node.exits:
            continue
        block = summaries.block(node, under(summaries, frame, assumption, place))
        cost = min(cost, values.get(PASSING, {}).get(PASSING, FOREVER) + block.cost)
        for number, value in node.leaving.items():
            best = results.setdefault(number, {})
            for middle, step in block.end(value).items():
                for source, before in values.get(middle, {}).items():
                    best[source] = min(best.get(source, FOREVER), before + step)
    return Passage(min(cost, FOREVER), results)


def symbolic_start(frame: Frame) -> dict[int, Row]:
    """The rows at the start of a frame whose surroundings are not known: each is itself."""
    start: dict[int, Row] = {value: {value: 0} for value in frame.captured}
    start |= {value: {value: 0} for value in frame.entry.arguments.values()}
    return start | {FRESH: {FRESH: 0}, PASSING: {PASSING: 0}}


def search(
    summaries: Summaries,
    frame: Frame,
    assumption: Assumption,
    start: dict[int, Row],
    came_from: CameFrom | None = None,
) -> Reached:
    """The cheapest row of each token value at the start of each place that can be reached.

    `start` are the rows at the start of the entry block. `came_from` is filled with the last
    step of each cheapest path.
    """
    live = live_values(summaries, frame)
    local = summaries.local.get(frame, ())
    reached: Reached = {}
    order = itertools.count()
    heap: list[tuple[int, int, Place, int, int]] = []

    def reach(place: Place, value: int, source: int, cost: int) -> bool:
        row = reached.setdefault(place, {}).setdefault(value, {})
        if cost >= row.get(source, FOREVER):
            return False
        row[source] = cost
        heapq.heappush(heap, (cost, next(order), place, value, source))
        return True

    for place in _entered(summaries, frame.entry, (False,) * len(local)):
        for value, row in start.items():
            for source, cost in row.items():
                reach(place, value, source, cost)
    steps: dict[Place, dict[int, list[Step]]] = {}
    while heap:
        cost, _, place, value, source = heapq.heappop(heap)
        if cost > reached[place][value][source]:
            continue
        if place not in steps:
            steps[place] = _steps(summaries, frame, assumption, place, live)
        for target, moved, passed, step in steps[place].get(value, ()):
            if reach(target, moved, source, cost + step) and came_from is not None:
                came_from[target, moved, source] = (place, value, passed)
    return reached


def _steps(
    summaries: Summaries,
    frame: Frame,
    assumption: Assumption,
    place: Place,
    live: dict[Node, set[int]],
) -> dict[int, list[Step]]:
    """How values move from the start of a place to the start of those that follow it."""
    node, truths = place
    here = under(summaries, frame, assumption, place)
    block = summaries.block(node, here)
    found: dict[int, list[Step]] = {}
    if block.cost >= FOREVER:
        return found
    for edge in taken_edges(summaries, node, here):
        moves = [(FRESH, FRESH, FRESH, 0), (PASSING, PASSING, PASSING, block.cost)]
        for value in live.get(edge.target, ()):
            moves += [(source, value, value, cost) for source, cost in block.end(value).items()]
        for number, argument in edge.target.arguments.items():
            passed = edge.values.get(number)
            if passed is None:
                moves.append((FRESH, argument, FRESH, summaries.foreign))
            else:
                row = block.end(passed)
                moves += [(source, argument, passed, cost) for source, cost in row.items()]
        for target in _entered(summaries, edge.target, truths):
            for source, moved, passed, cost in moves:
                found.setdefault(source, []).append((target, moved, passed, cost))
    return found


def taken_edges(summaries: Summaries, node: Node, assumption: Assumption) -> list[Edge]:
    """The edges that may be taken from the end of a block under an assumption."""
    if node.condition is None:
        return node.edges
    literal = summaries.conditions.literal(node.condition, node, node)
    value = literal if isinstance(literal, bool) else literal.under(assumption)
    return [edge for edge in node.edges if value is None or edge.truth == value]


def _entered(summaries: Summaries, node: Node, truths: tuple[bool, ...]) -> list[Place]:
    """The places that entering a block leads to: its own conditions get either truth."""
    local = summaries.local.get(node.frame, ())
    if not local:
        return [(node, ())]
    options = [
        (False, True) if summaries.conditions.all[number].home is node else (value,)
        for number, value in zip(local, truths, strict=True)
    ]
    return [(node, chosen) for chosen in itertools.product(*options)]


def under(summaries: Summaries, frame: Frame, assumption: Assumption, place: Place) -> Assumption:
    """What is assumed at a place of a frame."""
    local = summaries.local.get(frame, ())
    return {**assumption, **dict(zip(local, place[1], strict=True))} if local else assumption


def resolved_places(
    summaries: Summaries, frame: Frame, assumption: Assumption, start: dict[int, int]
) -> Iterator[tuple[Place, Assumption, dict[int, int]]]:
    """Every place that can be reached, with the costs of the values at its start."""
    rows = {value: {FRESH: cost} for value, cost in start.items()}
    for place, values in search(summaries, frame, assumption, rows).items():
        costs = {
            value: cost
            for value, row in values.items()
            if (cost := resolved(row, {FRESH: 0})) is not None
        }
        yield place, under(summaries, frame, assumption, place), costs


def live_values(summaries: Summaries, frame: Frame) -> dict[Node, set[int]]:
    """The token values that each block of a frame sees from the blocks in front of it."""
    found = summaries.live.get(frame)
    if found is not None:
        return found
    before: dict[Node, list[Node]] = {}
    for node in frame.nodes:
        for edge in node.edges:
            before.setdefault(edge.target, []).append(node)
    values = summaries.events.values
    live: dict[Node, set[int]] = {}
    seen = {value for node in frame.nodes for value in node.values} | frame.captured
    for value in seen:
        home = values.defs[value].node
        work = values.used_in(value, frame)
        while work:
            node = work.pop()
            if node is home or value in live.setdefault(node, set()):
                continue
            live[node].add(value)
            work.extend(before.get(node, ()))
    summaries.live[frame] = live
    return live
