"""Pass `async-pipe-count-waits`: exact counts for waits that name their groups by tokens.

    nvgpu.device_async_wait %t  -->  nvgpu.device_async_wait %t {numGroups = 1 : i32}

The count is the least number of groups committed after the one that the token denotes, over
all paths to the wait. One more would leave that group in flight on some path. With `check` the counts
that somebody else wrote are judged, and nothing is edited:

    given > exact   error  `unsafe`: some path leaves the awaited group in flight
    given < exact   remark `slack`: the wait blocks longer than it has to

A token wait without a count means 0, which is never unsafe; a count below 0 is an error.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import integer_attribute
from mlir_async_pipe.chips.target import ChipOptions, target_for
from mlir_async_pipe.facts.flow.flow_graph import Item
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import CountError, Place
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import given_count, set_count
from mlir_async_pipe.waits.consumers import check_depths, consumer_records, takes_next
from mlir_async_pipe.waits.count import Counted, TokenWaits, largest_count, wait_rule
from mlir_async_pipe.waits.dynamic import (
    make_counts_constant,
    switch_on_counters,
    waits_with_count_operands,
)
from mlir_async_pipe.waits.witness_paths import WaitRecord, WitnessStep


@dataclass(frozen=True)
class CountWaitsOptions(ChipOptions):
    """Options of `async-pipe-count-waits`: those of `mlir_async_pipe.count_waits`."""

    check: bool = False
    mode: str = field(default="static", metadata={"choices": ("static", "dynamic")})
    keep_given: bool = False


@passes.register(
    "async-pipe-count-waits",
    "give each token wait its exact count of groups in flight",
    CountWaitsOptions,
)
def count_waits(module_op: Any, options: CountWaitsOptions, session: Session) -> None:
    """Count the token waits of a module, and write the counts (or check the given ones).

    Raises CountError for a wait on something that is no token; nothing is written then.
    """
    target = target_for(options, session)
    if options.mode == "dynamic" or session.explain:
        # Both go by the reasons of the counts, which witnesses give.
        session = dataclasses.replace(session, witnesses=True)
    analysis = TokenWaits(module_op.operation, target)
    counted = analysis.count(session.witnesses or options.check)
    with_operands = waits_with_count_operands(analysis.with_numbers)
    taken = consumer_records(analysis, session)
    check_depths(analysis, session)
    stays = options.check or options.keep_given
    # Others get counts of ours.
    given = [
        item for item in analysis.graph.waits if stays or not (item.operands or takes_next(item))
    ]
    refuse_negative_counts(given, session)
    if options.check:
        verify_counts(counted, session)
        return
    make_counts_constant(with_operands, session)
    written = write_counts(counted, options.keep_given, _covering_others(analysis), session)
    for item, record in taken:
        if not (options.keep_given and record.given is not None):
            write_record(item, record, session)
    if options.mode == "dynamic":
        switch_on_counters(analysis, written, session)
    analysis.graph.take_apart()


def _covering_others(analysis: TokenWaits) -> set[Item]:
    """The waits of functions that commit a group to their queue which no wait names by its token."""
    graph = analysis.graph
    unnamed = {(graph.root_of(item), item.queue) for item in graph.commits if not item.results}
    return {wait for wait in analysis.waits if (graph.root_of(wait), wait.queue) in unnamed}


# -- counts that are written ------------------------------------------------------------------------------


def write_counts(
    counted: list[Counted], keep_given: bool, covering_others: set[Item], session: Session
) -> list[tuple[Item, WaitRecord]]:
    """Write the counts (with `keep_given` new ones only), but no larger ones on waits that cover others; what is written."""
    written: list[tuple[Item, WaitRecord]] = []
    for wait in counted:
        item = wait.item
        given = integer_attribute(item.op, wait_rule(item.op).count)
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
    largest = largest_count(item.queue, item.op)
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
    largest = largest_count(item.queue, item.op)
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


# -- counts that are given -------------------------------------------------------------------------------


def verify_counts(counted: list[Counted], session: Session) -> None:
    """Compare each given count with the exact one; errors are kept in the session."""
    for wait in counted:
        given = given_count(wait.item.op) or 0
        record = describe(wait, given, session)
        session.record("waits", record)
        if record.exact is None or given < 0 or given == record.count:
            continue
        path = tuple((step.what, step.place) for step in explain(wait)[1])
        younger = max(0, record.exact)
        if given > younger:
            error = CountError(
                f"the wait lets {given} groups stay in flight, but on some path only {younger} are "
                "younger than the one it waits for",
                code="unsafe",
                at=record.place,
                notes=path,
                advice=f"write {record.count}",
            )
            session.diagnostics.error(error)
        elif given < record.count:
            said = f"{given} groups may stay in flight after this wait, but {record.count} would be safe"
            session.diagnostics.remark(said, code="slack", at=record.place, notes=path)


def refuse_negative_counts(waits: list[Item], session: Session) -> None:
    """Keep an error for each of the waits that is given a count below 0, which no target has."""
    for item in waits:
        given = given_count(item.op)
        if given is not None and given < 0:
            why, advice = f"a wait cannot leave {given} groups in flight", "0 waits for all groups"
            error = CountError(why, code="negative-count", at=item.op, advice=advice)
            session.diagnostics.error(error)
