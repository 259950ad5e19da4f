"""`async-pipe-lsp`: what async-pipe-opt says of a file, in an editor, while it is typed.

Each state of a file goes to a process of `async-pipe-opt - --async-pipe` that writes JSON: a crash of
native code ends that process and no other. The flags of the server go to each, `--target=…` first of all.

    diagnostics     errors, warnings and remarks, with notes at their places
    hover           on a loop its stages and versions, on a wait its count with its reason and path
    code actions    `num_stages` for a loop without it, `independent` for a loop that it is advised for

A pipelined loop has waits of its own in place of those that stood in it: these show those of the loop.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlir_async_pipe.facts.loops.annotations import INDEPENDENT, NUM_STAGES
from mlir_async_pipe.reports.markup import closing_brace
from mlir_async_pipe.session.diagnostics import AsyncPipeError, count
from mlir_async_pipe.session.plugins import library
from mlir_async_pipe.waits.witness_paths import REASONS

# Seconds without a key before a file is looked at.
QUIET = 0.2
# The file that the tool reads the text from; a location of the text may name another one.
_TEXT = "<stdin>"
# In an editor most files have loops that nobody asks to be pipelined.
_NOT_SHOWN = ("no-annotated-loops",)


@dataclass(frozen=True)
class Edit:
    """Text to put in at a line and column, both from 0, and what that does."""

    title: str
    line: int
    column: int
    text: str


@dataclass(frozen=True)
class FileAnalysis:
    """What one run of the tool said and recorded, of the text with these lines."""

    lines: Sequence[str]
    said: Sequence[dict[str, Any]] = ()
    records: dict[str, Any] = field(default_factory=dict)

    def hover(self, line: int) -> str:
        """What is known of a line (from 0), as Markdown; "" for nothing."""
        loop = self._around(line)
        here = [_wait(entry) for entry in self._at("waits", line)]
        if not here and loop is not None and "wait" in self.lines[line]:
            here = [_wait(entry) for entry in self._at("waits", loop)]
        return "\n\n".join([*map(_loop, self._at("loops", line)), *here])

    def edits(self, line: int) -> Iterator[Edit]:
        """What can be done about a line."""
        if _is_loop(self.lines[line]):
            yield from self._annotated(line, NUM_STAGES, f"{NUM_STAGES} = 3 : i64")
        for entry in self.said:
            places = [entry["place"], *(note["place"] for note in entry["notes"])]
            for note in entry["notes"]:
                loop = note["place"]["line"] - 1
                touches = any(place["line"] - 1 == line for place in places)
                if touches and INDEPENDENT in note["message"] and 0 <= loop < len(self.lines):
                    yield from self._annotated(loop, INDEPENDENT, INDEPENDENT)

    def _annotated(self, loop: int, name: str, text: str) -> Iterator[Edit]:
        """The edit that puts `text` to the attributes of the loop that begins in a line."""
        end = closing_brace(self.lines, loop) if _is_loop(self.lines[loop]) else None
        if end is None:
            return
        line, column = end
        rest = self.lines[line][column:]
        attributes = re.match(r"\s*\{", rest)
        title = f"{'Mark' if name == INDEPENDENT else 'Pipeline'} this loop: {text}"
        if attributes is None:
            yield Edit(title, line, column, f" {{{text}}}")
        elif not re.search(rf"{re.escape(name)}\b", "\n".join([rest, *self.lines[line + 1 :]][:4])):
            yield Edit(title, line, column + attributes.end(), f"{text}, ")

    def _around(self, line: int) -> int | None:
        """The line of the innermost pipelined loop whose body has this line."""
        begins = [_line(entry) for entry in self.records.get("loops", [])]
        ends = {begin: closing_brace(self.lines, begin) for begin in begins if begin is not None}
        return max(
            (begin for begin, end in ends.items() if end and begin < line <= end[0]), default=None
        )

    def _at(self, kind: str, line: int) -> list[dict[str, Any]]:
        return [entry for entry in self.records.get(kind, []) if _line(entry) == line]


async def analyse(text: str, flags: Sequence[str]) -> FileAnalysis:
    """Run the tool on a text. When this is cancelled, so is the tool."""
    handle, report = tempfile.mkstemp(suffix=".json")
    os.close(handle)
    tool = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "mlir_async_pipe.tool", "-", "--async-pipe", "-o", os.devnull),
        *("--diagnostics=json", "--report=json", f"--report-file={report}", *flags),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        _, said = await tool.communicate(text.encode())
        written = Path(report).read_text()
    finally:
        if tool.returncode is None:
            tool.kill()
        os.unlink(report)
    try:
        diagnostics = json.loads(said)
    except ValueError:
        message = said.decode(errors="replace").strip() or f"the tool ended with {tool.returncode}"
        nowhere = {"file": "", "line": 0, "column": 0}
        diagnostics = [
            {"severity": "error", "message": message, "code": "", "place": nowhere, "notes": []}
        ]
    for entry in diagnostics:
        for place in (entry["place"], *(note["place"] for note in entry["notes"])):
            if place["file"] != _TEXT:
                place.update(line=0, column=0)
    shown = [entry for entry in diagnostics if entry["code"] not in _NOT_SHOWN]
    return FileAnalysis(text.splitlines() or [""], shown, json.loads(written) if written else {})


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve on standard input and output, with the flags of the command line for each run."""
    try:
        library("pygls.lsp.server", extra="lsp", wanted_by="async-pipe-lsp")
    except AsyncPipeError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    server(sys.argv[1:] if arguments is None else arguments).start_io()
    return 0


