"""Walks a path backwards from a value to the commit that it denotes, or to a value outside.

A step backwards is one that costs what the summary of the block, region, loop or call says.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from mlir_async_pipe.flow.conditions import Assumption
from mlir_async_pipe.flow.items import Frame, Item, Node
from mlir_async_pipe.waits.algebra import block_search, loop_passages
from mlir_async_pipe.waits.algebra.count_rows import FOREVER, FRESH, Row
from mlir_async_pipe.waits.algebra.passages import BlockPassage
from mlir_async_pipe.waits.algebra.solve import Solution
from mlir_async_pipe.waits.witnesses import way_back_loops
from mlir_async_pipe.waits.witnesses.passing import Passing
from mlir_async_pipe.waits.witnesses.trail import Trail

DEEPEST_NESTING = 40


class WayBack:
    """The walk inside the frames of one solution; what it meets is written on `trail`."""

    def __init__(self, solution: Solution, trail: Trail) -> None:
        self.solution = solution
        self.summaries = solution.summaries
        self.events = solution.events
        self.trail = trail
        self.passing = Passing(solution, trail)
        self._depth = 0

    def frame(self, frame: Frame, assumption: Assumption, number: int, source: int) -> None:
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
        choices = loop_passages.while_choices(self.summaries, item, assumption, holds)
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
        """Back inside a block from a value before event `number` to `source`."""
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
        if item.row.flow in ("for", "while"):
            return way_back_loops.through_loop(self, item, result, block, source, assumption)
        frames = item.frames
        if item.row.flow == "branch":
            frames = self.summaries.conditions.frames(item, assumption)
        for frame in frames:
            inner = self.summaries.passage(frame, assumption).results.get(result, {})
            middle = _match(inner, reads, source, row[source])
            if middle is not None:
                self.frame(frame, assumption, result, middle)
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
        self.trail.say("after it the callee commits", item.op, groups=groups)
        self.trail.origin("the awaited group is committed by the callee", item.op, reason)
        return None


def _match(inner: Row, reads: dict[int, Row], source: int, cost: int) -> int | None:
    """The source of an inner row through which `source` costs `cost`, None if there is none."""
    for middle, step in inner.items():
        if middle == FRESH:
            if source == FRESH and step == cost:
                return FRESH
        elif reads[middle].get(source, FOREVER) + step == cost:
            return middle
    return None
