"""How many of the youngest groups of a queue are known at a point, on every path to it.

commit   one more        a join   the fewer of both        a call that may commit   none
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from mlir_async_pipe.bindings.raw_ops import Operation
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.facts.flow.items import Item
from mlir_async_pipe.facts.flow.solver import Domain
from mlir_async_pipe.vocabulary import Queue, queue_of, row_of
from mlir_async_pipe.vocabulary.async_ops import token_form
from mlir_async_pipe.vocabulary.control_flow import CALL_OPS

ENDLESS = 1 << 60


class Known(NamedTuple):
    """x -> min(x + more, most): what becomes of the number of groups that are known."""

    more: int = 0
    most: int = ENDLESS


SAME = Known()
NEVER = Known(ENDLESS, ENDLESS)
NOTHING = Known(ENDLESS, 0)


@dataclass(frozen=True)
class History(Domain[Known]):
    """The domain: `most` of what comes to a point is the number of groups that are known there.

    With `latest`, a loop with a constant trip count is in its last iteration, which knows the
    most: all of that has to be handed on, from the first iteration on.
    """

    queue: Queue
    target: Target | None
    latest: bool = False
    unit: Known = SAME
    never: Known = NEVER
    outside: Known = NOTHING

    def changes(self, op: Operation) -> bool:
        """Whether an op commits to the queue, or may."""
        if op.name in CALL_OPS:
            return self.queue.scope == "thread"
        row = row_of(op)
        queues = (self.queue, None)
        return row.commits is not None and queue_of(op, self.target) in queues

    def has_token(self, op: Operation) -> bool:
        """Whether an op makes a group of the queue, and denotes it by a token, or its other form
        does."""
        row = row_of(op)
        if row.commits != "group" or queue_of(op, self.target) != self.queue:
            return False
        copies = None if self.target is None else self.target.chip.copy_queue
        return len(op.results) > 0 or token_form(op, copies) is not None

    def over(self, item: Item) -> Known:
        """A group is known once it is committed; what a call does is not."""
        if self.has_token(item.op):
            return Known(more=1)
        return NOTHING if self.changes(item.op) else self.unit

    def then(self, first: Known, later: Known) -> Known:
        if self.never in (first, later):
            return self.never
        return Known(
            min(ENDLESS, first.more + later.more), min(first.most + later.more, later.most)
        )

    def join(self, first: Known, second: Known) -> Known:
        """What both paths know."""
        return Known(min(first.more, second.more), min(first.most, second.most))

    def star(self, body: Known, most: int | None = None) -> Known:
        """The fewest of all iterations, or those of the last one."""
        if self.latest and most is not None:
            return self.power(body, most)
        return super().star(body, most)

    def is_apart(self, item: Item) -> bool:
        """Groups are handed on where an op can be given more values to carry."""
        return not item.row.carries

    def past(self, item: Item, through: list[Known]) -> Known:
        """Which groups were committed there is not known."""
        return self.unit if all(worth == self.unit for worth in through) else NOTHING
