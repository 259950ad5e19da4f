"""The exact count of every token wait: summaries inner to outer, then costs outer to inner.

    N(p, t) = min over all paths to p of the groups committed after the one that t denotes

The first pass says what each region does to any token; the second one carries the cost of
each token value from the start of the function to every wait, over all iterations of all
loops around it. Both look at each block once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.diagnostics import Place
from mlir_async_pipe.waits import block_search, carried
from mlir_async_pipe.waits.conditions import Assumption, Conditions
from mlir_async_pipe.waits.events import Events
from mlir_async_pipe.waits.flow_graph import Frame, Item, Node
from mlir_async_pipe.waits.passages import BlockPassage
from mlir_async_pipe.waits.rows import CROSSING, FOREVER, FRESH, Row, resolved
from mlir_async_pipe.waits.summaries import Key, Summaries
from mlir_async_pipe.waits.trail import Piece

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
        self.entered: dict[tuple[Frame, Key, int], Visit] = {}
        # Witnesses from the start of a frame outwards, filled as they are asked for.
        self.trails: dict[tuple[Frame, Key, int], Piece] = {}
        self.ways_in: dict[tuple[Visit, Item], carried.TurnsUpTo] = {}
        self.ways_through: dict[tuple[BlockPassage, Item, int], carried.TurnsUpTo] = {}
        self.static_ways: dict[tuple[BlockPassage, Item, int], carried.ExactTurns] = {}
        self.places: dict[Any, Place] = {}
        self._result_numbers: dict[Item, dict[int, int]] = {}
        self._paths: dict[tuple[Frame, Key], block_search.CameFrom] = {}
        frames = {root: events.frames_of(root) for root in events.roots}
        for root in events.roots:
            for frame in reversed(frames[root]):
                self.summaries.summarise(frame)
        for root in events.roots:
            self._start_root(root)
            for frame in frames[root]:
                self._solve_frame(frame)

    def _start_root(self, root: Item) -> None:
        for frame in root.frames:
            if frame.nodes:
                costs = dict.fromkeys(frame.entry.arguments.values(), self.summaries.foreign)
                costs |= dict.fromkeys(frame.captured, CROSSING)
                self.starts[frame, ()] = {**costs, FRESH: 0}

    def _solve_frame(self, frame: Frame) -> None:
        for key in self.summaries.keys(frame):
            start = self.starts.get((frame, key))
            if start is None:
                continue
            for visit, block in self.visits(frame, key, start):
                for item, reads in block.reads.items():
                    self._read(item, reads, visit)

    def visits(self, frame: Frame, key: Key, start: Costs) -> Iterator[tuple[Visit, BlockPassage]]:
        """Every pass through a block of a frame, with the costs at the start of the block."""
        assumption = self.summaries.assumption(frame, key)
        if len(frame.nodes) == 1:
            for choice in self.summaries.choices(frame, assumption):
                visit = Visit(frame, key, choice, frame.entry, None, start)
                yield visit, self.summaries.block(frame.entry, choice)
            return
        for place, under, costs in block_search.resolved_places(
            self.summaries, frame, assumption, start
        ):
            yield (
                Visit(frame, key, under, place[0], place, costs),
                self.summaries.block(place[0], under),
            )

    def result_number(self, item: Item, value: int) -> int:
        """Which result of an item a token value is."""
        numbers = self._result_numbers.get(item)
        if numbers is None:
            numbers = {given: number for number, given in item.results.items()}
            self._result_numbers[item] = numbers
        return numbers[value]

    def came_from(self, frame: Frame, key: Key) -> block_search.CameFrom:
        """The last steps of the cheapest paths through a frame with several blocks."""
        found = self._paths.get((frame, key))
        if found is None:
            found = self._paths[frame, key] = {}
            rows = {slot: {FRESH: cost} for slot, cost in self.starts[frame, key].items()}
            assumption = self.summaries.assumption(frame, key)
            block_search.search(self.summaries, frame, assumption, rows, found)
        return found

    def _read(self, item: Item, reads: dict[int, Row], visit: Visit) -> None:
        here = costs_here(reads, visit.costs)
        if item.kind == "wait":
            for value in item.operands.values():
                if value in here and here[value] < self.counts.get(item, FOREVER):
                    self.counts[item] = here[value]
                    self.attained[item] = (visit, value)
        elif item.kind == "nested":
            for frame, start in self.entries(item, here, visit.assumption):
                self._enter(frame, start, visit)

    def _enter(self, frame: Frame, start: Costs, visit: Visit) -> None:
        if not frame.nodes:
            return
        key = self.summaries.key(frame, visit.assumption)
        known = self.starts.setdefault((frame, key), {})
        for value, cost in start.items():
            if cost < known.get(value, FOREVER):
                known[value] = cost
                self.entered[frame, key, value] = visit

    def entries(self, item: Item, here: Costs, assumption: Assumption) -> list[tuple[Frame, Costs]]:
        """The frames of an op that may be entered, with the least cost of each token value
        at their start, over all the times they are entered."""
        if item.is_boundary:
            return [
                (frame, {**dict.fromkeys(frame.captured, CROSSING), FRESH: 0})
                for frame in item.frames
                if item.row is None or item.row.flow == "parallel"
            ]
        assert item.row is not None
        if item.row.flow == "for":
            return self._enter_for(item, here, assumption)
        if item.row.flow == "while":
            return self._enter_while(item, here, assumption)
        frames = item.frames
        if item.row.flow == "branch":
            frames = self.summaries.conditions.frames(item, assumption)
        return [(frame, {**here, FRESH: 0}) for frame in frames]

    def _enter_for(
        self, item: Item, here: Costs, assumption: Assumption
    ) -> list[tuple[Frame, Costs]]:
        assert item.row is not None
        trips = item.trips
        if trips == 0:
            return []
        loop = self.summaries.loop(item, assumption)
        last = None if trips is None else trips - 1
        return [(item.frames[0], carried.turn_up_to(loop.columns, loop.state(here), last))]

    def _enter_while(
        self, item: Item, here: Costs, assumption: Assumption
    ) -> list[tuple[Frame, Costs]]:
        loop = self.summaries.loop(item, assumption)
        turns = self.summaries.while_turns(item, assumption)
        first, second = item.frames
        state = carried.turn_up_to(loop.columns, loop.state(here), 0 if turns is False else None)
        entered = [(first, state)]
        if turns is False:
            return entered
        before = self.summaries.before(item, assumption, True)
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
