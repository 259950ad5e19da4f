"""Summarises blocks, regions and functions: how groups and tokens pass through them.

    straight line    each commit adds 1 to the cost of every token in sight
    branch           elementwise minimum
    loop             the carried values iterate: power for static trips, star for unknown ones
    blocks           Dijkstra's search on (block, token value)
    call             what the callee's summary says

Everything is made once for each assumption on the correlated conditions that a frame sees.
Frames are summarised inner before outer by the caller, so nothing here recurses.

This is the min-plus algebra (`compose` is one path after the other, `least` is where paths meet,
`carried` has power and star), but it is no domain of `flow.solver`, for three reasons. A worth
would hold a row for every token: in a line of n tokens n rows at each of n points, where here a
row is made for what is read. What is summarised depends on the truth of the correlated conditions
outside. And a witness asks which path attains the least cost, which a worth does not tell.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir_async_pipe.flow.conditions import Assumption, Conditions
from mlir_async_pipe.flow.items import Frame, Item, Node
from mlir_async_pipe.waits.algebra import block_search, loop_passages
from mlir_async_pipe.waits.algebra.count_rows import (
    CROSSING,
    FOREVER,
    FRESH,
    FRESH_ROW,
    Row,
    compose,
    least,
)
from mlir_async_pipe.waits.algebra.passages import BlockPassage, Loop, Passage
from mlir_async_pipe.waits.graph.events import Events
from mlir_async_pipe.waits.graph.token_values import Def
from mlir_async_pipe.waits.graph.truth_scopes import Key, Scopes

CROSSING_ROW: Row = {FRESH: CROSSING}


class Summaries:
    """All summaries of one queue under the conditions in `tracked`."""

    def __init__(self, events: Events, conditions: Conditions, tracked: frozenset[int]) -> None:
        self.events = events
        self.conditions = conditions
        self.scopes = Scopes(conditions, tracked)
        # A token from elsewhere was committed no later than here. Where marks are counted by
        # function body its own mark is not among them, so the first one seen here must
        # complete: one group less may stay in flight.
        self.foreign = -1 if events.queue.scope == "function" else 0
        self.passages: dict[tuple[Frame, Key], Passage] = {}
        self.made_loops: dict[tuple[Item, tuple[Key, ...]], Loop] = {}
        self._blocks: dict[tuple[Node, Key], BlockPassage] = {}

    # -- one block ---------------------------------------------------------------------

    def block(self, node: Node, assumption: Assumption) -> BlockPassage:
        """The passage through one block; nested frames are summarised already."""
        key = (node, self.scopes.seen(node.frame, assumption))
        found = self._blocks.get(key)
        if found is None:
            found = self._blocks[key] = self._pass_block(node, assumption)
        return found

    def _pass_block(self, node: Node, assumption: Assumption) -> BlockPassage:
        passage = BlockPassage()
        before, defined, waits = passage.before, passage.defined, passage.waits
        queue = self.events.queue
        cost = 0
        for number, event in enumerate(self.events.of.get(node, ())):
            before.append(cost)
            if not isinstance(event, Item):
                defined[event.number] = self._define(event, passage, cost, assumption), cost, number
            elif event.kind == "commit":
                mine = event.queue is queue
                cost += mine
                if event.results:
                    row = FRESH_ROW if mine else CROSSING_ROW
                    defined[event.results[0]] = row, cost, number
            elif event.kind == "wait":
                waits.append((event, cost))
            else:
                at = passage.at
                passage.reads[event] = {value: at(value, cost) for value in self._read_by(event)}
                through = self._through(event, passage, assumption)
                cost += through.cost
                if cost >= FOREVER:
                    break
                for place, value in event.results.items():
                    defined[value] = through.results.get(place, {}), cost, number
        passage.cost = min(cost, FOREVER)
        return passage

    def _define(self, found: Def, passage: BlockPassage, cost: int, assumption: Assumption) -> Row:
        if found.kind == "cast":
            return passage.at(found.sources[0], cost)
        if found.kind == "copy":
            # The copy belongs to the next group, so one group less has followed its group.
            return {FRESH: -1}
        if found.kind == "unknown":
            return {FRESH: self.foreign}
        return least(passage.at(source, cost) for source in self.selected(found, assumption))

    def selected(self, found: Def, assumption: Assumption) -> tuple[int, ...]:
        """The values that a select may choose under an assumption."""
        literal = self.conditions.literal(found.condition, found, found.node)
        value = literal if isinstance(literal, bool) else literal.under(assumption)
        return found.sources if value is None else (found.sources[0 if value else 1],)

    def _read_by(self, item: Item) -> set[int]:
        """The token values that an op with frames, or a call, reads where it stands."""
        read = set(item.operands.values())
        for frame in item.frames:
            read |= frame.captured
        return read

    # -- one op with frames, or a call -------------------------------------------------

    def passage(self, frame: Frame, assumption: Assumption) -> Passage:
        """The summary of a frame; a region without blocks is passed at no cost."""
        if not frame.nodes:
            return Passage(0, {})
        return self.passages[frame, self.scopes.key(frame, assumption)]

    def cost_through(self, item: Item, assumption: Assumption) -> int:
        """The least number of groups that an item commits."""
        nothing = BlockPassage(reads={item: {value: {} for value in self._read_by(item)}})
        return self._through(item, nothing, assumption).cost

    def _through(self, item: Item, block: BlockPassage, assumption: Assumption) -> Passage:
        """How groups and tokens pass through an item, in the terms of the block around it."""
        if item.kind == "call":
            return self._through_call(item, block.reads[item])
        if item.is_boundary:
            return Passage(0, {number: {FRESH: self.foreign} for number in item.results})
        if item.row.flow in ("for", "while"):
            return loop_passages.through_loop(self, item, block, assumption)
        reads = block.reads[item]
        frames = (
            self.conditions.frames(item, assumption) if item.row.flow == "branch" else item.frames
        )
        passages = [self.passage(frame, assumption) for frame in frames]
        return Passage(
            min(passage.cost for passage in passages),
            {
                number: least(
                    compose(passage.results.get(number, {}), reads) for passage in passages
                )
                for number in item.results
            },
        )

    def _through_call(self, item: Item, reads: dict[int, Row]) -> Passage:
        callee = item.callee
        unknown = {number: {FRESH: self.foreign} for number in item.results}
        if callee is None or item in self.events.recursive:
            return Passage(0, unknown)
        frame = callee.frames[0]
        found = self.passages.get((frame, ()))
        if found is None:
            return Passage(0, unknown)
        given = {
            argument: reads[item.operands[number]]
            for number, argument in frame.entry.arguments.items()
            if number in item.operands
        }
        if self.events.queue.scope == "function":
            return Passage(
                0, {n: self._returned(found.results.get(n), given) for n in item.results}
            )
        return Passage(
            found.cost, {n: compose(found.results.get(n, {}), given) for n in item.results}
        )

    def _returned(self, row: Row | None, given: dict[int, Row]) -> Row:
        """A token that a callee hands back, where its own marks do not count here."""
        sources = row or {}
        rows = [given[source] for source in sources if source in given]
        return least([*rows, {FRESH: self.foreign}] if FRESH in sources or not rows else rows)

    # -- one frame ---------------------------------------------------------------------

    def summarise(self, frame: Frame) -> None:
        """Make the passages of a frame whose inner frames are summarised.

        What passes through a function matters to its callers only.
        """
        if frame.item.is_boundary and frame.item not in self.events.called:
            return
        for key in self.scopes.keys(frame):
            assumption = self.scopes.assumption(frame, key)
            if len(frame.nodes) == 1:
                passage = self.through_block(frame, self.scopes.choices(frame, assumption))
            else:
                passage = block_search.passage(self, frame, assumption)
            self.passages[frame, key] = passage

    def through_block(self, frame: Frame, choices: Sequence[Assumption]) -> Passage:
        """The passage through a frame of one block, under any of some assumptions."""
        node = frame.entry
        if not node.exits:
            return Passage(FOREVER, {})
        if len(choices) == 1:
            block = self.block(node, choices[0])
            return Passage(block.cost, {n: block.end(value) for n, value in node.leaving.items()})
        passages = [self.block(node, choice) for choice in choices]
        return Passage(
            min(passage.cost for passage in passages),
            {
                number: least(passage.end(value) for passage in passages)
                for number, value in node.leaving.items()
            },
        )
