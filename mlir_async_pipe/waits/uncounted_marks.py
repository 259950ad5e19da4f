"""Marks that no wait of their function can count: nothing is lost with them.

    wait.asyncmark 0                       wait.asyncmark 0
    load.async.to.lds …              -->   load.async.to.lds …
    asyncmark                              return
    return

A queue of function scope counts the marks of its own function body only (LLVM, AMDGPU
asynchronous operations), so a mark may go if no wait of its queue can run behind it in that
body: none stands behind it, and no loop around it holds one. Waits elsewhere keep their counts.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.ir_helpers import Operation, ancestors, functions, walk
from mlir_async_pipe.targets import Target
from mlir_async_pipe.vocabulary import queue_of, row_of


def uncounted_marks(root: Any, target: Target | None) -> list[Operation]:
    """The marks of function-scope queues that no wait can count, in textual order."""
    return [mark for function in functions(root) for mark in _of_function(function, target)]


def _of_function(function: Operation, target: Target | None) -> list[Operation]:
    if len(list(function.regions[0].blocks)) > 1:
        # With branches between blocks "behind" is not the textual order.
        return []
    marks: list[tuple[int, Operation, str]] = []
    last_wait: dict[str, int] = {}
    waiting: dict[str, list[Operation]] = {}
    for place, op in enumerate(walk(function)):
        row, queue = row_of(op), queue_of(op, target)
        if row is None or queue is None or queue.scope != "function":
            continue
        if row.wait is not None:
            last_wait[queue.name] = place
            waiting.setdefault(queue.name, []).append(op)
        elif row.commits == "group" and not any(list(result.uses) for result in op.results):
            marks.append((place, op, queue.name))
    return [
        mark
        for place, mark, name in marks
        if last_wait.get(name, -1) < place
        and not _shares_a_loop(mark, waiting.get(name, []), function)
    ]


def _shares_a_loop(mark: Operation, waits: list[Operation], function: Operation) -> bool:
    """Whether some region op around the mark, which may run again, holds a wait too."""
    around = _inside(mark, function)
    return any(above in around for wait in waits for above in _inside(wait, function))


def _inside(op: Operation, function: Operation) -> list[Operation]:
    found = []
    for above in ancestors(op):
        if above == function:
            break
        found.append(above)
    return found
