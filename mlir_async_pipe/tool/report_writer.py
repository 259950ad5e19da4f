"""Writes reports as text, JSON or a page of HTML."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence

from mlir_async_pipe.reports.markup import Sources
from mlir_async_pipe.reports.page import page, record_tables
from mlir_async_pipe.session.report import Report
from mlir_async_pipe.tool import output
from mlir_async_pipe.tool.options import Options


def write(reports: Sequence[Report], options: Options, sources: Sources) -> None:
    """Write the reports, one for each part of the input, to the report file or stderr; a page shows
    the lines of `sources`."""
    if options.report == "html":
        text = page(reports, sources)
    else:
        text = _FORMATS[options.report](reports)
    if options.report_file == "-":
        sys.stderr.write(text)
    else:
        output.write(options.report_file, text.encode())


def as_json(reports: Sequence[Report]) -> str:
    """One object, or an array of them if there are several reports."""
    contents = [report.to_json() for report in reports]
    return json.dumps(contents[0] if len(contents) == 1 else contents, indent=1) + "\n"


def as_text(reports: Sequence[Report]) -> str:
    """Aligned tables of the records; the diagnostics are told as such."""
    lines: list[str] = []
    for title, header, rows in _tables(reports, ("diagnostics", "outlines", "timelines")):
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        lines.append(f"{title}:")
        for row in (header, *rows):
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            lines.append(("  " + "  ".join(cells)).rstrip())
    return "\n".join(lines or ["nothing to report"]) + "\n"


_FORMATS: dict[str, Callable[[Sequence[Report]], str]] = {"text": as_text, "json": as_json}


def _tables(
    reports: Sequence[Report], leave_out: Sequence[str]
) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Title, header and rows of each kind of record; parts of the input are numbered."""
    for number, report in enumerate(reports, start=1):
        part = f" (part {number})" if len(reports) > 1 else ""
        for kind, header, rows in record_tables(report, leave_out):
            yield kind + part, header, rows
