"""The exact count of every token wait: summaries inner to outer, then costs outer to inner.

    N(p, t) = min over all paths to p of the groups committed after the one that t denotes

The first pass says what each region does to any token; the second one carries the cost of
each token value from the start of the function to every wait, over all iterations of all
loops around it. Both look at each block once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mlir_async_pipe.flow.conditions import Assumption, Conditions
from mlir_async_pipe.flow.items import Frame, Item, Node
from mlir_async_pipe.waits.algebra import block_search, carried, loop_passages
from mlir_async_pipe.waits.algebra.count_rows import (
    CROSSING,
    FOREVER,
    FRESH,
    Row,
    resolved,
)
from mlir_async_pipe.waits.algebra.passages import BlockPassage
from mlir_async_pipe.waits.algebra.summaries import Summaries
from mlir_async_pipe.waits.graph.events import Events
from mlir_async_pipe.waits.graph.truth_scopes import Key
from mlir_async_pipe.waits.witnesses.trail import Piece, Places

Costs = dict[int, int]


@dataclass(frozen=True, eq=False, slots=True)
class Visit:
    """One way to be at a block: its frame and what is assumed there, the place in a graph of
    blocks (None in a frame of one block), and the costs of the values at its start."""

    frame: Frame
    key: Key
    assumption: Assumption
    node: Node
    place: block_search.Place | None
    costs: Costs


class Solution:
    """The costs of all token values at the start of each frame, and the count of each wait.

    `counts` has no entry for a wait that no path reaches. A count below 0 means that the
    group is not committed yet on some path (-1), or belongs to another thread (CROSSING).
    """

    def __init__(
        self, events: Events, conditions: Conditions, tracked: frozenset[int] = frozenset()
    ) -> None:
        self.events = events
        self.summaries = Summaries(events, conditions, tracked)
        self.starts: dict[tuple[Frame, Key], Costs] = {}
        self.counts: dict[Item, int] = {}
        # Where the least cost comes from: of a wait's token, and of a value in a frame.
        self.attained: dict[Item, tuple[Visit, int]] = {}
        self.entered: dict[tuple[Frame, Key], dict[int, Visit]] = {}
        # Witnesses from the start of a frame outwards, filled as they are asked for.
        self.trails: dict[tuple[Frame, Key, int], Piece] = {}
        self.ways_in: dict[tuple[Visit, Item], carried.TurnsUpTo] = {}
        self.ways_through: dict[tuple[BlockPassage, Item, int], carried.TurnsUpTo] = {}
        self.static_ways: dict[tuple[BlockPassage, Item, int], carried.ExactTurns] = {}
        self.places: Places = {}
        self._result_numbers: dict[Item, dict[int, int]] = {}
        self._paths: dict[tuple[Frame, Key], block_search.Paths] = {}
        for root in events.roots:
            for frame in reversed(events.frames[root]):
                self.summaries.summarise(frame)
        for root in events.roots:
            self._start_root(root)
            for frame in events.frames[root]:
                self._solve_frame(frame)

    def _start_root(self, root: Item) -> None:
        for frame in root.frames:
            if frame.nodes:
                costs = dict.fromkeys(frame.entry.arguments.values(), self.summaries.foreign)
                costs |= dict.fromkeys(frame.captured, CROSSING)
                self.starts[frame, ()] = {**costs, FRESH: 0}

    def _solve_frame(self, frame: Frame) -> None:
        for key in self.summaries.scopes.keys(frame):
            start = self.starts.get((frame, key))
            if start is None:
                continue
            for visit, block in self.visits(frame, key, start):
                self._count_waits(visit, block)
                for item, reads in block.reads.items():
                    if item.kind == "nested":
                        self._enter_all(item, reads, visit, block)

    def _count_waits(self, visit: Visit, block: BlockPassage) -> None:
        costs, counts, defined = visit.costs, self.counts, block.defined
        for item, cost in block.waits:
            for value in item.operands.values():
                found = defined.get(value)
                if found is None:
                    if value not in costs:
                        continue
                    groups = costs[value] + cost
                else:
                    reached = resolved(found[0], costs)
                    if reached is None:
                        continue
                    groups = reached + cost - found[1]
                if groups < counts.get(item, FOREVER):
                    counts[item] = groups
                    self.attained[item] = (visit, value)

    def visits(self, frame: Frame, key: Key, start: Costs) -> Iterator[tuple[Visit, BlockPassage]]:
        """Every pass through a block of a frame that reads token values, with the costs at the
        start of the block."""
        assumption = self.summaries.scopes.assumption(frame, key)
        if len(frame.nodes) == 1:
            for choice in self.summaries.scopes.choices(frame, assumption):
                visit = Visit(frame, key, choice, frame.entry, None, start)
                yield visit, self.summaries.block(frame.entry, choice)
            return
        for place, under, block, costs in block_search.resolved_places(
            self.summaries, frame, assumption, start
        ):
            yield Visit(frame, key, under, place[0], place, costs), block

    def result_number(self, item: Item, value: int) -> int:
        """Which result of an item a token value is."""
        numbers = self._result_numbers.get(item)
        if numbers is None:
            numbers = {given: number for number, given in item.results.items()}
            self._result_numbers[item] = numbers
        return numbers[value]

    def paths(self, frame: Frame, key: Key) -> block_search.Paths:
        """The cheapest paths through a frame with several blocks."""
        found = self._paths.get((frame, key))
        if found is None:
            assumption = self.summaries.scopes.assumption(frame, key)
            graph = block_search.BlockGraph(self.summaries, frame, assumption)
            found = self._paths[frame, key] = block_search.Paths(graph, self.starts[frame, key])
        return found

    def _enter_all(
        self, item: Item, reads: dict[int, Row], visit: Visit, block: BlockPassage
    ) -> None:
        here = costs_here(reads, visit.costs)
        for frame, start in self._entries(item, here, visit, block):
            if frame.nodes:
                self._enter(frame, start, visit)

    def _enter(self, frame: Frame, start: Costs, visit: Visit) -> None:
        key = (frame, self.summaries.scopes.key(frame, visit.assumption))
        known = self.starts.get(key)
        if known is None:
            self.starts[key] = start
            self.entered[key] = dict.fromkeys(start, visit)
            return
        entered = self.entered[key]
        for value, cost in start.items():
            if cost < known.get(value, FOREVER):
                known[value] = cost
                entered[value] = visit

    def _entries(
        self, item: Item, here: Costs, visit: Visit, block: BlockPassage
    ) -> list[tuple[Frame, Costs]]:
        """The frames of an op that may be entered, with the least cost of each token value
        at their start, over all the times they are entered; each a dictionary of its own."""
        if item.is_boundary:
            return [
                (frame, {**dict.fromkeys(frame.captured, CROSSING), FRESH: 0})
                for frame in item.frames
                if item.row.flow != "isolated"
            ]
        if item.row.flow == "for":
            return self._enter_for(item, here, visit, block)
        if item.row.flow == "while":
            return self._enter_while(item, here, visit, block)
        frames = item.frames
        if item.row.flow == "branch":
            frames = self.summaries.conditions.frames(item, visit.assumption)
        return [(frame, {**here, FRESH: 0}) for frame in frames]

    def _enter_for(
        self, item: Item, here: Costs, visit: Visit, block: BlockPassage
    ) -> list[tuple[Frame, Costs]]:
        trips = item.trips
        if trips == 0:
            return []
        turns = block.turns.get(item)
        if turns is not None:
            return [(item.frames[0], joined(turns, visit.costs))]
        loop = loop_passages.loop_of(self.summaries, item, visit.assumption)
        last = None if trips is None else trips - 1
        return [(item.frames[0], loop.up_to(loop.state(here), last))]

    def _enter_while(
        self, item: Item, here: Costs, visit: Visit, block: BlockPassage
    ) -> list[tuple[Frame, Costs]]:
        summaries = self.summaries
        loop = loop_passages.loop_of(summaries, item, visit.assumption)
        turns = loop_passages.while_turns(summaries, item, visit.assumption)
        first, second = item.frames
        state = loop.up_to(loop.state(here), 0 if turns is False else None)
        entered = [(first, state)]
        if turns is False:
            return entered
        before = loop_passages.before_condition(summaries, item, visit.assumption, True)
        if before.cost < FOREVER:
            inside = {value: state[value] + before.cost for value in loop.kept if value in state}
            for place, argument in second.entry.arguments.items():
                cost = resolved(before.results.get(place, {}), state)
                if cost is not None:
                    inside[argument] = cost
            entered.append((second, {**inside, FRESH: 0}))
        return entered


def costs_here(reads: dict[int, Row], costs: Costs) -> Costs:
    """The costs of the values that an item reads; values that no path brings are left out."""
    here: Costs = {}
    for value, row in reads.items():
        cost = resolved(row, costs)
        if cost is not None:
            here[value] = cost
    return here


def joined(turns: dict[int, carried.State], costs: Costs) -> Costs:
    """The slots of a loop, over all sources that are reached with the costs `costs`."""
    best: Costs = {}
    for source, state in turns.items():
        if source in costs:
            start = costs[source]
            for slot, cost in state.items():
                if start + cost < best.get(slot, FOREVER):
                    best[slot] = start + cost
    return best
