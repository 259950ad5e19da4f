"""Writes counts on waits, within what the target can express, and records each of them."""

from __future__ import annotations

import dataclasses
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import integer_attribute
from mlir_async_pipe.facts.flow.flow_graph import Item
from mlir_async_pipe.session.diagnostics import Place
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import Queue, WaitRule, row_of, set_count
from mlir_async_pipe.waits.count import Counted
from mlir_async_pipe.waits.witness_paths import WaitRecord, WitnessStep


def write_counts(
    counted: list[Counted], keep_given: bool, covering_others: set[Item], session: Session
) -> list[tuple[Item, WaitRecord]]:
    """Write the counts (with `keep_given` new ones only), but no larger ones on waits that cover others; what is written."""
    written: list[tuple[Item, WaitRecord]] = []
    for wait in counted:
        item, rule = wait.item, wait.item.rule
        assert rule is not None
        given = integer_attribute(item.op, rule.count)
        if keep_given and given is not None:
            continue
        record = describe(wait, given, session)
        if given is not None and 0 <= given < record.count and item in covering_others:
            session.record("waits", dataclasses.replace(record, count=given))
        else:
            written.append((item, write_record(item, record, session)))
    return written


def write_record(item: Item, record: WaitRecord, session: Session) -> WaitRecord:
    """Write the count of a record, within what the target can express, and keep the record."""
    assert item.rule is not None
    largest = largest_count(item.queue, item.rule)
    count = record.exact or 0
    if count > largest:
        said = f"{count} groups may stay in flight, but the wait can express at most {largest}"
        session.diagnostics.remark(said, code="count-clamped", at=record.place)
        record = dataclasses.replace(record, count=largest)
    set_count(item.op, record.count)
    if session.explain:
        reason = ir.StringAttr.get(record.reason, item.op.context)
        item.op.attributes["async_pipe.reason"] = reason
    session.record("waits", record)
    return record


def describe(wait: Counted, given: int | None, session: Session) -> WaitRecord:
    """The record of a wait, with as large a count as it can express."""
    item, count = wait.item, wait.count
    assert item.rule is not None
    largest = largest_count(item.queue, item.rule)
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


def wait_rule(op: Any) -> WaitRule:
    rule = row_of(op).wait
    assert rule is not None
    return rule


def largest_count(queue: Queue | None, rule: WaitRule) -> int:
    """The largest N that the wait can express: what its queue tracks, what its bits hold."""
    representable = (1 << (rule.count_bits - 1)) - 1
    if queue is None or queue.largest_count is None:
        return representable
    return min(representable, queue.largest_count)