def server(flags: Sequence[str]) -> Any:
    """The language server; it runs the tool with `flags`."""
    from lsprotocol import types as lsp
    from pygls.lsp.server import LanguageServer

    served = LanguageServer("async-pipe-lsp", "1")
    known: dict[str, FileAnalysis] = {}
    running: dict[str, asyncio.Task[None]] = {}

    async def look(uri: str) -> None:
        await asyncio.sleep(QUIET)
        document = served.workspace.get_text_document(uri)
        version, found = document.version, await analyse(document.source, flags)
        known[uri] = found
        shown = [diagnostic(uri, entry) for entry in found.said]
        served.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, shown, version))

    def begin(uri: str) -> None:
        if uri in running:
            running[uri].cancel()
        running[uri] = asyncio.ensure_future(look(uri))

    def span(place: dict[str, Any]) -> Any:
        line, column = max(place["line"], 1) - 1, max(place["column"], 1) - 1
        return lsp.Range(lsp.Position(line, column), lsp.Position(line, column + 1))

    def diagnostic(uri: str, entry: dict[str, Any]) -> Any:
        severity = {
            "error": lsp.DiagnosticSeverity.Error,
            "warning": lsp.DiagnosticSeverity.Warning,
        }.get(entry["severity"], lsp.DiagnosticSeverity.Information)
        notes = [
            lsp.DiagnosticRelatedInformation(lsp.Location(uri, span(n["place"])), n["message"])
            for n in entry["notes"]
        ]
        return lsp.Diagnostic(
            span(entry["place"]),
            entry["message"],
            severity=severity,
            code=entry["code"] or None,
            source="async-pipe",
            related_information=notes,
        )

    @served.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    async def did_open(parameters: lsp.DidOpenTextDocumentParams) -> None:
        begin(parameters.text_document.uri)

    @served.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    async def did_change(parameters: lsp.DidChangeTextDocumentParams) -> None:
        begin(parameters.text_document.uri)

    @served.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    async def did_close(parameters: lsp.DidCloseTextDocumentParams) -> None:
        uri = parameters.text_document.uri
        known.pop(uri, None)
        if uri in running:
            running.pop(uri).cancel()

    def current(uri: str, line: int) -> FileAnalysis | None:
        """What is known of the text as it is now, if that has the line."""
        found = known.get(uri)
        lines = served.workspace.get_text_document(uri).source.splitlines()
        return found if found and list(found.lines) == lines and line < len(lines) else None

    @served.feature(lsp.TEXT_DOCUMENT_HOVER)
    async def hover(parameters: lsp.HoverParams) -> lsp.Hover | None:
        line = parameters.position.line
        found = current(parameters.text_document.uri, line)
        text = found.hover(line) if found else ""
        return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, text)) if text else None

    @served.feature(lsp.TEXT_DOCUMENT_CODE_ACTION)
    async def actions(parameters: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        uri, line = parameters.text_document.uri, parameters.range.start.line
        found = current(uri, line)
        return [] if found is None else [action(uri, edit) for edit in found.edits(line)]

    def action(uri: str, edit: Edit) -> Any:
        at = lsp.Position(edit.line, edit.column)
        changes = {uri: [lsp.TextEdit(lsp.Range(at, at), edit.text)]}
        return lsp.CodeAction(
            edit.title, kind=lsp.CodeActionKind.QuickFix, edit=lsp.WorkspaceEdit(changes)
        )

    return served


def _is_loop(line: str) -> bool:
    return re.search(r"\bscf\.for\b", line.partition("//")[0]) is not None


def _line(entry: dict[str, Any]) -> int | None:
    """The line, from 0, of a record's place "file:line:column"."""
    file, _, where = str(entry["place"]).partition(":")
    return int(where.partition(":")[0]) - 1 if file == _TEXT else None


def _loop(record: dict[str, Any]) -> str:
    groups = count(record["groups_per_iteration"], "group")
    lines = [f"**{count(record['stages'], 'stage')}**, {groups} an iteration"]
    lines += [
        f"- `{entry['buffer']}`: {count(entry['versions'], 'version')} of {entry['slot_bytes']} bytes"
        for entry in record["buffers"]
    ]
    return "\n".join(lines)


def _wait(record: dict[str, Any]) -> str:
    part = f"{record['part']}: " if record["part"] else ""
    queue = record["queue"] or "its queue"
    reason = REASONS.get(record["reason"])
    why = f": {reason.meaning}" if reason is not None else ""
    lines = [f"{part}**{count(record['count'], 'group')}** of {queue} may stay in flight{why}"]
    for step in record["witness"]:
        where = str(step["place"]).rsplit(":", 2)[1:]
        lines.append(f"- {step['what']} ({':'.join(where)})" if where else f"- {step['what']}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
