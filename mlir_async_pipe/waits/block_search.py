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

from mlir_async_pipe.facts.flow.conditions import Assumption
from mlir_async_pipe.facts.flow.items import Edge, Frame, Node
from mlir_async_pipe.waits.minplus import FOREVER, FRESH, FRESH_ROW, Row, shifted
from mlir_async_pipe.waits.passages import BlockPassage, Blocks, Passage

PASSING = -1
"""A value that is there from the entry on: its cost is that of the way through."""

Place = tuple[Node, tuple[bool, ...]]
Step = tuple[int, int]
"""(state that follows, cost)"""
Move = tuple[int, Row]
"""(value at the start of the next block, its row from the start of this block)"""


class BlockGraph:
    """The states of a frame under an assumption; steps are made as a search comes to them.

    `states` maps each place that was met to its states by value, `place_of` goes back. The values
    in `always` are looked at in all blocks.
    """

    def __init__(
        self,
        blocks: Blocks,
        frame: Frame,
        assumption: Assumption,
        always: tuple[int, ...] = (),
    ) -> None:
        self.blocks = blocks
        self.frame = frame
        self.assumption = assumption
        self.states: dict[Place, dict[int, int]] = {}
        self.place_of: list[Place] = []
        self._steps: list[list[Step] | None] = []
        self._expanded: set[Place] = set()
        self._exits: list[Place] = []
        self._always = always
        self._live = blocks.events.values.live_in(frame)
        self._local = blocks.scopes.local.get(frame, ())

    def search(self, start: dict[int, int]) -> dict[int, int]:
        """The least cost of each state that can be reached from values with the costs `start`
        at the start of the entry block."""
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
                here = cost_of[state]
                if here != cost:
                    continue
                following = steps[state]
                if following is None:
                    following = self._expand(state)
                for target, step in following:
                    reached = here + step
                    if reached < cost_of.get(target, FOREVER):
                        cost_of[target] = reached
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
        self._steps.append(None)
        return state

    def _expand(self, state: int) -> list[Step]:
        """Make the steps from all states of a place; those of the given one."""
        place = self.place_of[state]
        if place not in self._expanded:
            self._expanded.add(place)
            node, truths = place
            here = self.under(place)
            block = self.blocks.block(node, here)
            if block.cost < FOREVER:
                for edge in self.blocks.taken_edges(node, here):
                    moves = self._moves(node, edge, block)
                    for target in self._entered(edge.target, truths):
                        self._add_steps(place, target, moves)
        found = self._steps[state]
        if found is None:
            found = self._steps[state] = []
        return found

    def _moves(self, node: Node, edge: Edge, block: BlockPassage) -> list[Move]:
        """All that moves along an edge."""
        blocks, target, op = self.blocks, edge.target, self.frame.item.op
        through = blocks.said(0, f"through block {node.number}", op)
        moves: list[Move] = [(FRESH, FRESH_ROW)]
        for value in (*self._always, *self._live.get(target, ())):
            moves.append((value, shifted(block.end(value), through)))
        for number, argument in target.arguments.items():
            passed = edge.values.get(number)
            row = {FRESH: blocks.foreign} if passed is None else block.end(passed)
            if passed is None and blocks.tells:
                what = "the token is an argument of a block"
                row = {FRESH: blocks.from_elsewhere(what, op)}
            moves.append((argument, shifted(row, through)))
        return moves

    def _add_steps(self, place: Place, target: Place, moves: list[Move]) -> None:
        states, there = self.states[place], self._states_at(target)
        steps = self._steps
        for moved, row in moves:
            after = there.get(moved)
            if after is None:
                after = self._new_state(target, there, moved)
            for source, cost in row.items():
                before = states.get(source)
                if before is None:
                    before = self._new_state(place, states, source)
                known = steps[before]
                if known is None:
                    steps[before] = [(after, cost)]
                else:
                    known.append((after, cost))

    def _entered(self, node: Node, truths: tuple[bool, ...]) -> Sequence[Place]:
        """The places that entering a block leads to: its own conditions get either truth."""
        if not self._local:
            return ((node, ()),)
        conditions = self.blocks.conditions.all
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

    def handed_on(self, cost_of: dict[int, int], number: int) -> int:
        """The least cost of what the exits hand on as operand `number`, after a search."""
        return min(self._all_handed_on(cost_of, number), default=FOREVER)

    def _all_handed_on(self, cost_of: dict[int, int], number: int) -> Iterator[int]:
        for place in self._exits:
            value = place[0].leaving.get(number)
            if value is not None:
                states = self.states[place]
                end = self.blocks.block(place[0], self.under(place)).end(value)
                for middle, step in end.items():
                    state = states.get(middle)
                    if state in cost_of:
                        yield cost_of[state] + step

    def cost(self) -> int:
        """The least number of groups on the way through the frame."""
        cost_of = self.search({PASSING: 0})
        costs = [
            cost_of[self.states[place][PASSING]]
            + self.blocks.block(place[0], self.under(place)).cost
            for place in self._exits
            if self.states[place].get(PASSING) in cost_of
        ]
        return min(costs, default=FOREVER)


def passage(blocks: Blocks, frame: Frame, assumption: Assumption) -> Passage:
    """The summary of a frame with several blocks: a search from each value at its start."""
    graph = BlockGraph(blocks, frame, assumption, (PASSING,))
    results: dict[int, Row] = {
        number: {} for node in frame.nodes if node.exits for number in node.leaving
    }
    for source in (*frame.captured, *frame.entry.arguments.values(), FRESH):
        cost_of = graph.search({source: 0})
        for number, best in results.items():
            cost = graph.handed_on(cost_of, number)
            if cost < FOREVER:
                best[source] = cost
    return Passage(min(graph.cost(), FOREVER), results)


def resolved_places(
    blocks: Blocks, frame: Frame, assumption: Assumption, start: dict[int, int]
) -> Iterator[tuple[Assumption, BlockPassage, dict[int, int]]]:
    """Every place that can be reached and reads token values: what is assumed there, its
    passage, and the costs of the values at its start."""
    graph = BlockGraph(blocks, frame, assumption)
    cost_of = graph.search(start)
    for place, states in graph.states.items():
        if states.get(FRESH) in cost_of:
            under = graph.under(place)
            block = blocks.block(place[0], under)
            if block.waits or block.reads:
                costs = {
                    value: cost_of[state] for value, state in states.items() if state in cost_of
                }
                yield under, block, costs
