"""Writes counts on waits, within what the target can express, and records each of them."""

from __future__ import annotations

import dataclasses
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.diagnostics import Place
from mlir_async_pipe.ir_helpers import integer_attribute
from mlir_async_pipe.report import Session
from mlir_async_pipe.vocabulary import Queue, WaitRule, row_of
from mlir_async_pipe.waits.count import Counted
from mlir_async_pipe.waits.flow_graph import Item
from mlir_async_pipe.waits.reasons import REASONS
from mlir_async_pipe.waits.records import WaitRecord, WitnessStep
from mlir_async_pipe.waits.witness import Witness


def write_counts(
    counted: list[Counted], keep_given: bool, session: Session
) -> list[tuple[Item, WaitRecord]]:
    """Write every count; with `keep_given` only where the input has none. Returns what was
    written where."""
    written: list[tuple[Item, WaitRecord]] = []
    places: dict[Any, Place] = {}
    for wait in counted:
        rule = wait_rule(wait.item.op)
        given = integer_attribute(wait.item.op, rule.count)
        if keep_given and given is not None:
            continue
        record = write_record(wait.item, describe(wait, given, places), session)
        written.append((wait.item, record))
    return written


def write_record(item: Item, record: WaitRecord, session: Session) -> WaitRecord:
    """Write the count of a record, within what the target can express, and keep the record."""
    rule = wait_rule(item.op)
    if record.count > largest_count(item.queue, rule):
        record = _clamped(record, item, rule, session)
    set_count(item.op, rule, record.count)
    _explain(record, item, session)
    session.record("waits", record)
    return record


def describe(wait: Counted, given: int | None, places: dict[Any, Place]) -> WaitRecord:
    """The record of a wait before the target's limits; `places` caches the places of ops."""
    reason = "unreachable"
    steps: tuple[WitnessStep, ...] = ()
    exact = wait.count
    if wait.solution is None:
        reason = "dynamic-queue"
    elif wait.count is not None:
        witness = Witness(wait.solution, wait.item, places)
        reason, steps = witness.reason, witness.steps
        if wait.count < 0:
            exact = -1
            if reason in ("exact", "newest-group"):
                reason = "uncommitted-copy"
        elif wait.limited:
            reason = "correlation-limit"
    queue = wait.item.queue
    return WaitRecord(
        Place.of(wait.item.op),
        "" if queue is None else queue.name,
        max(0, exact or 0),
        exact,
        given,
        reason,
        steps,
    )


def _explain(record: WaitRecord, item: Item, session: Session) -> None:
    """With --explain: the reason on the wait, and a remark with the witness as notes."""
    if not session.explain:
        return
    op = item.op
    op.attributes["async_pipe.reason"] = ir.StringAttr.get(record.reason, op.context)
    reason = REASONS[record.reason]
    remedy = f"; to raise it: {reason.remedy}" if reason.remedy else ""
    session.diagnostics.remark(
        f"{record.count} groups of {record.queue or 'its queue'} may stay in flight: "
        f"{reason.meaning}{remedy}",
        code=record.reason,
        at=record.place,
        notes=tuple((step.what, step.place) for step in record.witness),
    )


def wait_rule(op: Any) -> WaitRule:
    """How the wait `op` waits, by the vocabulary."""
    row = row_of(op)
    assert row is not None and row.wait is not None
    return row.wait


def set_count(op: Any, rule: WaitRule, count: int) -> None:
    """Write N on a wait, in the attribute and width of its row."""
    kind = ir.IntegerType.get_signless(rule.count_bits, op.context)
    op.attributes[rule.count] = ir.IntegerAttr.get(kind, count)


def largest_count(queue: Queue | None, rule: WaitRule) -> int:
    """The largest N that the wait can express: what its queue tracks, what its bits hold."""
    representable = (1 << (rule.count_bits - 1)) - 1
    if queue is None or queue.largest_count is None:
        return representable
    return min(representable, queue.largest_count)


def _clamped(record: WaitRecord, item: Item, rule: WaitRule, session: Session) -> WaitRecord:
    largest = largest_count(item.queue, rule)
    session.diagnostics.remark(
        f"{record.count} groups may stay in flight, but the wait can express at most {largest}",
        code="count-clamped",
        at=record.place,
    )
    return dataclasses.replace(record, count=largest)
