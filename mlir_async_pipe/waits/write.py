"""Writes counts on waits, within what the target can express, and records each of them."""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.diagnostics import Place
from mlir_async_pipe.ir_helpers import integer_attribute
from mlir_async_pipe.report import Session
from mlir_async_pipe.vocabulary import Queue, WaitRule, row_of
from mlir_async_pipe.waits.count import Counted
from mlir_async_pipe.waits.records import WaitRecord


def write_counts(counted: list[Counted], keep_given: bool, session: Session) -> None:
    """Write every count; with `keep_given` only where the input has none."""
    for wait in counted:
        rule = wait_rule(wait.item.op)
        given = integer_attribute(wait.item.op, rule.count)
        if keep_given and given is not None:
            continue
        written = _within_range(wait, rule, session)
        set_count(wait.item.op, rule, written)
        session.record("waits", _record(wait, written, given))


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


def _within_range(wait: Counted, rule: WaitRule, session: Session) -> int:
    exact = max(0, wait.count or 0)
    largest = largest_count(wait.item.queue, rule)
    if exact > largest:
        session.diagnostics.remark(
            f"{exact} groups may stay in flight, but the wait can express at most {largest}",
            code="count-clamped",
            at=wait.item.op,
        )
    return min(exact, largest)


def _record(wait: Counted, written: int, given: int | None) -> WaitRecord:
    queue = wait.item.queue
    return WaitRecord(
        Place.of(wait.item.op),
        "" if queue is None else queue.name,
        written,
        wait.count,
        given,
        "exact" if wait.count is not None else "unreachable",
    )
