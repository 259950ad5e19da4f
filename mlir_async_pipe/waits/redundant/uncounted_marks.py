"""Marks that no wait of their function can count: nothing is lost with them.

    wait.asyncmark 0                       wait.asyncmark 0
    load.async.to.lds …              -->   load.async.to.lds …
    asyncmark                              return
    return

A queue of function scope counts the marks of its own function body only (LLVM, AMDGPU
asynchronous operations), so a mark may go if no wait of its queue can run after it in that
body: none stands after it, no block with one can be reached, and no loop around it holds one.
Waits elsewhere keep their counts. A mark that only *some* paths lead from to a wait stays: there
the wait counts it, and its copies are waited for by nothing else.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    functions,
    is_used,
    operations,
    walk,
)
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.flow.algorithms import reached
from mlir_async_pipe.flow.ways import successors
from mlir_async_pipe.vocabulary import Queue, queue_of, row_of
from mlir_async_pipe.vocabulary.control_flow import REGION_ROWS
from mlir_async_pipe.waits.ssa.skeleton import Skeleton


def uncounted_marks(root: Any, target: Target | None) -> list[Operation]:
    """The marks of function-scope queues that no wait can count, in textual order."""
    return [mark for function in functions(root) for mark in _of_function(function, target)]


def _of_function(function: Operation, target: Target | None) -> list[Operation]:
    marks: list[tuple[Operation, Queue]] = []
    waiting: dict[Queue, Skeleton] = {}
    for op in walk(function):
        row, queue = row_of(op), queue_of(op, target)
        if row is None or queue is None or queue.scope != "function":
            continue
        if row.commits == "group" and not any(map(is_used, op.results)):
            marks.append((op, queue))
            if queue not in waiting:
                waiting[queue] = _waits_on(function, queue, target)
    return [mark for mark, queue in marks if not _may_be_counted(mark, waiting[queue])]


def _waits_on(function: Operation, queue: Queue, target: Target | None) -> Skeleton:
    def waits(op: Operation) -> bool:
        row = row_of(op)
        return row is not None and row.wait is not None and queue_of(op, target) in (queue, None)

    return Skeleton(function, waits, waits)


def _may_be_counted(mark: Operation, waits: Skeleton) -> bool:
    """Whether a wait may run after a mark in the same run of the function body."""
    op = mark
    while op != waits.root:
        block = op.block
        here = waits.of(block)
        if here:
            siblings = operations(block)
            last = siblings.index(here[-1])
            if last > siblings.index(op):
                return True
        if any(waits.of(other) for other in reached(successors(block), successors)):
            return True
        op = op.parent.operation
        row = REGION_ROWS.get(op.name)
        again = row is None or row.flow not in ("branch", "once")
        if again and op != waits.root and any(map(waits.changes, op.regions)):
            return True
    return False
