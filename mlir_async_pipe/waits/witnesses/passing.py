"""What the path of a witness passes on its way, and what of it keeps the count low."""

from __future__ import annotations

from bisect import bisect_left

from mlir_async_pipe.flow.conditions import Assumption
from mlir_async_pipe.flow.items import Frame, Item, Node
from mlir_async_pipe.waits.algebra.passages import BlockPassage
from mlir_async_pipe.waits.algebra.solve import Solution
from mlir_async_pipe.waits.graph.events import Event
from mlir_async_pipe.waits.witnesses.trail import Trail


class Passing:
    """Says on a trail what lies between two points of a path."""

    def __init__(self, solution: Solution, trail: Trail) -> None:
        self.summaries = solution.summaries
        self.events = solution.events
        self.trail = trail

    def region(self, item: Item, frame: Frame) -> None:
        """The path takes one region of a branch."""
        if item.row.flow != "branch":
            return
        side = ("then", "else")[frame.number] if len(item.frames) == 2 else str(frame.number)
        others = [other for other in item.frames if other is not frame]
        reason = "conditional-commit" if any(map(self._commits, others)) else None
        self.trail.say(f"'{item.op.name}' runs its region '{side}'", item.op, reason)

    def _commits(self, frame: Frame) -> bool:
        return any(self.events.telling(node) for node in frame.nodes)

    def between(
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
                groups = block.cost_before(number + 1) - block.before[first]
                self.trail.leave_out(bisect_left(telling, number) + 1, groups)
                return
            event = events[number]
            assert isinstance(event, Item)
            if event.kind == "commit":
                self.trail.say("a younger group is committed", event.op, groups=1)
            elif event.kind == "call":
                self._call(event)
            else:
                self._nested(event, assumption)

    def _call(self, item: Item) -> None:
        if item.callee is None:
            self.trail.say("a call that may commit groups", item.op, "unknown-call")
        elif item in self.events.recursive:
            self.trail.say("a call in a cycle of calls", item.op, "recursive-call")
        elif self.events.queue.scope == "thread":
            found = self.summaries.passages.get((item.callee.frames[0], ()))
            groups = 0 if found is None else found.cost
            self.trail.say("a call", item.op, groups=groups)

    def _nested(self, item: Item, assumption: Assumption) -> None:
        if item.is_boundary:
            self.trail.say(f"'{item.op.name}' is passed: 0 groups", item.op, "crosses-parallel")
            return
        groups = self.summaries.cost_through(item, assumption)
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
