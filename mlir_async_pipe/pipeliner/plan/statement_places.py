"""Where the statements of a loop run: their stages and orders, and which complete later.

Read off the op form, or made up by a scheduler that tries schedules without editing the loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mlir_async_pipe.bindings.raw_ops import Operation, walk
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.facts.loops.statements import Body
from mlir_async_pipe.vocabulary import row_of
from mlir_async_pipe.vocabulary.control_flow import SCOPE


class SchedulePlace(NamedTuple):
    """Where an op runs: its stage (iterations of delay) and its order, of which smaller ones run earlier in the
    pipeline; `asynchronous`: it completes later than it is issued."""

    stage: int
    order: int
    asynchronous: bool = False


Schedule = Mapping[Operation, SchedulePlace]
"""Where each statement runs. Ops are keys, so no attribute of them may change while it is in use."""


def in_op_form(body: Body) -> Schedule:
    """The schedule that stands on the ops of a loop."""
    return {s.op: statement_place(s.op, s.number) for s in body.statements}


def statement_place(op: Operation, number: int) -> SchedulePlace:
    """Where the annotations put a statement; `number` is its order if it has none."""
    stage = names.stage_of(op)
    assert stage is not None
    order = names.order_of(op)
    return SchedulePlace(stage, number if order is None else order, is_async(op))


def is_async(op: Operation) -> bool:
    """Whether a statement completes later than it is issued."""
    return names.ASYNC in op.attributes or op.name == SCOPE or is_physical(op)


def is_physical(op: Operation) -> bool:
    """Whether the op is asynchronous by itself, without a scope around it."""
    return physical_copy(op) is not None


def physical_copy(op: Operation) -> Operation | None:
    """The first async copy that an op is, or leaves in flight after its regions.

    A guarded copy (`scf.if` around it) is committed after the region, whether or not the
    guard let it happen, so that every iteration has its group. What waits inside its own
    regions, like the kernel of an inner pipeline, leaves nothing to be committed.
    """
    asked = names.ASYNC in op.attributes
    if len(op.regions) == 0:
        return op if _is_copy_in_flight(op, asked) else None
    found = None
    for inner in walk(op):
        row = row_of(inner)
        if row.wait is not None or (row.asynchronous(inner) and len(inner.regions)):
            return None
        if found is None and _is_copy_in_flight(inner, asked):
            found = inner
    return found


def _is_copy_in_flight(op: Operation, asked: bool) -> bool:
    """Whether an op completes later by itself, or will when it is `asked` to: copies to LDS
    without their `async` get it."""
    row = row_of(op)
    return row.asynchronous(op) or (asked and bool(row.async_attribute))
