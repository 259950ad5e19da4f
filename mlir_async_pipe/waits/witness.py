"""The path that attains a count, found by walking back from the wait to the commit.

The summaries say how cheap every step is; the walk takes, step by step, one that costs what
the summary says. It visits blocks, not iterations: of a loop that turns 10^9 times the last
iterations are shown. On the way it notes what kept the count low.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

from mlir_async_pipe.waits import block_search, carried
from mlir_async_pipe.waits.conditions import Assumption
from mlir_async_pipe.waits.events import Event, by_position
from mlir_async_pipe.waits.flow_graph import Frame, Item, Node
from mlir_async_pipe.waits.rows import FOREVER, FRESH, Row
from mlir_async_pipe.waits.solve import Solution, Visit, costs_here
from mlir_async_pipe.waits.summaries import BlockPassage, Key, Loop
from mlir_async_pipe.waits.trail import Mark, Trail

DEEPEST_NESTING = 40


class Witness:
    """The witness of one wait; `reason` says what kept its count low."""

    def __init__(self, solution: Solution, wait: Item) -> None:
        self.solution = solution
        self.summaries = solution.summaries
        self.events = solution.events
        self.trail = Trail(solution.places)
        self._depth = 0
        visit, value = solution.attained[wait]
        self._outwards(visit, value, wait.position)
        if solution.counts[wait] == 0:
            self.trail.note("newest-group")
        self.reason = self.trail.reason
        self.steps = self.trail.steps()

    # -- from a block outwards ---------------------------------------------------------

    def _outwards(self, visit: Visit, value: int, position: int) -> None:
        """Walk back from a value at a position until its group is found."""
        here: tuple[Visit, int, int] | None = (visit, value, position)
        marks: dict[tuple[Frame, Key, int], Mark] = {}
        while here is not None:
            visit, value, position = here
            source = self._to_frame_start(visit, value, position)
            if source == FRESH:
                break
            frame_start = (visit.frame, visit.key, source)
            known = self.solution.trails.get(frame_start)
            if known is not None:
                self.trail.join(known)
                break
            marks[frame_start] = self.trail.mark()
            here = self._leave_frame(visit, source)
        for frame_start, mark in marks.items():
            self.solution.trails[frame_start] = self.trail.since(mark)

    def _to_frame_start(self, visit: Visit, value: int, position: int) -> int:
        """Walk back to the start of a frame; what the value is there, FRESH if committed."""
        block = self.summaries.block(visit.node, visit.assumption)
        number = self._event_number(visit.node, position)
        row = block.at(value, _cost_before(block, number))
        source = min(
            (source for source in row if source in visit.costs),
            key=lambda source: visit.costs[source] + row[source],
        )
        self._back(visit.node, visit.assumption, value, number, source)
        if source != FRESH and visit.place is not None:
            return self._back_to_entry(visit, source)
        return source

    def _event_number(self, node: Node, position: int) -> int:
        return bisect_left(self.events.of.get(node, []), position, key=by_position)

    def _back_to_entry(self, visit: Visit, value: int) -> int:
        assert visit.place is not None
        assumption = self.summaries.assumption(visit.frame, visit.key)
        came_from = self.solution.came_from(visit.frame, visit.key)
        return self._back_through_blocks(
            visit.frame, assumption, came_from, visit.place, value, FRESH
        )

    def _leave_frame(self, visit: Visit, value: int) -> tuple[Visit, int, int] | None:
        """From a value at the start of a frame to what it is around the frame's op."""
        item = visit.frame.item
        outer = self.solution.entered.get((visit.frame, visit.key, value))
        if outer is None or item.is_boundary:
            self._root_value(visit.frame, value)
            return None
        assert item.row is not None
        if item.row.flow in ("for", "while"):
            found = self._leave_loop(visit.frame, outer, value)
            return None if found is None else (outer, found, item.position)
        self._say_region(item, visit.frame)
        return outer, value, item.position

    def _root_value(self, frame: Frame, value: int) -> None:
        if value in frame.captured:
            self.trail.origin(
                "the token comes from another thread", frame.item.op, "crosses-parallel"
            )
        else:
            reason = "function-scope" if self.summaries.foreign else "unknown-origin"
            self.trail.origin("the token is an argument", frame.item.op, reason)

    def _leave_loop(self, frame: Frame, outer: Visit, value: int) -> int | None:
        item = frame.item
        assert item.row is not None
        loop = self.summaries.loop(item, outer.assumption)
        ways = self._ways_in(item, loop, outer)
        if item.row.flow == "while" and frame.number == 1:
            if value not in frame.captured:
                value = self._back_over_condition(item, outer.assumption, value, ways.state)
                if value == FRESH:
                    return None
                groups = 0
            else:
                groups = self.summaries.before(item, outer.assumption, True).cost
            self.trail.say("the condition of 'scf.while' holds", item.op, groups=groups)
        slots = ways.path(value)
        return self._back_over_turns(item, outer.assumption, loop, slots, ways.start[slots[0]])

    def _ways_in(self, item: Item, loop: Loop, outer: Visit) -> carried.TurnsUpTo:
        """How values come to the start of an iteration; kept, since waits of a loop share it."""
        found = self.solution.ways_in.get((outer, item))
        if found is None:
            block = self.summaries.block(outer.node, outer.assumption)
            state = loop.state(costs_here(block.reads[item], outer.costs))
            limit = None if item.trips is None else item.trips - 1
            found = carried.TurnsUpTo(loop.columns, state, limit)
            self.solution.ways_in[outer, item] = found
        return found

    def _back_over_condition(
        self, item: Item, assumption: Assumption, value: int, state: carried.State
    ) -> int:
        second = item.frames[1]
        place = next(n for n, given in second.entry.arguments.items() if given == value)
        row = self.summaries.before(item, assumption, True).results[place]
        source = min(
            (slot for slot in row if slot in state), key=lambda slot: state[slot] + row[slot]
        )
        self._back_before(item, assumption, True, place, source)
        return source

    def _back_over_turns(
        self, item: Item, assumption: Assumption, loop: Loop, slots: list[int], cost: int
    ) -> int | None:
        """Back through the iterations between the slots; the value in front of the loop.

        `cost` is that of the first slot, as the path brings it into the loop.
        """
        for source, target in zip(slots[-2::-1], slots[:0:-1], strict=True):
            self.trail.say(f"next iteration of '{item.op.name}'", item.op)
            self._back_turn(item, assumption, loop, source, target)
            if source == FRESH:
                return None
        if len(slots) == 1:
            later = loop.steady().get(slots[0], 0)
            reason = "first-iterations" if later > cost else None
            self.trail.say(f"first iteration of '{item.op.name}'", item.op, reason)
        return loop.start.get(slots[0], slots[0])

    def _back_turn(
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
            self._back_frame(item.frames[0], assumption, number, source)
            return
        second = item.frames[1]
        before = self.summaries.before(item, assumption, True)
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
                self._back_frame(second, assumption, number, middle)
                if middle in places:
                    self._back_before(item, assumption, True, places[middle], source)
                elif middle != FRESH:
                    self.trail.say("the condition holds", item.op, groups=before.cost)
                return

    # -- inside one frame --------------------------------------------------------------

    def _back_frame(self, frame: Frame, assumption: Assumption, number: int, source: int) -> None:
        """Back from what a frame hands on as `number` to a value at its start, or a commit."""
        if self._depth >= DEEPEST_NESTING:
            self.trail.origin("… deeper", frame.item.op)
            return
        self._depth += 1
        if len(frame.nodes) == 1:
            self._back_single(frame, self.summaries.choices(frame, assumption), number, source)
        else:
            self._back_graph(frame, assumption, number, source)
        self._depth -= 1

    def _back_before(
        self, item: Item, assumption: Assumption, holds: bool, number: int, source: int
    ) -> None:
        """Back through the first region of an scf.while whose condition holds, or not."""
        choices = self.summaries.while_choices(item, assumption, holds)
        self._back_single(item.frames[0], choices, number, source)

    def _back_single(
        self, frame: Frame, choices: list[Assumption], number: int, source: int
    ) -> None:
        node = frame.entry
        value = node.leaving[number]
        choice = min(
            choices,
            key=lambda choice: self.summaries.block(node, choice).end(value).get(source, FOREVER),
        )
        self._back(node, choice, value, len(self.events.of.get(node, ())), source)

    def _back_graph(self, frame: Frame, assumption: Assumption, number: int, source: int) -> None:
        came_from: block_search.CameFrom = {}
        reached = block_search.search(
            self.summaries, frame, assumption, block_search.symbolic_start(frame), came_from
        )
        best: tuple[int, block_search.Place, int] | None = None
        for place, values in reached.items():
            if number not in place[0].leaving:
                continue
            under = block_search.under(self.summaries, frame, assumption, place)
            end = self.summaries.block(place[0], under).end(place[0].leaving[number])
            for middle, step in end.items():
                cost = values.get(middle, {}).get(source, FOREVER) + step
                if best is None or cost < best[0]:
                    best = (cost, place, middle)
        assert best is not None
        _, place, middle = best
        under = block_search.under(self.summaries, frame, assumption, place)
        events = len(self.events.of.get(place[0], ()))
        self._back(place[0], under, place[0].leaving[number], events, middle)
        if middle != FRESH:
            self._back_through_blocks(frame, assumption, came_from, place, middle, source)

    def _back_through_blocks(
        self,
        frame: Frame,
        assumption: Assumption,
        came_from: block_search.CameFrom,
        place: block_search.Place,
        value: int,
        source: int,
    ) -> int:
        """Back along the edges of a graph; the value at the frame's start, FRESH if a commit."""
        while (place, value, source) in came_from:
            place, value, passed = came_from[place, value, source]
            node = place[0]
            under = block_search.under(self.summaries, frame, assumption, place)
            self.trail.say(f"through block {node.number}", frame.item.op)
            if passed != FRESH:
                self._back(node, under, passed, len(self.events.of.get(node, ())), value)
            else:
                self.trail.origin(
                    "the token is an argument of a block", frame.item.op, "unknown-origin"
                )
            if value == FRESH:
                return FRESH
        return value

    def _back(
        self, node: Node, assumption: Assumption, value: int, number: int, source: int
    ) -> None:
        """Back inside a block from a value in front of event `number` to `source`."""
        block = self.summaries.block(node, assumption)
        events = self.events.of.get(node, [])
        while True:
            found = block.defined.get(value)
            if found is None:
                self._pass(node, block, events, 0, number, assumption)
                return
            self._pass(node, block, events, found.event + 1, number, assumption)
            number = found.event
            event = events[number]
            if isinstance(event, Item) and event.kind == "commit":
                self._commit_origin(event)
                return
            following = (
                self._through_item(event, value, found.row, source, block, number, assumption)
                if isinstance(event, Item)
                else self._through_value(event, found.row, source, block, number, assumption)
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
        cost = _cost_before(block, number)
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
                self._back_frame(frame, assumption, result, middle)
                self._say_region(item, frame)
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
        loop = self.summaries.loop(item, assumption)
        trips = item.trips
        if item.row.flow == "for" and trips is not None:
            return self._through_static(item, loop, block, source, trips, result, assumption)
        if item.row.flow == "while":
            row = self.summaries.before(item, assumption, False).results[result]
            turns = self.summaries.while_turns(item, assumption)
            limit = None if turns is None else 0
            ways = self._ways_through(item, loop, block, source, limit)
            slot = min(
                (slot for slot in row if slot in ways.state),
                key=lambda slot: ways.state[slot] + row[slot],
            )
            self._back_before(item, assumption, False, result, slot)
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
        return self._back_over_turns(item, assumption, loop, slots, ways.start[slots[0]])

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
            self._back_turn(item, assumption, loop, slot, target)
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

    # -- passing by --------------------------------------------------------------------

    def _say_region(self, item: Item, frame: Frame) -> None:
        assert item.row is not None
        if item.row.flow != "branch":
            return
        side = ("then", "else")[frame.number] if len(item.frames) == 2 else str(frame.number)
        others = [other for other in item.frames if other is not frame]
        reason = "conditional-commit" if any(map(self._commits, others)) else None
        self.trail.say(f"'{item.op.name}' runs its region '{side}'", item.op, reason)

    def _commits(self, frame: Frame) -> bool:
        return any(self.events.telling(node) for node in frame.nodes)

    def _pass(
        self,
        node: Node,
        block: BlockPassage,
        events: list[Event],
        first: int,
        last: int,
        assumption: Assumption,
    ) -> None:
        """Note what the path passes between two events, youngest first."""
        telling = self.events.telling(node)
        telling = telling[bisect_left(telling, first) : bisect_left(telling, last)]
        for number in reversed(telling):
            if self.trail.is_full:
                groups = _cost_before(block, number + 1) - block.before[first]
                self.trail.leave_out(bisect_left(telling, number) + 1, groups)
                return
            event = events[number]
            assert isinstance(event, Item)
            if event.kind == "commit":
                self.trail.say("a younger group is committed", event.op, groups=1)
            elif event.kind == "call":
                self._pass_call(event)
            else:
                self._pass_nested(event, assumption)

    def _pass_call(self, item: Item) -> None:
        if item.callee is None:
            self.trail.say("a call that may commit groups", item.op, "unknown-call")
        elif item in self.events.recursive:
            self.trail.say("a call in a cycle of calls", item.op, "recursive-call")
        elif self.events.queue.scope == "thread":
            found = self.summaries.passages.get((item.callee.frames[0], ()))
            groups = 0 if found is None else found.cost
            self.trail.say("a call", item.op, groups=groups)

    def _pass_nested(self, item: Item, assumption: Assumption) -> None:
        if item.is_boundary:
            self.trail.say(f"'{item.op.name}' is passed: 0 groups", item.op, "crosses-parallel")
            return
        assert item.row is not None
        groups = self.summaries.through(item, self.summaries.no_reads(item), assumption).cost
        reason = None
        if item.row.flow == "for":
            trips = item.trips
            body = self.summaries.passage(item.frames[0], assumption)
            if trips is None:
                reason = "zero-trip-loop"
            elif trips and body.cost == 0:
                reason = "conditional-commit"
        elif item.row.flow == "while":
            reason = "zero-trip-loop"
        else:
            costs = [self.summaries.passage(frame, assumption).cost for frame in item.frames]
            if groups < max(costs) or groups == 0:
                reason = "conditional-commit"
        self.trail.say(f"past '{item.op.name}'", item.op, reason, groups)


def _cost_before(block: BlockPassage, number: int) -> int:
    return block.before[number] if number < len(block.before) else block.cost


def _match(inner: Row, reads: dict[int, Row], source: int, cost: int) -> int | None:
    """The source of an inner row through which `source` costs `cost`, None if there is none."""
    for middle, step in inner.items():
        if middle == FRESH:
            if source == FRESH and step == cost:
                return FRESH
        elif reads[middle].get(source, FOREVER) + step == cost:
            return middle
    return None
