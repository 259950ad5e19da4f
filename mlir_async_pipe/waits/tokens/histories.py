"""How many of the youngest groups of a queue are known at a point, on every path to it.

commit   one more        a join   the fewer of both        a call that may commit   none
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir_async_pipe.bindings.raw_ops import Operation, Value, walk
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.vocabulary import Queue, queue_of, row_of
from mlir_async_pipe.vocabulary.async_ops import token_form
from mlir_async_pipe.vocabulary.control_flow import CALL_OPS, REGION_ROWS


def changes_history(op: Operation, queue: Queue, target: Target | None) -> bool:
    """Whether an op commits to the queue, or may."""
    if op.name in CALL_OPS:
        return queue.scope == "thread"
    row = row_of(op)
    return row is not None and row.commits is not None and queue_of(op, target) in (queue, None)


@dataclass
class History:
    """The domain of the analysis: a state is a number of groups, at most `depth`."""

    queue: Queue
    depth: int
    target: Target | None
    # No path comes to such a block, but its branches hand something on in the IR.
    unreached: int | None = 0

    def is_commit(self, op: Operation) -> bool:
        """Whether an op makes a group of the queue."""
        row = row_of(op)
        return (
            row is not None and row.commits == "group" and queue_of(op, self.target) == self.queue
        )

    def has_token(self, commit: Operation) -> bool:
        """Whether a commit denotes its group by a token, or its other form does."""
        copies = None if self.target is None else self.target.chip.copy_queue
        return len(commit.results) > 0 or token_form(commit, copies) is not None

    def over(self, op: Operation, state: int) -> int:
        """A group is known once it is committed; what a call does is not."""
        if self.is_commit(op) and self.has_token(op):
            return min(state + 1, self.depth)
        return 0 if changes_history(op, self.queue, self.target) else state

    def join(self, first: int, second: int) -> int:
        """What both paths know."""
        return min(first, second)

    def again(self, first: int, second: int) -> int:
        """The later iterations of a loop know more, and all of it has to be handed on."""
        return max(first, second)

    def hand(self, targets: Sequence[Value], sources: Sequence[Value], state: int) -> int:
        """Values that are handed on change nothing."""
        return state

    def apart(self, op: Operation, state: int) -> int:
        """Nothing is known about groups before such a region."""
        return 0

    def behind_apart(self, op: Operation, state: int) -> int:
        """Another thread's groups are none of this one's; others may be."""
        row = REGION_ROWS.get(op.name)
        if row is not None and row.flow == "isolated":
            return state
        inside = walk(op)
        return 0 if any(changes_history(i, self.queue, self.target) for i in inside) else state
