"""Keeps the counts of waits within what the hardware can express.

    nvgpu.device_async_wait %t {numGroups = 70}  -->  … {numGroups = 63}

MLIR's ops accept any number, and assemblers clamp (ptxas) or wrap it (rocdl.wait.asyncmark
40000 becomes -25536) without a word. Fewer groups in flight is always safe.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.session.diagnostics import LoweringError
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import Queue, given_count, row_of, set_count


def clamp_counts(root: Any, session: Session) -> None:
    """Lower every count above its queue's largest to that, with a remark (counter-limit).

    Raises LoweringError (negative-count) for a count below 0.
    """
    for op in walk(root):
        row = row_of(op)
        if row is None or row.wait is None or not isinstance(row.queue, Queue):
            continue
        count, largest = given_count(op), row.queue.largest_count
        if count is not None and count < 0:
            raise LoweringError(
                f"a wait for at most {count} groups in flight", code="negative-count", at=op
            )
        if count is None or largest is None or count <= largest:
            continue
        session.diagnostics.remark(
            f"queue {row.queue.name} can leave at most {largest} groups in flight, not {count}",
            code="counter-limit",
            at=op,
        )
        set_count(op, largest)
