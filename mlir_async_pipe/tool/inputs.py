"""Reads the input and cuts it at `// -----` lines.

Each part is padded in front with as many newlines as the file has above it, so that places
in diagnostics are places in the file.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass

from mlir_async_pipe.session.diagnostics import Place, UsageError

# First bytes of MLIR bytecode ("ML" 0xEF "R").
BYTECODE_MAGIC = b"ML\xefR"
# Spaces and comments are given back to nothing: a part of a split file begins with many lines.
_PTX = re.compile(rb"(?>\s+|//[^\n]*|/\*.*?\*/)*+\.version\s", re.DOTALL)


@dataclass(frozen=True)
class Source:
    """One module to process: the name of its file, its bytes, and its first line's number.

    `content` of text starts with `first_line - 1` newlines."""

    name: str
    content: bytes
    first_line: int = 1

    @property
    def is_bytecode(self) -> bool:
        """Whether the content is MLIR bytecode."""
        return self.content.startswith(BYTECODE_MAGIC)

    @property
    def is_ptx(self) -> bool:
        """Whether the content is PTX: comments, then `.version`."""
        return _PTX.match(self.content) is not None

    @property
    def text(self) -> str:
        """The content as text; raises UsageError (not-text) if it is not UTF-8."""
        try:
            return self.content.decode()
        except UnicodeDecodeError as error:
            line = self.content.count(b"\n", 0, error.start) + 1
            column = error.start - self.content.rfind(b"\n", 0, error.start)
            why = "the input is neither UTF-8 text nor MLIR bytecode"
            raise UsageError(why, code="not-text", at=Place(self.name, line, column)) from None


def read(name: str) -> Source:
    """Read a file, or standard input for "-"; raises UsageError (cannot-read)."""
    if name == "-":
        return Source("<stdin>", sys.stdin.buffer.read())
    try:
        with open(name, "rb") as file:
            return Source(name, file.read())
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        why = f"cannot read the input: {reason}"
        raise UsageError(why, code="cannot-read", at=Place(name)) from None


def split(source: Source, marker: str) -> list[Source]:
    """The parts of `source` between lines that are `marker`; all of it if marker is ""."""
    if not marker or source.is_bytecode:
        return [source]
    parts = []
    first, gathered = 1, list[str]()
    for number, line in enumerate(source.text.splitlines(keepends=True), start=1):
        if line.rstrip() == marker.rstrip():
            parts.append(_part(source, first, gathered))
            first, gathered = number + 1, []
        else:
            gathered.append(line)
    parts.append(_part(source, first, gathered))
    return parts


def _part(source: Source, first: int, lines: list[str]) -> Source:
    return Source(source.name, ("\n" * (first - 1) + "".join(lines)).encode(), first)
