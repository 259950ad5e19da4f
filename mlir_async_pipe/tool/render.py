"""Writes diagnostics for people (with the source line and a caret) and for machines.

gemm.mlir:14:5: error: cannot pipeline: … [unproven-independence]
    memref.store %v, %m[%i] : memref<8xf32>
    ^
gemm.mlir:17:10: note: the load that it may overwrite
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mlir_async_pipe.session.diagnostics import Diagnostic, Place

# Stands before what has no place in a file.
TOOL = "async-pipe-opt"


def as_text(diagnostic: Diagnostic, lines: Mapping[str, Sequence[str]], program: str = TOOL) -> str:
    """One diagnostic and its notes; `lines` are the source lines of each file, `program` is named
    where there is no place."""
    parts = [_line(diagnostic.place, diagnostic.severity, message_of(diagnostic), lines, program)]
    for note in diagnostic.notes:
        # The same line need not be shown twice.
        excerpts = {} if note.place == diagnostic.place else lines
        parts.append(_line(note.place, "note", note.message, excerpts, program))
    return "\n".join(parts) + "\n"


def message_of(diagnostic: Diagnostic) -> str:
    """The sentence with its reason code in brackets."""
    return f"{diagnostic.message} [{diagnostic.code}]" if diagnostic.code else diagnostic.message


def as_json(diagnostics: Iterable[Diagnostic]) -> str:
    """A JSON array, see Diagnostic.to_json."""
    return json.dumps([diagnostic.to_json() for diagnostic in diagnostics], indent=1) + "\n"


def as_github(diagnostic: Diagnostic) -> str:
    """A workflow command of GitHub Actions, which shows it at the line of a pull request."""
    level = {"error": "error", "warning": "warning"}.get(diagnostic.severity, "notice")
    place = diagnostic.place
    fields = [("file", place.file)] if place.file else []
    if place.line:
        fields += [("line", str(place.line)), ("col", str(place.column))]
    fields.append(("title", diagnostic.code or "mlir"))
    properties = ",".join(f"{key}={_escaped(value, ',:')}" for key, value in fields)
    notes = (f"{note.place}: note: {note.message}" for note in diagnostic.notes)
    text = "\n".join([message_of(diagnostic), *notes])
    return f"::{level} {properties}::{_escaped(text)}\n"


def as_sarif(diagnostics: Iterable[Diagnostic], version: str) -> str:
    """A SARIF 2.1.0 log with one run."""
    results = [_sarif_result(diagnostic) for diagnostic in diagnostics]
    rules = sorted({result["ruleId"] for result in results})
    driver = {"name": TOOL, "version": version, "rules": [{"id": rule} for rule in rules]}
    log = {
        "version": "2.1.0",
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
    return json.dumps(log, indent=1) + "\n"


def _line(
    place: Place, severity: str, message: str, lines: Mapping[str, Sequence[str]], program: str
) -> str:
    source = lines.get(place.file, ())
    head = f"{place if place.line else place.file or program}: {severity}: {message}"
    if not 1 <= place.line <= len(source):
        return head
    shown = source[place.line - 1].replace("\t", " ")
    caret = " " * (max(place.column, 1) - 1) + "^"
    return f"{head}\n{shown}\n{caret}"


def _escaped(text: str, more: str = "") -> str:
    for character in "%\r\n" + more:
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def _sarif_result(diagnostic: Diagnostic) -> dict[str, Any]:
    level = {"error": "error", "warning": "warning"}.get(diagnostic.severity, "note")
    result: dict[str, Any] = {
        "ruleId": diagnostic.code or "mlir",
        "level": level,
        "message": {"text": diagnostic.message},
        "locations": _sarif_locations(diagnostic.place),
    }
    if diagnostic.notes:
        result["relatedLocations"] = [
            {**location, "message": {"text": note.message}}
            for note in diagnostic.notes
            for location in (_sarif_locations(note.place) or [{}])
        ]
    return result


def _sarif_locations(place: Place) -> list[dict[str, Any]]:
    if not place.file:
        return []
    physical: dict[str, Any] = {"artifactLocation": {"uri": place.file}}
    if place.line:
        physical["region"] = {"startLine": place.line, "startColumn": max(place.column, 1)}
    return [{"physicalLocation": physical}]
