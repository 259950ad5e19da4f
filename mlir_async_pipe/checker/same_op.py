"""Whether threads that copy to one place with one op copy the same there.

    copy %A[%i + %row] -> %s[%row]      threads with one %row copy one element: harmless
    copy %A[%tid] -> %s[%row]           they copy different ones: which arrives is chance

Of stores nothing is known about the value: two threads that store to one place with one op
race, whatever they store.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings.raw_ops import defining_op
from mlir_async_pipe.checker.thread_ids import differs
from mlir_async_pipe.vocabulary import accesses
from mlir_async_pipe.vocabulary.operator_table import is_operator


def copies_the_same(op: Any, frame: int) -> bool:
    """Whether an async copy reads where it writes, but for a distance that all threads share."""
    found = accesses(op)
    writes = [access for access in found if access.writes]
    reads = [access for access in found if not access.writes]
    if len(writes) != 1 or not reads:
        return False
    places = list(writes[0].indices)
    return all(
        not differs(access.memory, frame)
        and all(_follows(index, places, frame) for index in access.indices)
        for access in reads
    )


def _follows(index: Any, places: list[Any], frame: int) -> bool:
    """Whether an index is one of `places` plus what all threads share, or that alone."""
    if index in places or not differs(index, frame):
        return True
    op = defining_op(index)
    if op is None or not is_operator(op.name, "add"):
        return False
    one, other = op.operands
    return (_follows(one, places, frame) and not differs(other, frame)) or (
        _follows(other, places, frame) and not differs(one, frame)
    )
