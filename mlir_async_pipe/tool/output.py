"""Writes results and diagnostics.

A result goes to a temporary file beside the target, which is then renamed over it: on any error the
target keeps what it had. Diagnostics go to stderr in one of four formats, and are counted.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import stat
import sys
import tempfile

import mlir_async_pipe
from mlir_async_pipe.session.diagnostics import Diagnostic, Place, UsageError
from mlir_async_pipe.session.pipeline_text import PIPELINE
from mlir_async_pipe.tool import render
from mlir_async_pipe.tool.inputs import Source
from mlir_async_pipe.tool.mlir_diagnostics import UNNAMED


def check_writable(name: str) -> None:
    """Refuse, before any work is done, an output whose folder is not there or not writable. Raises UsageError
    (cannot-write)."""
    if name == "-":
        return
    folder = os.path.dirname(name) or "."
    if not os.path.isdir(folder):
        raise _refused(name, f"no folder '{folder}'")
    if os.path.isdir(name):
        raise _refused(name, "it is a folder")
    if not os.access(folder, os.W_OK) or (os.path.exists(name) and not os.access(name, os.W_OK)):
        raise _refused(name, "permission denied")


def _refused(name: str, why: object) -> UsageError:
    return UsageError(f"cannot write the output: {why}", code="cannot-write", at=Place(name))


def write(name: str, content: bytes) -> None:
    """Write `content` to a file in one step, or to standard output for "-". Devices and pipes (/dev/null) are
    written to directly. Raises UsageError (cannot-write)."""
    try:
        if name == "-":
            # What a hook printed stands before it, whether or not the interpreter buffers text.
            sys.stdout.flush()
            sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()
        elif os.path.exists(name) and not stat.S_ISREG(os.stat(name).st_mode):
            with open(name, "wb") as device:
                device.write(content)
        else:
            _replace(os.path.realpath(name), content)
    except BrokenPipeError:
        reader_has_gone()
    except OSError as error:
        raise _refused(name, error.strerror) from None


def reader_has_gone() -> None:
    """The reader (head, less) has seen enough: keep the interpreter's own flush at exit quiet."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _replace(name: str, content: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(name), prefix=".async-pipe-opt-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(temporary, _mode(name))
        os.replace(temporary, name)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _mode(name: str) -> int:
    """The permissions of the file that is replaced, else those of any new file."""
    if os.path.exists(name):
        return stat.S_IMODE(os.stat(name).st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


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
