"""The path that attains a count, found by walking back from the wait to the commit.

The summaries say how cheap every step is; the walk takes, step by step, one that costs what
the summary says. It visits blocks, not iterations: of a loop of 10^9 iterations the last
iterations are shown. On the way it notes what kept the count low.
"""

from __future__ import annotations

from bisect import bisect_left

from mlir_async_pipe.flow.conditions import Assumption
from mlir_async_pipe.flow.items import Frame, Item, Node
from mlir_async_pipe.waits.algebra import carried, loop_passages
from mlir_async_pipe.waits.algebra.count_rows import FRESH
from mlir_async_pipe.waits.algebra.passages import Loop
from mlir_async_pipe.waits.algebra.solve import Solution, Visit, costs_here
from mlir_async_pipe.waits.graph.events import by_position
from mlir_async_pipe.waits.graph.truth_scopes import Key
from mlir_async_pipe.waits.witnesses import way_back_loops
from mlir_async_pipe.waits.witnesses.trail import Mark, Trail
from mlir_async_pipe.waits.witnesses.way_back import WayBack


class Witness:
    """The witness of one wait; `reason` says what kept its count low."""

    def __init__(self, solution: Solution, wait: Item) -> None:
        self.solution = solution
        self.summaries = solution.summaries
        self.events = solution.events
        self.trail = Trail(solution.places)
        self.way_back = WayBack(solution, self.trail)
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
        row = block.at(value, block.cost_before(number))
        source = min(
            (source for source in row if source in visit.costs),
            key=lambda source: visit.costs[source] + row[source],
        )
        self.way_back.in_block(visit.node, visit.assumption, value, number, source)
        if source != FRESH and visit.place is not None:
            return self._back_to_entry(visit, source)
        return source

    def _event_number(self, node: Node, position: int) -> int:
        return bisect_left(self.events.of.get(node, []), position, key=by_position)

    def _back_to_entry(self, visit: Visit, value: int) -> int:
        assert visit.place is not None
        paths = self.solution.paths(visit.frame, visit.key)
        return self.way_back.through_blocks(paths, visit.place, value)

    def _leave_frame(self, visit: Visit, value: int) -> tuple[Visit, int, int] | None:
        """From a value at the start of a frame to what it is around the frame's op."""
        item = visit.frame.item
        outer = self.solution.entered.get((visit.frame, visit.key), {}).get(value)
        if outer is None or item.is_boundary:
            self._root_value(visit.frame, value)
            return None
        if item.row.flow in ("for", "while"):
            found = self._leave_loop(visit.frame, outer, value)
            return None if found is None else (outer, found, item.position)
        self.way_back.passing.region(item, visit.frame)
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
        loop = loop_passages.loop_of(self.summaries, item, outer.assumption)
        ways = self._ways_in(item, loop, outer)
        if item.row.flow == "while" and frame.number == 1:
            if value not in frame.captured:
                value = self._back_over_condition(item, outer.assumption, value, ways.state)
                if value == FRESH:
                    return None
                groups = 0
            else:
                groups = loop_passages.before_condition(
                    self.summaries, item, outer.assumption, True
                ).cost
            self.trail.say("the condition of 'scf.while' holds", item.op, groups=groups)
        slots = ways.path(value)
        return way_back_loops.over_turns(
            self.way_back, item, outer.assumption, loop, slots, ways.start[slots[0]]
        )

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
        row = loop_passages.before_condition(self.summaries, item, assumption, True).results[place]
        source = min(
            (slot for slot in row if slot in state), key=lambda slot: state[slot] + row[slot]
        )
        self.way_back.before(item, assumption, True, place, source)
        return source
