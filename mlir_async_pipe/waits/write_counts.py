"""Writes counts on waits, within what the target can express, and records each of them."""

from __future__ import annotations

import dataclasses
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import integer_attribute
from mlir_async_pipe.facts.flow.items import Item
from mlir_async_pipe.session.diagnostics import Place
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import Queue, WaitRule, row_of, set_count
from mlir_async_pipe.waits.count import Counted
from mlir_async_pipe.waits.witness_paths import WaitRecord, WitnessStep


def write_counts(
    counted: list[Counted], keep_given: bool, covering_others: set[Item], session: Session
) -> list[tuple[Item, WaitRecord]]:
    """Write every count; with `keep_given` only where the input has none. What is given is not raised
    on waits that may be for other groups too. Returns what was written where."""
    written: list[tuple[Item, WaitRecord]] = []
    attributes = CountAttributes()
    last: tuple[Queue | None, WaitRule | None] = None, None
    largest = 0
    for wait in counted:
        item = wait.item
        op, rule, queue = item.op, item.rule, item.queue
        assert rule is not None
        if queue is not last[0] or rule is not last[1]:
            largest, last = largest_count(queue, rule), (queue, rule)
        given = integer_attribute(op, rule.count)
        if keep_given and given is not None:
            continue
        record = describe(wait, given, largest, session)
        if given is not None and 0 <= given < record.count and item in covering_others:
            session.record("waits", dataclasses.replace(record, count=given))
            continue
        if wait.count is not None and wait.count > largest:
            _say_clamped(record, wait.count, largest, session)
        op.attributes[rule.count] = attributes.of(op, rule, record.count)
        if session.explain:
            _leave_reason(op, record)
        session.record("waits", record)
        written.append((item, record))
    return written


def write_record(item: Item, record: WaitRecord, session: Session) -> WaitRecord:
    """Write the count of a record, within what the target can express, and keep the record."""
    assert item.rule is not None
    largest = largest_count(item.queue, item.rule)
    if record.count > largest:
        _say_clamped(record, record.count, largest, session)
        record = dataclasses.replace(record, count=largest)
    set_count(item.op, record.count)
    if session.explain:
        _leave_reason(item.op, record)
    session.record("waits", record)
    return record


def describe(wait: Counted, given: int | None, largest: int, session: Session) -> WaitRecord:
    """The record of a wait that can express counts up to `largest`."""
    item, count = wait.item, wait.count
    return WaitRecord(
        Place.at(item.op.location),
        "" if item.queue is None else item.queue.name,
        min(largest, max(0, int(count or 0))),
        None if count is None else max(-1, int(count)),
        given,
        *(explain(wait) if session.witnesses else ()),
    )


def explain(wait: Counted) -> tuple[str, tuple[WitnessStep, ...]]:
    """Why a count is what it is, and the path that attains it."""
    if wait.solution is None:
        return "dynamic-queue", ()
    if wait.count is None:
        return "unreachable", ()
    reason, steps = wait.solution.witness(wait.item)
    if wait.count < 0:
        if reason in ("exact", "newest-group"):
            reason = "uncommitted-copy"
    elif wait.limited:
        reason = "correlation-limit"
    return reason, steps


def _leave_reason(op: Any, record: WaitRecord) -> None:
    op.attributes["async_pipe.reason"] = ir.StringAttr.get(record.reason, op.context)


def wait_rule(op: Any) -> WaitRule:
    row = row_of(op)
    assert row.wait is not None
    return row.wait


def largest_count(queue: Queue | None, rule: WaitRule) -> int:
    """The largest N that the wait can express: what its queue tracks, what its bits hold."""
    representable = (1 << (rule.count_bits - 1)) - 1
    if queue is None or queue.largest_count is None:
        return representable
    return min(representable, queue.largest_count)


class CountAttributes:
    """The integer attributes of counts, each made once."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, int], Any] = {}

    def of(self, op: Any, rule: WaitRule, count: int) -> Any:
        """The attribute for N on a wait, in the width of its row."""
        key = (rule.count_bits, count)
        found = self._made.get(key)
        if found is None:
            kind = ir.IntegerType.get_signless(rule.count_bits, op.context)
            found = self._made[key] = ir.IntegerAttr.get(kind, count)
        return found


def _say_clamped(record: WaitRecord, count: int, largest: int, session: Session) -> None:
    session.diagnostics.remark(
        f"{count} groups may stay in flight, but the wait can express at most {largest}",
        code="count-clamped",
        at=record.place,
    )
