"""Walks a path backwards from a value to the commit that it denotes, or to a value outside.

A step backwards is one that costs what the summary of the block, region, loop or call says.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from mlir_async_pipe.waits import block_search, carried, loops
from mlir_async_pipe.waits.conditions import Assumption
from mlir_async_pipe.waits.items import Frame, Item, Node
from mlir_async_pipe.waits.passages import BlockPassage, Loop
from mlir_async_pipe.waits.passing import Passing
from mlir_async_pipe.waits.rows import FOREVER, FRESH, Row
from mlir_async_pipe.waits.solve import Solution
from mlir_async_pipe.waits.trail import Trail

DEEPEST_NESTING = 40


class WayBack:
    """The walk inside the frames of one solution; what it meets is said on `trail`."""

    def __init__(self, solution: Solution, trail: Trail) -> None:
        self.solution = solution
        self.summaries = solution.summaries
        self.events = solution.events
        self.trail = trail
        self.passing = Passing(solution, trail)
        self._depth = 0

    def over_turns(
        self, item: Item, assumption: Assumption, loop: Loop, slots: list[int], cost: int
    ) -> int | None:
        """Back through the iterations between the slots; the value in front of the loop.

        `cost` is that of the first slot, as the path brings it into the loop.
        """
        for source, target in zip(slots[-2::-1], slots[:0:-1], strict=True):
            self.trail.say(f"next iteration of '{item.op.name}'", item.op)
            self._turn(item, assumption, loop, source, target)
            if source == FRESH:
                return None
        if len(slots) == 1:
            later = loop.steady().get(slots[0], 0)
            reason = "first-iterations" if later > cost else None
            self.trail.say(f"first iteration of '{item.op.name}'", item.op, reason)
        return loop.start.get(slots[0], slots[0])

    def _turn(
        self, item: Item, assumption: Assumption, loop: Loop, source: int, target: int
    ) -> None:
        """Back from a slot at the end of an iteration to a slot at its start."""
        assert item.row is not None
        if target in loop.kept:
            groups = loop.columns[target][target]
            self.trail.say(f"one iteration of '{item.op.name}' passes", item.op, groups=groups)
            return
        number = loop.number_of(target)
        if item.row.flow == "for":
            self._frame(item.frames[0], assumption, number, source)
            return
        second = item.frames[1]
        before = loops.before_condition(self.summaries, item, assumption, True)
        after = self.summaries.passage(second, assumption).results[number]
        cost = loop.columns[target][source]
        places = {value: place for place, value in second.entry.arguments.items()}
        for middle, second_cost in after.items():
            if middle == FRESH:
                row: Row = {FRESH: 0}
            elif middle in places:
                row = before.results.get(places[middle], {})
            else:
                row = {middle: before.cost}
            if row.get(source, FOREVER) + second_cost == cost:
                self._frame(second, assumption, number, middle)
                if middle in places:
                    self.before(item, assumption, True, places[middle], source)
                elif middle != FRESH:
                    self.trail.say("the condition holds", item.op, groups=before.cost)
                return

    def _frame(self, frame: Frame, assumption: Assumption, number: int, source: int) -> None:
        """Back from what a frame hands on as `number` to a value at its start, or a commit."""
        if self._depth >= DEEPEST_NESTING:
            self.trail.origin("… deeper", frame.item.op)
            return
        self._depth += 1
        if len(frame.nodes) == 1:
            self._single(frame, self.summaries.scopes.choices(frame, assumption), number, source)
        else:
            self._graph(frame, assumption, number, source)
        self._depth -= 1

    def before(
        self, item: Item, assumption: Assumption, holds: bool, number: int, source: int
    ) -> None:
        """Back through the first region of an scf.while whose condition holds, or not."""
        choices = loops.while_choices(self.summaries, item, assumption, holds)
        self._single(item.frames[0], choices, number, source)

    def _single(
        self, frame: Frame, choices: Sequence[Assumption], number: int, source: int
    ) -> None:
        node = frame.entry
        value = node.leaving[number]
        choice = min(
            choices,
            key=lambda choice: self.summaries.block(node, choice).end(value).get(source, FOREVER),
        )
        self.in_block(node, choice, value, len(self.events.of.get(node, ())), source)

    def _graph(self, frame: Frame, assumption: Assumption, number: int, source: int) -> None:
        graph = block_search.BlockGraph(self.summaries, frame, assumption)
        paths = block_search.Paths(graph, {source: 0})
        _, place, middle = min(graph.handed_on(paths.cost_of, number), key=itemgetter(0))
        events = len(self.events.of.get(place[0], ()))
        self.in_block(place[0], graph.under(place), place[0].leaving[number], events, middle)
        if middle != FRESH:
            self.through_blocks(paths, place, middle)

    def through_blocks(
        self, paths: block_search.Paths, place: block_search.Place, value: int
    ) -> int:
        """Back along the edges of a graph; the value at the frame's start, FRESH if a commit."""
        graph = paths.graph
        item = graph.frame.item
        for before, value_before, passed in paths.back(place, value):
            value = value_before
            node = before[0]
            self.trail.say(f"through block {node.number}", item.op)
            if passed != FRESH:
                events = len(self.events.of.get(node, ()))
                self.in_block(node, graph.under(before), passed, events, value)
            else:
                self.trail.origin("the token is an argument of a block", item.op, "unknown-origin")
            if value == FRESH:
                return FRESH
        return value

    def in_block(
        self, node: Node, assumption: Assumption, value: int, number: int, source: int
    ) -> None:
        """Back inside a block from a value in front of event `number` to `source`."""
        block = self.summaries.block(node, assumption)
        events = self.events.of.get(node, [])
        while True:
            found = block.defined.get(value)
            if found is None:
                self.passing.between(node, block, events, 0, number, assumption)
                return
            row, _, defined_by = found
            self.passing.between(node, block, events, defined_by + 1, number, assumption)
            number = defined_by
            event = events[number]
            if isinstance(event, Item) and event.kind == "commit":
                self._commit_origin(event)
                return
            following = (
                self._through_item(event, value, row, source, block, number, assumption)
                if isinstance(event, Item)
                else self._through_value(event, row, source, block, number, assumption)
            )
            if following is None:
                return
            value = following

    def _commit_origin(self, item: Item) -> None:
        if item.queue == self.events.queue:
            self.trail.origin("the awaited group is committed", item.op)
        elif item.queue is None:
            self.trail.origin(
                "the group is committed to an unknown queue", item.op, "dynamic-queue"
            )
        else:
            self.trail.origin("the group is committed to another queue", item.op, "queue-mismatch")

    def _through_value(
        self,
        event: Any,
        row: Row,
        source: int,
        block: BlockPassage,
        number: int,
        assumption: Assumption,
    ) -> int | None:
        op = event.op
        if event.kind == "copy":
            self.trail.origin("the awaited copy is issued", op)
            return None
        if event.kind == "unknown":
            reason = "function-scope" if self.summaries.foreign else "unknown-origin"
            self.trail.origin(f"the token comes from '{op.name}'", op, reason)
            return None
        if event.kind == "cast":
            return int(event.sources[0])
        cost = block.cost_before(number)
        for value in self.summaries.selected(event, assumption):
            if block.at(value, cost).get(source, FOREVER) == row[source]:
                side = "true" if value == event.sources[0] else "false"
                self.trail.say(f"'{op.name}' takes its {side} value", op)
                return value
        raise AssertionError("one of the values of a select has the cost of its result")

    def _through_item(
        self,
        item: Item,
        value: int,
        row: Row,
        source: int,
        block: BlockPassage,
        number: int,
        assumption: Assumption,
    ) -> int | None:
        reads = block.reads[item]
        result = self.solution.result_number(item, value)
        if item.kind == "call":
            return self._through_call(item, result, reads, source, row[source])
        if item.is_boundary:
            self.trail.origin(f"the token comes from '{item.op.name}'", item.op, "unknown-origin")
            return None
        assert item.row is not None
        if item.row.flow in ("for", "while"):
            return self._through_loop(item, result, block, source, assumption)
        frames = item.frames
        if item.row.flow == "branch":
            frames = self.summaries.conditions.frames(item, assumption)
        for frame in frames:
            inner = self.summaries.passage(frame, assumption).results.get(result, {})
            middle = _match(inner, reads, source, row[source])
            if middle is not None:
                self._frame(frame, assumption, result, middle)
                self.passing.region(item, frame)
                return None if middle == FRESH else middle
        raise AssertionError("one region of a branch hands on what its result costs")

    def _through_call(
        self, item: Item, result: int, reads: dict[int, Row], source: int, cost: int
    ) -> int | None:
        callee = item.callee
        if callee is None or item in self.events.recursive:
            why = "unknown-call" if callee is None else "recursive-call"
            why = "function-scope" if self.summaries.foreign else why
            self.trail.origin("the token comes from a call", item.op, why)
            return None
        frame = callee.frames[0]
        inner = self.summaries.passages[frame, ()].results.get(result, {})
        operands = {
            argument: item.operands[number]
            for number, argument in frame.entry.arguments.items()
            if number in item.operands
        }
        for argument, step in inner.items():
            given = operands.get(argument)
            passed = 0 if self.summaries.foreign else step
            if given is not None and reads[given].get(source, FOREVER) + passed == cost:
                self.trail.say("the callee hands the token back", item.op, groups=passed)
                return given
        reason = "function-scope" if self.summaries.foreign else None
        groups = 0 if self.summaries.foreign else inner[FRESH]
        self.trail.say("behind it the callee commits", item.op, groups=groups)
        self.trail.origin("the awaited group is committed by the callee", item.op, reason)
        return None

    def _through_loop(
        self,
        item: Item,
        result: int,
        block: BlockPassage,
        source: int,
        assumption: Assumption,
    ) -> int | None:
        assert item.row is not None
        loop = loops.loop_of(self.summaries, item, assumption)
        trips = item.trips
        if item.row.flow == "for" and trips is not None:
            return self._through_static(item, loop, block, source, trips, result, assumption)
        if item.row.flow == "while":
            row = loops.before_condition(self.summaries, item, assumption, False).results[result]
            turns = loops.while_turns(self.summaries, item, assumption)
            limit = None if turns is None else 0
            ways = self._ways_through(item, loop, block, source, limit)
            slot = min(
                (slot for slot in row if slot in ways.state),
                key=lambda slot: ways.state[slot] + row[slot],
            )
            self.before(item, assumption, False, result, slot)
            if slot == FRESH:
                return None
            slots = ways.path(slot)
        else:
            ways = self._ways_through(item, loop, block, source, None)
            slots = ways.path(loop.arguments[result])
        if len(slots) == 1:
            reason = "zero-trip-loop" if self.events.commits_in(item) else None
            self.trail.say(f"'{item.op.name}' turns not once", item.op, reason)
            return loop.start.get(slots[0], slots[0])
        return self.over_turns(item, assumption, loop, slots, ways.start[slots[0]])

    def _ways_through(
        self, item: Item, loop: Loop, block: BlockPassage, source: int, limit: int | None
    ) -> carried.TurnsUpTo:
        """How a source of the block passes a loop; kept for the other results of the loop."""
        found = self.solution.ways_through.get((block, item, source))
        if found is None:
            state = loop.state_from(source, block.reads[item])
            found = carried.TurnsUpTo(loop.columns, state, limit)
            self.solution.ways_through[block, item, source] = found
        return found

    def _through_static(
        self,
        item: Item,
        loop: Loop,
        block: BlockPassage,
        source: int,
        trips: int,
        result: int,
        assumption: Assumption,
    ) -> int | None:
        target = loop.arguments[result]
        if trips == 0:
            self.trail.say(f"'{item.op.name}' has no iteration", item.op)
            return loop.start[target]
        ways = self.solution.static_ways.get((block, item, source))
        if ways is None:
            state = loop.state_from(source, block.reads[item])
            ways = carried.ExactTurns(loop.columns, state, trips)
            self.solution.static_ways[block, item, source] = ways
        slots, before = ways.path(target)
        for slot, target in zip(slots[-2::-1], slots[:0:-1], strict=True):
            self._turn(item, assumption, loop, slot, target)
            if slot == FRESH:
                return None
            self.trail.say(f"next iteration of '{item.op.name}'", item.op)
        if not before:
            return loop.start.get(slots[0], slots[0])
        first, groups = ways.before(slots[0])
        self.trail.say(f"{before} more iterations of '{item.op.name}'", item.op, groups=groups)
        if first == FRESH:
            self.trail.origin("the awaited group is committed in one of them", item.op)
            return None
        return loop.start.get(first, first)


def _match(inner: Row, reads: dict[int, Row], source: int, cost: int) -> int | None:
    """The source of an inner row through which `source` costs `cost`, None if there is none."""
    for middle, step in inner.items():
        if middle == FRESH:
            if source == FRESH and step == cost:
                return FRESH
        elif reads[middle].get(source, FOREVER) + step == cost:
            return middle
    return None
