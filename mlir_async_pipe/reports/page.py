"""A report as HTML for people: one line on top, each loop, the waits, what was refused, the code.

`page` is a whole page that needs no other file and no network, `fragment` what a notebook shows.
Records that have no section of their own are tables at the end, so a pass adds a table by
recording a new dataclass.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlir_async_pipe.checker.hazards import verdict
from mlir_async_pipe.reports.loop_section import LoopSection
from mlir_async_pipe.reports.markup import PAGE_STYLE, STYLE, Paper, Sources, escape, size, table
from mlir_async_pipe.session.diagnostics import count
from mlir_async_pipe.session.report import Report
from mlir_async_pipe.waits.witness_paths import FEW

# Title, header and rows.
Table = tuple[str, list[str], list[list[str]]]
_NO_TABLES = ("diagnostics", "outlines", "timelines")


def text(report: Report) -> str:
    """A report in words: the line on top, the parts of each pipelined loop, and what was said of the input."""
    lines = [summary(report).text]
    for outline in report.of("outlines"):
        role = f": {outline.title}" if outline.title else ""
        lines.append(f"  loop at line {outline.place.line}{role}")
        lines += [f"    {part:9} {outline.contents(part)}" for part in outline.parts]
    return "\n".join([*lines, *map(str, report.diagnostics)])


def page(reports: Sequence[Report], sources: Sources | None = None) -> str:
    """A page of one report a part of the input; `sources` are the lines of its files."""
    parts = [
        '<!doctype html>\n<html lang="en"><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>async-pipe report</title><style>{PAGE_STYLE}</style>",
        "<h1 style='font-size:1.35rem'>async-pipe report</h1>",
    ]
    for number, report in enumerate(reports, start=1):
        if len(reports) > 1:
            parts.append(f"<h2>Part {number}</h2>")
        parts.append(fragment(report, sources))
    return "\n".join(parts) + "\n</html>\n"


def fragment(report: Report, sources: Sources | None = None) -> str:
    """One report as HTML with its style; files that can be read are shown where `sources` does not have them."""
    known = {**_readable(report), **(sources or {})}
    key = hashlib.sha256(repr(report).encode()).hexdigest()[:8]
    paper = Paper(known, f"ap{key}", set())
    described = summary(report)
    parts = [
        f'<div class="apr"><style>{STYLE}</style>',
        f'<p class="sum {described.state}">{escape(described.text)}</p>',
        _refused(report),
    ]
    waits = report.of("waits")
    for number, loop in enumerate(report.of("loops"), start=1):
        outlines = [outline for outline in report.of("outlines") if outline.place == loop.place]
        extra = next((e for e in report.of("extra_stages") if e.place == loop.place), None)
        section = LoopSection(number, loop, outlines, waits, report.of("roles"), extra, paper)
        parts.append(section.html())
    parts += [
        _waits(report, paper),
        _hazards(report, paper),
        _code(report),
        _timelines(report),
        _records(report),
        "</div>",
    ]
    return "\n".join(part for part in parts if part)


def _readable(report: Report) -> dict[str, list[str]]:
    files = {record.place.file for record in (*report.of("loops"), *report.of("waits"))}
    return {
        name: Path(name).read_text(encoding="utf-8", errors="replace").splitlines()
        for name in files
        if name and Path(name).is_file()
    }


def _refused(report: Report) -> str:
    """What was refused or is worth to know, each with what helps, and loops that nobody asked for."""
    rows = []
    for entry in report.diagnostics:
        notes = "".join(
            f"<li>{escape(note.message)} <span class=dim>{escape(_where(note.place))}</span></li>"
            for note in entry.notes
        )
        rows.append(
            f'<li><span class="badge {entry.severity}">{entry.severity}</span> '
            f"{escape(entry.message)} <code>[{escape(entry.code)}]</code> "
            f"<span class=dim>{escape(_where(entry.place))}</span><ul>{notes}</ul></li>"
        )
    if not rows:
        return ""
    serious = any(entry.severity in ("error", "warning") for entry in report.diagnostics)
    wrong = "What is wrong" if report.of("hazards") else "What was refused"
    title = f"{wrong}, and what helps" if serious else "Remarks"
    return f"<h2>{title}</h2><ul>{''.join(rows)}</ul>"


def _where(place: Any) -> str:
    return str(place) if place.line else ""


def _code(report: Report) -> str:
    """The kernels of the emitted code, with what they take."""
    rows = []
    for kernel in report.of("kernels"):
        fields = {**_plain(kernel), **_plain(getattr(kernel, "resources", None))}
        numbers = [(name, n) for name, n in fields.items() if n and type(n) is int]
        described = [
            f"{size(n) if name.endswith('_bytes') else n} {name.removesuffix('_bytes').replace('_', ' ')}"
            for name, n in numbers
        ]
        rows.append([f"<code>{escape(kernel.name)}</code>", escape(", ".join(described))])
    return "<h2>Code</h2>" + table(["kernel", "takes"], rows) if rows else ""


def _plain(record: Any) -> dict[str, Any]:
    return {} if record is None else dict(vars(record))


def _timelines(report: Report) -> str:
    parts = []
    for drawn in report.of("timelines"):
        described = f"<p>{escape(drawn.summary)}</p>"
        parts.append(f'<h2>Time line of a run</h2>{described}<div class="wide">{drawn.svg}</div>')
    return "".join(parts)


def _records(report: Report) -> str:
    """Every record as it is, behind a click."""
    parts = []
    for title, header, rows in record_tables(report):
        cells = [[escape(cell) for cell in row] for row in rows]
        parts.append(f"<h3>{escape(title)}</h3>{table(header, cells)}")
    if not parts:
        return ""
    described = count(len(parts), "table")
    return f"<h2>Records</h2><details><summary>{described}</summary>{''.join(parts)}</details>"


def record_tables(report: Report) -> list[Table]:
    """Title, header and rows of each kind of record: every record is a row, and every field that
    holds one value a column. Records in a field make a table of their own, `loops: buffers`."""
    found = []
    for kind, entries in report.to_json().items():
        if entries and kind not in _NO_TABLES:
            rows = [entry if isinstance(entry, dict) else {"": entry} for entry in entries]
            found += _tables_of(kind, rows)
    return found


def _tables_of(kind: str, rows: list[dict[str, Any]]) -> list[Table]:
    keys = dict.fromkeys(key for row in rows for key in row)
    nested = [key for key in keys if any(_holds_records(row.get(key)) for row in rows)]
    header = [key for key in keys if key not in nested]
    found = [(kind, header, [[_cell(row.get(key)) for key in header] for row in rows])]
    places = [_cell(row.get("place")) for row in rows]
    known = len(set(places)) == len(places)
    for key in nested:
        inner = [
            {"of": place if known else f"row {number}", **entry}
            for number, (row, place) in enumerate(zip(rows, places, strict=True), start=1)
            for entry in row.get(key) or ()
        ]
        found += _tables_of(f"{kind}: {key}", inner)
    return found


def _holds_records(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(entry, dict) for entry in value)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dict):
        return " ".join(f"{key}={_cell(entry)}" for key, entry in value.items())
    if isinstance(value, list):
        return "; ".join(map(_cell, value))
    return value if isinstance(value, str) else json.dumps(value)


# Waits ---------------------------------------------------------------------------------------


def _waits(report: Report, paper: Paper) -> str:
    """A table of the waits that no outline shows."""
    shown = {e.record for outline in report.of("outlines") for e in outline.entries}
    rest = [record for number, record in enumerate(report.of("waits")) if number not in shown]
    title = "Waits outside of these pipelines" if report.of("outlines") else "Waits"
    header = ["wait", "groups that may stay", "of queue", "why"]
    rows = [_wait(record, paper) for record in rest]
    return f"<h2>{title}</h2>{table(header, rows, numbers=(1,))}" if rows else ""


def _wait(record: Any, paper: Paper) -> list[str]:
    few = f"{record.part}: " if record.part == FEW and record.why else ""
    why = escape(f"{few}{record.why}")
    if record.witness:
        why = f"<details><summary>{why}</summary>{paper.path(record.witness)}</details>"
    given = "" if record.given in (None, record.count) else f" (given: {record.given})"
    return [escape(str(record.place)), f"{record.count}{given}", escape(record.queue), why]


def _hazards(report: Report, paper: Paper) -> str:
    """A table of hazards and races."""
    header = ["access", "verdict", "other access", "what would do"]
    rows = [_hazard(record, paper) for record in report.of("hazards")]
    return f"<h2>Accesses that may race</h2>\n{table(header, rows)}" if rows else ""


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


@dataclass(frozen=True)
class PageSummary:
    """The line, and its state: "good" (proven), "bad" (refused, or it may race), "open"."""

    text: str
    state: str


def summary(report: Report) -> PageSummary:
    """1 loop pipelined in 3 stages · 48 KiB for versions · largest count 1 · proven: …"""
    loops, waits = report.of("loops"), report.of("waits")
    parts = []
    if loops:
        stages = sorted({loop.stages for loop in loops})
        described = " and ".join(map(str, stages)) + (" stage" if stages == [1] else " stages")
        extras = dict.fromkeys(map(str, report.of("extra_stages")))
        why = f" ({'; '.join(extras)})" if extras else ""
        parts.append(f"{count(len(loops), 'loop')} pipelined in {described}{why}")
        total = sum(buffer.bytes for loop in loops for buffer in loop.buffers)
        parts.append(
            f"{size(total)} for versions of buffers" if total else "no buffer has versions"
        )
    elif report.of("suggestions"):
        helped = [s for s in report.of("suggestions") if s.form]
        parts.append(f"{count(len(helped), 'loop')} could be pipelined")
    else:
        parts.append("no loop was pipelined")
    if waits:
        parts.append(f"largest count {max(wait.count for wait in waits)}")
    proof, state = verdict(report.of("checks"))
    errors = [entry for entry in report.diagnostics if entry.severity == "error"]
    if errors and state != "bad":
        proof, state = f"stopped by {count(len(errors), 'error')}", "bad"
    return PageSummary(" · ".join([*parts, proof]), state)
