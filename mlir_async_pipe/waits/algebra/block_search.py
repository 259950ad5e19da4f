"""Counts through regions with several blocks: Dijkstra's search on (block, token value).

A *place* is a block together with one truth value for each condition that the region
defines; entering the block that defines a condition chooses its truth anew. A *state* is a
place and a token value at its start. Steps cost the groups that the block commits, so the
search settles every state once, loops and irreducible graphs included.

States are numbers, steps are lists by state, and states of one cost wait in one list, so
that a settled state costs no comparison of tuples (docs/speed.md).
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mlir_async_pipe.flow.items import Edge, Frame, Node
from mlir_async_pipe.waits.algebra.count_rows import (
    FOREVER,
    FRESH,
    FRESH_ROW,
    Row,
)
from mlir_async_pipe.waits.algebra.passages import BlockPassage, Passage

if TYPE_CHECKING:
    from mlir_async_pipe.flow.conditions import Assumption
    from mlir_async_pipe.waits.algebra.summaries import Summaries

PASSING = -1
"""A value that is there from the entry on: its cost is that of the way through."""

Place = tuple[Node, tuple[bool, ...]]
Step = tuple[int, int, int]
"""(state that follows, value at the end of the block that becomes its value, cost)"""
Move = tuple[int, int, Row]
"""(value at the start of the next block, value at the end of this block that becomes it, its row
from the start of this block)"""
CameFrom = dict[int, tuple[int, int]]
"""state to (state before, value at the end of its block)"""


class BlockGraph:
    """The states of a frame under an assumption; steps are made as a search comes to them.

    `states` maps each place that was met to its states by value; `place_of` and `value_of`
    go back. The values in `always` are looked at in all blocks.
    """

    def __init__(
        self,
        summaries: Summaries,
        frame: Frame,
        assumption: Assumption,
        always: tuple[int, ...] = (),
    ) -> None:
        self.summaries = summaries
        self.frame = frame
        self.assumption = assumption
        self.states: dict[Place, dict[int, int]] = {}
        self.place_of: list[Place] = []
        self.value_of: list[int] = []
        self._steps: list[list[Step] | None] = []
        self._expanded: set[Place] = set()
        self._exits: list[Place] = []
        self._always = always
        self._live = summaries.events.values.live_in(frame)
        self._local = summaries.scopes.local.get(frame, ())

    def search(self, start: dict[int, int], came_from: CameFrom | None = None) -> dict[int, int]:
        """The least cost of each state that can be reached from values with the costs `start`
        at the start of the entry block. `came_from` is filled with the last step of each
        cheapest path."""
        cost_of: dict[int, int] = {}
        waiting: dict[int, list[int]] = {}
        costs: list[int] = []
        for place in self._entered(self.frame.entry, (False,) * len(self._local)):
            for value, cost in start.items():
                state = self.state(place, value)
                cost_of[state] = cost
                if cost in waiting:
                    waiting[cost].append(state)
                else:
                    waiting[cost] = [state]
                    heapq.heappush(costs, cost)
        steps = self._steps
        while costs:
            cost = heapq.heappop(costs)
            # Steps that cost nothing add to the list while it is walked.
            for state in waiting[cost]:
                if cost_of[state] != cost:
                    continue
                following = steps[state]
                if following is None:
                    following = self._expand(state)
                for target, passed, step in following:
                    reached = cost + step
                    if reached < cost_of.get(target, FOREVER):
                        cost_of[target] = reached
                        if came_from is not None:
                            came_from[target] = state, passed
                        if reached in waiting:
                            waiting[reached].append(target)
                        else:
                            waiting[reached] = [target]
                            heapq.heappush(costs, reached)
            del waiting[cost]
        return cost_of

    def state(self, place: Place, value: int) -> int:
        """The number of a state, made if it is new."""
        states = self._states_at(place)
        state = states.get(value)
        return self._new_state(place, states, value) if state is None else state

    def _states_at(self, place: Place) -> dict[int, int]:
        states = self.states.get(place)
        if states is None:
            states = self.states[place] = {}
            if place[0].exits:
                self._exits.append(place)
        return states

    def _new_state(self, place: Place, states: dict[int, int], value: int) -> int:
        state = states[value] = len(self.place_of)
        self.place_of.append(place)
        self.value_of.append(value)
        self._steps.append(None)
        return state

    def _expand(self, state: int) -> list[Step]:
        """Make the steps from all states of a place; those of the given one."""
        place = self.place_of[state]
        if place not in self._expanded:
            self._expanded.add(place)
            node, truths = place
            here = self.under(place)
            block = self.summaries.block(node, here)
            if block.cost < FOREVER:
                for edge in taken_edges(self.summaries, node, here):
                    moves = self._moves(edge, block)
                    for target in self._entered(edge.target, truths):
                        self._add_steps(place, target, moves)
        found = self._steps[state]
        if found is None:
            found = self._steps[state] = []
        return found

    def _moves(self, edge: Edge, block: BlockPassage) -> list[Move]:
        """All that moves along an edge."""
        target = edge.target
        end = block.end
        moves: list[Move] = [(FRESH, FRESH, FRESH_ROW)]
        for value in self._always:
            moves.append((value, value, end(value)))
        for value in self._live.get(target, ()):
            moves.append((value, value, end(value)))
        for number, argument in target.arguments.items():
            passed = edge.values.get(number)
            if passed is None:
                moves.append((argument, FRESH, {FRESH: self.summaries.foreign}))
            else:
                moves.append((argument, passed, end(passed)))
        return moves

    def _add_steps(self, place: Place, target: Place, moves: list[Move]) -> None:
        states, there = self.states[place], self._states_at(target)
        steps = self._steps
        for moved, passed, row in moves:
            after = there.get(moved)
            if after is None:
                after = self._new_state(target, there, moved)
            for source, cost in row.items():
                before = states.get(source)
                if before is None:
                    before = self._new_state(place, states, source)
                known = steps[before]
                if known is None:
                    steps[before] = [(after, passed, cost)]
                else:
                    known.append((after, passed, cost))

    def _entered(self, node: Node, truths: tuple[bool, ...]) -> Sequence[Place]:
        """The places that entering a block leads to: its own conditions get either truth."""
        if not self._local:
            return ((node, ()),)
        conditions = self.summaries.conditions.all
        options = [
            (False, True) if conditions[number].home is node else (value,)
            for number, value in zip(self._local, truths, strict=True)
        ]
        return [(node, chosen) for chosen in itertools.product(*options)]

    def under(self, place: Place) -> Assumption:
        """What is assumed at a place."""
        if not self._local:
            return self.assumption
        return {**self.assumption, **dict(zip(self._local, place[1], strict=True))}

    def handed_on(self, cost_of: dict[int, int], number: int) -> Iterator[tuple[int, Place, int]]:
        """What the exits hand on as operand `number` after a search: (cost, place, value at
        the start of the place that becomes it)."""
        for place in self._exits:
            value = place[0].leaving.get(number)
            if value is not None:
                states = self.states[place]
                end = self.summaries.block(place[0], self.under(place)).end(value)
                for middle, step in end.items():
                    state = states.get(middle)
                    if state in cost_of:
                        yield cost_of[state] + step, place, middle

    def cost(self) -> int:
        """The least number of groups on the way through the frame."""
        cost_of = self.search({PASSING: 0})
        costs = [
            cost_of[self.states[place][PASSING]]
            + self.summaries.block(place[0], self.under(place)).cost
            for place in self._exits
            if self.states[place].get(PASSING) in cost_of
        ]
        return min(costs, default=FOREVER)


class Paths:
    """The cheapest paths of one search, kept to walk back along them."""

    def __init__(self, graph: BlockGraph, start: dict[int, int]) -> None:
        self.graph = graph
        self._came_from: CameFrom = {}
        self.cost_of = graph.search(start, self._came_from)

    def back(self, place: Place, value: int) -> Iterator[tuple[Place, int, int]]:
        """From a value at the start of a place to the start of the frame, block by block:
        (the place before, the value at its start, the value at its end)."""
        state = self.graph.states[place][value]
        while state in self._came_from:
            state, passed = self._came_from[state]
            yield self.graph.place_of[state], self.graph.value_of[state], passed


def passage(summaries: Summaries, frame: Frame, assumption: Assumption) -> Passage:
    """The summary of a frame with several blocks: a search from each value at its start."""
    graph = BlockGraph(summaries, frame, assumption, (PASSING,))
    results: dict[int, Row] = {
        number: {} for node in frame.nodes if node.exits for number in node.leaving
    }
    for source in (*frame.captured, *frame.entry.arguments.values(), FRESH):
        cost_of = graph.search({source: 0})
        for number, best in results.items():
            cost = min((entry[0] for entry in graph.handed_on(cost_of, number)), default=FOREVER)
            if cost < FOREVER:
                best[source] = cost
    return Passage(min(graph.cost(), FOREVER), results)


def taken_edges(summaries: Summaries, node: Node, assumption: Assumption) -> Sequence[Edge]:
    """The edges that may be taken from the end of a block under an assumption."""
    if node.condition is None:
        return node.edges
    literal = summaries.conditions.literal(node.condition, node, node)
    value = literal if isinstance(literal, bool) else literal.under(assumption)
    return node.edges if value is None else [edge for edge in node.edges if edge.truth == value]


def resolved_places(
    summaries: Summaries, frame: Frame, assumption: Assumption, start: dict[int, int]
) -> Iterator[tuple[Place, Assumption, BlockPassage, dict[int, int]]]:
    """Every place that can be reached and reads token values: what is assumed there, its
    passage, and the costs of the values at its start."""
    graph = BlockGraph(summaries, frame, assumption)
    cost_of = graph.search(start)
    for place, states in graph.states.items():
        if states.get(FRESH) in cost_of:
            under = graph.under(place)
            block = summaries.block(place[0], under)
            if block.waits or block.reads:
                costs = {
                    value: cost_of[state] for value, state in states.items() if state in cost_of
                }
                yield place, under, block, costs
