"""Writes reports as text, JSON or a page of HTML.

A report has records by kind; every record is a row and every field that holds one value a
column, so a pass adds a table by recording a new dataclass.
"""

from __future__ import annotations

import html
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mlir_async_pipe.session.report import Report
from mlir_async_pipe.tool import output
from mlir_async_pipe.tool.options import Options

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
table { border-collapse: collapse; margin: 0 0 2rem; }
th, td { border-bottom: 1px solid #8884; padding: .3rem .8rem; text-align: left; vertical-align: top; }
@media (prefers-color-scheme: dark) { body { background: #111; color: #eee; } }
"""


def write(reports: Sequence[Report], options: Options) -> None:
    """Write the reports, one for each part of the input, to the report file or stderr."""
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
    for title, header, rows in _tables(reports, leave_out="diagnostics"):
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        lines.append(f"{title}:")
        for row in (header, *rows):
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            lines.append(("  " + "  ".join(cells)).rstrip())
    return "\n".join(lines or ["nothing to report"]) + "\n"


def as_html(reports: Sequence[Report]) -> str:
    """A page that needs no other file."""
    parts = [
        "<!doctype html>\n<html lang=en><meta charset=utf-8><title>async-pipe report</title>",
        f"<style>{_STYLE}</style>\n<h1>async-pipe report</h1>",
    ]
    for title, header, rows in _tables(reports):
        parts.append(f"<h2>{html.escape(title)}</h2>\n<table>{_row('th', header)}")
        parts += [_row("td", row) for row in rows]
        parts.append("</table>")
    if len(parts) == 2:
        parts.append("<p>Nothing to report.</p>")
    return "\n".join(parts) + "\n</html>\n"


_FORMATS: dict[str, Callable[[Sequence[Report]], str]] = {
    "text": as_text,
    "json": as_json,
    "html": as_html,
}


def _row(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"


def _tables(
    reports: Sequence[Report], leave_out: str = ""
) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Title, header and rows of each kind of record; parts of the input are numbered."""
    for number, report in enumerate(reports, start=1):
        part = f" (part {number})" if len(reports) > 1 else ""
        for kind, entries in report.to_json().items():
            if not entries or kind == leave_out:
                continue
            rows = [entry if isinstance(entry, dict) else {"": entry} for entry in entries]
            header = list(dict.fromkeys(key for row in rows for key in row))
            yield kind + part, header, [[_cell(row.get(key)) for key in header] for row in rows]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dict) and {"file", "line", "column"} == value.keys():
        return f"{value['file']}:{value['line']}:{value['column']}" if value["line"] else ""
    if isinstance(value, dict):
        return " ".join(f"{key}={_cell(entry)}" for key, entry in value.items())
    if isinstance(value, list):
        return "; ".join(map(_cell, value))
    return value if isinstance(value, str) else json.dumps(value)
