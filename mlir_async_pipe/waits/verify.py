"""Judges counts that somebody else wrote on token waits; nothing is edited.

    given > exact   error  `unsafe`: some path leaves the awaited group in flight
    given < exact   remark `slack`: the wait blocks longer than it has to

A token wait without a count means 0, which is never unsafe; a count below 0 is an error.
"""

from __future__ import annotations

from mlir_async_pipe.flow.items import Item
from mlir_async_pipe.session.diagnostics import CountError, Place
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import given_count
from mlir_async_pipe.waits.count import Counted
from mlir_async_pipe.waits.records import WaitRecord
from mlir_async_pipe.waits.write_counts import describe, explain, largest_count

Notes = tuple[tuple[str, Place], ...]


def verify_counts(counted: list[Counted], session: Session) -> None:
    """Compare each given count with the exact one; errors are kept in the session."""
    for wait in counted:
        rule = wait.item.rule
        assert rule is not None
        given = given_count(wait.item.op) or 0
        largest = largest_count(wait.item.queue, rule)
        record = describe(wait, given, largest, session)
        session.record("waits", record)
        if record.exact is None or given < 0:
            continue
        if given > max(0, record.exact):
            session.diagnostics.error(_unsafe(record, given, _path(wait)))
        elif given < record.count:
            session.diagnostics.remark(
                f"{given} groups may stay in flight after this wait, but {record.count} "
                "would be safe",
                code="slack",
                at=record.place,
                notes=_path(wait),
            )


def refuse_negative_counts(waits: list[Item], session: Session) -> None:
    """Keep an error for each of the waits that is given a count below 0, which no target has."""
    for item in waits:
        given = given_count(item.op)
        if given is not None and given < 0:
            session.diagnostics.error(
                CountError(
                    f"a wait cannot leave {given} groups in flight",
                    code="negative-count",
                    at=item.op,
                    advice="0 waits for all groups",
                )
            )


def _path(wait: Counted) -> Notes:
    return tuple((step.what, step.place) for step in explain(wait)[1])


def _unsafe(record: WaitRecord, given: int, path: Notes) -> CountError:
    return CountError(
        f"the wait lets {given} groups stay in flight, but on some path only {max(0, record.exact or 0)} are "
        "younger than the one it waits for",
        code="unsafe",
        at=record.place,
        notes=path,
        advice=f"write {record.count}",
    )
