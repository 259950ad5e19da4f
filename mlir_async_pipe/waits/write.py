"""Writes counts on waits, within what the target can express, and records each of them."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.diagnostics import Place
from mlir_async_pipe.ir_helpers import integer_attribute
from mlir_async_pipe.report import Session
from mlir_async_pipe.vocabulary import Queue, WaitRule, row_of
from mlir_async_pipe.waits.count import Counted
from mlir_async_pipe.waits.flow_graph import Item
from mlir_async_pipe.waits.reasons import REASONS
from mlir_async_pipe.waits.records import Explanation, WaitRecord
from mlir_async_pipe.waits.witness import Witness


def write_counts(
    counted: list[Counted], keep_given: bool, session: Session
) -> list[tuple[Item, WaitRecord]]:
    """Write every count; with `keep_given` only where the input has none. Returns what was
    written where."""
    written: list[tuple[Item, WaitRecord]] = []
    for wait in counted:
        rule = wait_rule(wait.item.op)
        given = integer_attribute(wait.item.op, rule.count)
        if keep_given and given is not None:
            continue
        largest = largest_count(wait.item.queue, rule)
        record = describe(wait, given, largest)
        if wait.count is not None and wait.count > largest:
            _say_clamped(record, wait.count, largest, session)
        _write(wait.item, record, session)
        written.append((wait.item, record))
    return written


def write_record(item: Item, record: WaitRecord, session: Session) -> WaitRecord:
    """Write the count of a record, within what the target can express, and keep the record."""
    largest = largest_count(item.queue, wait_rule(item.op))
    if record.count > largest:
        _say_clamped(record, record.count, largest, session)
        record = dataclasses.replace(record, count=largest)
    _write(item, record, session)
    return record


def _write(item: Item, record: WaitRecord, session: Session) -> None:
    set_count(item.op, wait_rule(item.op), record.count)
    _explain(record, item, session)
    session.record("waits", record)


def describe(wait: Counted, given: int | None, largest: int) -> WaitRecord:
    """The record of a wait that can express counts up to `largest`."""
    queue = wait.item.queue
    return WaitRecord.explained_later(
        Place.of(wait.item.op),
        "" if queue is None else queue.name,
        min(largest, max(0, wait.count or 0)),
        None if wait.count is None else max(-1, wait.count),
        given,
        partial(explain, wait),
    )


def explain(wait: Counted) -> Explanation:
    """Why a count is what it is, and the path that attains it."""
    if wait.solution is None:
        return "dynamic-queue", ()
    if wait.count is None:
        return "unreachable", ()
    witness = Witness(wait.solution, wait.item)
    reason = witness.reason
    if wait.count < 0:
        if reason in ("exact", "newest-group"):
            reason = "uncommitted-copy"
    elif wait.limited:
        reason = "correlation-limit"
    return reason, witness.steps


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


def _say_clamped(record: WaitRecord, count: int, largest: int, session: Session) -> None:
    session.diagnostics.remark(
        f"{count} groups may stay in flight, but the wait can express at most {largest}",
        code="count-clamped",
        at=record.place,
    )
