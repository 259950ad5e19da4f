"""The waits of a report that stand in no pipeline of ours, as in kernels that were written by hand,
and the accesses that may race."""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.reports.markup import Paper, count, escape, table
from mlir_async_pipe.session.report import Report
from mlir_async_pipe.waits.reasons import REASONS


def wait_section(report: Report, paper: Paper) -> str:
    """A table of the waits that no outline shows, and one of hazards and races."""
    shown = {e.record for outline in report.of("outlines") for e in outline.entries}
    rest = [record for number, record in enumerate(report.of("waits")) if number not in shown]
    title = "Waits outside of these pipelines" if report.of("outlines") else "Waits"
    parts = []
    if rest:
        rows = [_row(record, paper) for record in rest]
        header = ["wait", "groups that may stay", "of queue", "why"]
        parts.append(f"<h2>{title}</h2>" + table(header, rows, numbers=(1,)))
    if report.of("hazards"):
        rows = [_hazard(record, paper) for record in report.of("hazards")]
        parts.append("<h2>Accesses that may race</h2>")
        parts.append(table(["access", "verdict", "other access", "what would do"], rows))
    return "\n".join(parts)


def _row(record: Any, paper: Paper) -> list[str]:
    reason = REASONS.get(record.reason)
    why = "" if reason is None else escape(reason.meaning)
    if reason is not None and reason.remedy:
        why += f"; to raise it: {escape(reason.remedy)}"
    if record.witness:
        steps = "".join(
            f"<li>{escape(step.what)} {paper.link(step.place)}</li>" for step in record.witness
        )
        why = f"<details><summary>{why}</summary><ol>{steps}</ol></details>"
    given = "" if record.given in (None, record.count) else f" (given: {record.given})"
    return [escape(str(record.place)), f"{record.count}{given}", escape(record.queue), why]


def _hazard(record: Any, paper: Paper) -> list[str]:
    if record.count is not None:
        helps = f"a wait that leaves {count(record.count, 'group')}"
        if record.wait_place is not None:
            helps += f", {paper.link(record.wait_place)}"
    else:
        helps = escape(record.reason) or "a barrier between them"
    return [
        f"<code>{escape(record.op)}</code> {escape(str(record.place))}",
        f"{escape(record.verdict)} <code>[{escape(record.code)}]</code>",
        f"<code>{escape(record.other_op)}</code> {escape(str(record.other_place))}",
        helps,
    ]
