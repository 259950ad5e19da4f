"""Reads pipeline text, `builtin.module(cse,gpu.module(async-pipe-expand{chip=sm_80}))`.

MLIR cannot name passes written in Python in such text, so we read it ourselves and hand the
parts without our passes back to MLIR as text. Options are kept as they stand: braces nest and
quotes hide anything, as MLIR reads them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from mlir_async_pipe.session.diagnostics import Place, UsageError

# The file name of places inside pipeline text.
PIPELINE = "--pass-pipeline"


@dataclass(frozen=True)
class PassCall:
    """A leaf: a pass (or a named pipeline) and its options, at a column of the text."""

    name: str
    options: str
    column: int

    def __str__(self) -> str:
        return f"{self.name}{{{self.options}}}" if self.options else self.name


@dataclass(frozen=True)
class NestedPipeline:
    """`anchor(…)`: run the elements on each op called `anchor` directly inside."""

    anchor: str
    elements: tuple[PassCall | NestedPipeline, ...]
    column: int

    def __str__(self) -> str:
        return f"{self.anchor}({','.join(map(str, self.elements))})"


Leaf = tuple[PassCall, tuple[str, ...]]


def leaves(element: PassCall | NestedPipeline, above: tuple[str, ...] = ()) -> Iterator[Leaf]:
    """All passes of an element, in order, each with the anchors around it."""
    if isinstance(element, PassCall):
        yield element, above
    else:
        for inner in element.elements:
            yield from leaves(inner, (*above, element.anchor))


def parse(text: str) -> NestedPipeline:
    """The outermost nest of `text`; raises UsageError (bad-pipeline)."""
    reader = _PipelineReader(text)
    found = reader.element()
    reader.skip_spaces()
    if not reader.at_end():
        raise reader.error(f"unexpected '{text[reader.position]}' after the pipeline")
    if not isinstance(found, NestedPipeline):
        why = "expected the passes inside an anchor op, e.g. 'builtin.module(…)'"
        raise reader.error(why, column=1)
    return found


# Braces, and what hides them; a quote that is never closed hides all that follows.
_BRACES = re.compile(r"""[{}]|"[^"]*"?|'[^']*'?""")


class _PipelineReader:
    """A cursor in the text; `position` counts characters from 0."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def element(self) -> PassCall | NestedPipeline:
        self.skip_spaces()
        start = self.position
        name = self.name()
        options = self.options() if self.next_is("{") else ""
        if not self.take("("):
            return PassCall(name, options, start + 1)
        if options:
            raise self.error(f"'{name}' is an anchor and has no options", column=start + 1)
        return NestedPipeline(name, self.nested(), start + 1)

    def name(self) -> str:
        start = self.position
        while not self.at_end() and self.text[self.position] not in ",(){}":
            self.position += 1
        words = self.text[start : self.position].split()
        if len(words) != 1:
            raise self.error("expected the name of a pass or op", column=start + 1)
        return words[0]

    def options(self) -> str:
        start, depth = self.position, 0
        for found in _BRACES.finditer(self.text, start):
            depth += {"{": 1, "}": -1}.get(found[0], 0)
            if depth == 0:
                self.position = found.end()
                return self.text[start + 1 : found.start()]
        raise self.error("'{' is never closed", column=start + 1)

    def nested(self) -> tuple[PassCall | NestedPipeline, ...]:
        """The elements after an opening parenthesis."""
        opened = self.position
        if self.take(")"):
            return ()
        elements = [self.element()]
        while self.take(","):
            elements.append(self.element())
        if self.take(")"):
            return tuple(elements)
        if self.at_end():
            raise self.error("'(' is never closed", column=opened)
        raise self.error("expected ',' or ')'")

    def next_is(self, character: str) -> bool:
        self.skip_spaces()
        return self.text.startswith(character, self.position)

    def take(self, character: str) -> bool:
        """Whether this comes next; then it is passed."""
        found = self.next_is(character)
        self.position += found
        return found

    def skip_spaces(self) -> None:
        while not self.at_end() and self.text[self.position].isspace():
            self.position += 1

    def at_end(self) -> bool:
        return self.position >= len(self.text)

    def error(self, message: str, column: int | None = None) -> UsageError:
        where = Place(PIPELINE, 1, self.position + 1 if column is None else column)
        return UsageError(message, code="bad-pipeline", at=where)
