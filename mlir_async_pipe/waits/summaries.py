"""Summarises blocks, regions and functions: how groups and tokens pass through them.

    straight line    each commit adds 1 to the cost of every token in sight
    branch           elementwise minimum
    loop             the carried values turn: power for static trips, star for unknown ones
    blocks           Dijkstra's search on (block, token value)
    call             what the callee's summary says

Everything is made once for each assumption on the correlated conditions that a frame sees.
Frames are summarised inner before outer by the caller, so nothing here recurses.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from mlir_async_pipe.waits import block_search, carried, minplus
from mlir_async_pipe.waits.conditions import Assumption, Conditions
from mlir_async_pipe.waits.events import Events
from mlir_async_pipe.waits.flow_graph import Frame, Item, Node
from mlir_async_pipe.waits.passages import BlockPassage, Defined, Loop, Passage
from mlir_async_pipe.waits.rows import (
    CROSSING,
    FOREVER,
    FRESH,
    Row,
    compose,
    least,
    resolved,
)
from mlir_async_pipe.waits.token_values import Def, first_carried

Key = tuple[bool, ...]


class Summaries:
    """All summaries of one queue under the conditions in `tracked`."""

    def __init__(self, events: Events, conditions: Conditions, tracked: frozenset[int]) -> None:
        self.events = events
        self.conditions = conditions
        self.tracked = tracked
        # A token from elsewhere was committed no later than here. Where marks are counted by
        # function body its own mark is not among them, so the first one seen here must
        # complete: one group less may stay in flight.
        self.foreign = -1 if events.queue.scope == "function" else 0
        self.free: dict[Frame, tuple[int, ...]] = {}
        self.local: dict[Frame, tuple[int, ...]] = {}
        self.passages: dict[tuple[Frame, Key], Passage] = {}
        self._loops: dict[tuple[Item, tuple[Key, ...]], Loop] = {}
        self.live: dict[Frame, dict[Node, set[int]]] = {}
        self._blocks: dict[tuple[Node, Key], BlockPassage] = {}
        self._find_scopes()

    def _find_scopes(self) -> None:
        """Which tracked conditions each frame defines (local), or sees from outside (free)."""
        free: dict[Frame, set[int]] = {}
        for number in sorted(self.tracked):
            condition = self.conditions.all[number]
            home = condition.home.frame
            self.local[home] = (*self.local.get(home, ()), number)
            for site in condition.sites:
                frame = site.frame
                while frame is not home and number not in free.setdefault(frame, set()):
                    free[frame].add(number)
                    assert frame.item.node is not None
                    frame = frame.item.node.frame
        self.free = {frame: tuple(sorted(numbers)) for frame, numbers in free.items()}

    # -- assumptions -------------------------------------------------------------------

    def keys(self, frame: Frame) -> Iterator[Key]:
        """All assumptions about what a frame sees from outside."""
        return itertools.product((False, True), repeat=len(self.free.get(frame, ())))

    def assumption(self, frame: Frame, key: Key) -> Assumption:
        """The assumption behind a key of a frame."""
        return dict(zip(self.free.get(frame, ()), key, strict=True))

    def key(self, frame: Frame, assumption: Assumption) -> Key:
        """The part of an assumption that a frame sees."""
        return tuple(assumption[number] for number in self.free.get(frame, ()))

    def choices(self, frame: Frame, assumption: Assumption) -> list[Assumption]:
        """The assumption with every truth of the conditions that a frame itself defines."""
        local = self.local.get(frame, ())
        return [
            {**assumption, **dict(zip(local, values, strict=True))}
            for values in itertools.product((False, True), repeat=len(local))
        ]

    # -- one block ---------------------------------------------------------------------

    def block(self, node: Node, assumption: Assumption) -> BlockPassage:
        """The passage through one block; nested frames are summarised already."""
        if not self.tracked:
            plain = self._blocks.get((node, ()))
            if plain is None:
                plain = self._blocks[node, ()] = self._pass_block(node, assumption)
            return plain
        seen = (*self.free.get(node.frame, ()), *self.local.get(node.frame, ()))
        key = (node, tuple(assumption[number] for number in seen))
        found = self._blocks.get(key)
        if found is None:
            found = self._blocks[key] = self._pass_block(node, assumption)
        return found

    def _pass_block(self, node: Node, assumption: Assumption) -> BlockPassage:
        passage = BlockPassage()
        cost = 0
        for number, event in enumerate(self.events.of.get(node, ())):
            passage.before.append(cost)
            if not isinstance(event, Item):
                row = self._define(event, passage, cost, assumption)
                passage.defined[event.number] = Defined(row, cost, number)
            elif event.kind == "commit":
                cost += event.queue == self.events.queue
                if 0 in event.results:
                    row = {FRESH: 0 if event.queue == self.events.queue else CROSSING}
                    passage.defined[event.results[0]] = Defined(row, cost, number)
            else:
                read = event.operands.values() if event.kind == "wait" else self._read_by(event)
                reads = {value: passage.at(value, cost) for value in read}
                passage.reads[event] = reads
                if event.kind == "wait":
                    continue
                through = self.through(event, reads, assumption)
                cost += through.cost
                if cost >= FOREVER:
                    break
                for place, value in event.results.items():
                    row = through.results.get(place, {})
                    passage.defined[value] = Defined(row, cost, number)
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

    def no_reads(self, item: Item) -> dict[int, Row]:
        """Empty rows for all that an item reads, where only its cost is asked for."""
        return {value: {} for value in self._read_by(item)}

    # -- one op with frames, or a call -------------------------------------------------

    def passage(self, frame: Frame, assumption: Assumption) -> Passage:
        """The summary of a frame; a region without blocks is passed at no cost."""
        if not frame.nodes:
            return Passage(0, {})
        return self.passages[frame, self.key(frame, assumption)]

    def through(self, item: Item, reads: dict[int, Row], assumption: Assumption) -> Passage:
        """How groups and tokens pass through an item, in the terms of the block around it."""
        if item.kind == "call":
            return self._through_call(item, reads)
        if item.is_boundary:
            return Passage(0, {number: {FRESH: self.foreign} for number in item.results})
        assert item.row is not None
        if item.row.flow == "for":
            return self._through_for(item, reads, assumption)
        if item.row.flow == "while":
            return self._through_while(item, reads, assumption)
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

    def _through_for(self, item: Item, reads: dict[int, Row], assumption: Assumption) -> Passage:
        assert item.row is not None
        trips = item.trips
        body = self.passage(item.frames[0], assumption)
        loop = self.loop(item, assumption)
        results: dict[int, Row] = {}
        for source, state in loop.states(reads):
            if trips is None:
                state = carried.turn_up_to(loop.columns, state, None)
            else:
                state = carried.turn(loop.columns, state, trips)
            for number, argument in loop.arguments.items():
                if number in item.results and argument in state:
                    results.setdefault(number, {})[source] = state[argument]
        return Passage(_times(trips or 0, body.cost), results)

    def _through_while(self, item: Item, reads: dict[int, Row], assumption: Assumption) -> Passage:
        turns = self.while_turns(item, assumption)
        if turns is True:
            return Passage(FOREVER, {})
        before = self.before(item, assumption, False)
        loop = self.loop(item, assumption)
        results: dict[int, Row] = {}
        for source, state in loop.states(reads):
            state = carried.turn_up_to(loop.columns, state, None if turns is None else 0)
            for number in item.results:
                cost = resolved(before.results.get(number, {}), state)
                if cost is not None:
                    results.setdefault(number, {})[source] = cost
        return Passage(before.cost, results)

    def while_turns(self, item: Item, assumption: Assumption) -> bool | None:
        """What the condition of an scf.while is known to be: always, never, or open (None)."""
        literal = self.conditions.while_literal(item)
        return literal if isinstance(literal, bool) else literal.under(assumption)

    def before(self, item: Item, assumption: Assumption, holds: bool) -> Passage:
        """The passage through the first region of an scf.while whose condition then holds, or
        does not; a condition that the region itself computes decides in it as well."""
        frame = item.frames[0]
        return self._through_block(frame, self.while_choices(item, assumption, holds))

    def while_choices(self, item: Item, assumption: Assumption, holds: bool) -> list[Assumption]:
        """The choices in the first region of an scf.while that decide its condition so."""
        literal = self.conditions.while_literal(item)
        choices = self.choices(item.frames[0], assumption)
        if isinstance(literal, bool):
            return choices
        return [choice for choice in choices if literal.under(choice) in (None, holds)]

    def loop(self, item: Item, assumption: Assumption) -> Loop:
        """The carried values of a loop, and how they move in one iteration."""
        key = (item, tuple(self.key(frame, assumption) for frame in item.frames))
        found = self._loops.get(key)
        if found is None:
            found = self._loops[key] = self._make_loop(item, assumption)
        return found

    def _make_loop(self, item: Item, assumption: Assumption) -> Loop:
        assert item.row is not None
        first = item.frames[0]
        offset = first_carried(first)
        arguments = {place - offset: value for place, value in first.entry.arguments.items()}
        start = {value: item.operands[n] for n, value in arguments.items() if n in item.operands}
        kept = set(first.captured)
        if item.row.flow == "for":
            body = self.passage(first, assumption)
            cost, moved = body.cost, body.results
        elif self.while_turns(item, assumption) is False:
            cost, moved = FOREVER, {}
        else:
            second = item.frames[1]
            body = self.before(item, assumption, True)
            cost = body.cost
            after = self.passage(second, assumption)
            kept |= second.captured
            inside = {value: {value: cost} for value in kept} | {
                value: body.results.get(place, {})
                for place, value in second.entry.arguments.items()
            }
            cost = min(FOREVER, cost + after.cost)
            moved = {number: compose(row, inside) for number, row in after.results.items()}
        columns: carried.Columns = {}
        if cost < FOREVER:
            columns = {value: {value: cost} for value in kept}
            columns |= {value: moved.get(number, {}) for number, value in arguments.items()}
            columns[FRESH] = {FRESH: 0}
        return Loop(columns, arguments, start, kept)

    # -- one frame ---------------------------------------------------------------------

    def summarise(self, frame: Frame) -> None:
        """Make the passages of a frame whose inner frames are summarised.

        What passes through a function matters to its callers only.
        """
        if frame.item.is_boundary and frame.item not in self.events.called:
            return
        for key in self.keys(frame):
            assumption = self.assumption(frame, key)
            if len(frame.nodes) == 1:
                passage = self._through_block(frame, self.choices(frame, assumption))
            else:
                passage = block_search.passage(self, frame, assumption)
            self.passages[frame, key] = passage

    def _through_block(self, frame: Frame, choices: list[Assumption]) -> Passage:
        node = frame.entry
        passages = [self.block(node, choice) for choice in choices]
        return Passage(
            min(passage.cost for passage in passages),
            {
                number: least(passage.end(value) for passage in passages)
                for number, value in node.leaving.items()
            },
        )


def _times(trips: int, cost: int) -> int:
    """The cost of `trips` passes."""
    if trips == 0 or cost == 0:
        return 0
    return FOREVER if cost >= FOREVER else min(minplus.CEILING, trips * cost)
