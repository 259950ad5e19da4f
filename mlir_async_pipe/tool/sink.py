"""Where diagnostics go while the tool runs: to stderr in one of four formats, and counted."""

from __future__ import annotations

import dataclasses
import sys

import mlir_async_pipe
from mlir_async_pipe.session.diagnostics import Diagnostic, Place
from mlir_async_pipe.tool import render
from mlir_async_pipe.tool.inputs import Source
from mlir_async_pipe.tool.mlir_diagnostics import UNNAMED
from mlir_async_pipe.tool.pipeline_text import PIPELINE


class Sink:
    """Takes diagnostics in order; text and github are written at once, the others by finish."""

    def __init__(self, style: str, *, shows_ops: bool = True) -> None:
        self.style = style
        self._shows_ops = shows_ops
        self.taken: list[Diagnostic] = []
        self.lines: dict[str, list[str]] = {}
        self._input = ""

    def knows_input(self, source: Source) -> None:
        """Let excerpts be shown from `source`, and give its name to unnamed places."""
        self._input = source.name
        if not source.is_bytecode:
            self.lines[source.name] = source.content.decode(errors="replace").splitlines()

    def knows_pipeline(self, text: str) -> None:
        """Let excerpts be shown from pipeline text."""
        self.lines[PIPELINE] = [text]

    def take(self, diagnostic: Diagnostic) -> None:
        named = self.named(diagnostic)
        self.taken.append(named)
        if self.style == "text":
            sys.stderr.write(render.as_text(named, self.lines))
        elif self.style == "github":
            sys.stderr.write(render.as_github(named))

    def named(self, diagnostic: Diagnostic) -> Diagnostic:
        """The diagnostic with the input's name where MLIR knew none, and without MLIR's note on
        the op if that is not wanted."""
        notes = tuple(
            dataclasses.replace(note, place=self._place(note.place))
            for note in diagnostic.notes
            if self._shows_ops or not note.message.startswith("see current operation")
        )
        return dataclasses.replace(diagnostic, place=self._place(diagnostic.place), notes=notes)

    @property
    def failed(self) -> bool:
        return any(diagnostic.severity == "error" for diagnostic in self.taken)

    def finish(self) -> int:
        """Write what is written as one document; returns the exit code."""
        if self.style == "json":
            sys.stderr.write(render.as_json(self.taken))
        elif self.style == "sarif":
            sys.stderr.write(render.as_sarif(self.taken, mlir_async_pipe.__version__))
        sys.stderr.flush()
        return 1 if self.failed else 0

    def _place(self, place: Place) -> Place:
        if place.file != UNNAMED:
            return place
        return Place(self._input, place.line, place.column)


class Gather:
    """Stands in for a Sink where diagnostics are compared instead of written."""

    def __init__(self, sink: Sink) -> None:
        self.taken: list[Diagnostic] = []
        self._sink = sink

    def take(self, diagnostic: Diagnostic) -> None:
        self.taken.append(self._sink.named(diagnostic))
