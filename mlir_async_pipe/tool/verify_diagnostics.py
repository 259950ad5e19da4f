"""Compares diagnostics with `expected-error {{…}}` comments, as mlir-opt does.

    // expected-error @+1 {{order is no permutation}}
    // expected-note-re @below {{stage {{[0-9]+}} here}}

The text must be part of the message (reason code included); with -re, the parts in inner
braces are regular expressions. Places: none (this line), @+N, @-N, @above, @below (the next
lines without an expectation), @unknown (no place).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from mlir_async_pipe.session.diagnostics import Diagnostic, Place
from mlir_async_pipe.tool.inputs import Source
from mlir_async_pipe.tool.render import message_of


@dataclass(frozen=True)
class Expectation:
    """One comment: where it stands, and what must be reported at which line (0: no place)."""

    severity: str
    text: str
    is_pattern: bool
    line: int
    place: Place

    def is_met_by(self, said: Diagnostic) -> bool:
        if (said.severity, said.place.line) != (self.severity, self.line):
            return False
        if not self.is_pattern:
            return self.text in said.message
        return re.search(_regular_expression(self.text), said.message, re.DOTALL) is not None


_COMMENT = re.compile(
    r"expected-(?P<severity>error|note|remark|warning)(?P<re>-re)? *"
    r"(?P<where>@(?:[+-][0-9]+|above|below|unknown))? *\{\{(?P<text>.*)\}\}$"
)
_MENTIONS = re.compile(r"expected-(?:error|note|remark|warning)(?:-re)?\s*(?:@|\{\{)")


def compare(
    source: Source, diagnostics: Iterable[Diagnostic], *, only_expected: bool = False
) -> list[Diagnostic]:
    """What is missing or too much, as errors; [] if all is as expected. With `only_expected` nothing is too
    much."""
    open_expectations, problems = _expectations(source)
    for said in _everything_said(diagnostics):
        met = next((e for e in open_expectations if e.is_met_by(said)), None)
        if met is not None:
            open_expectations.remove(met)
        elif not only_expected:
            message = f"unexpected {said.severity}: {said.message}"
            problems.append(Diagnostic("error", message, "", said.place))
    for missing in open_expectations:
        message = f'expected {missing.severity} "{missing.text}" was not produced'
        problems.append(Diagnostic("error", message, "", missing.place))
    return problems


def _everything_said(diagnostics: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    """The diagnostics, with their codes in the messages, and their notes as such."""
    for diagnostic in diagnostics:
        yield replace(diagnostic, message=message_of(diagnostic))
        for note in diagnostic.notes:
            yield Diagnostic("note", note.message, "", note.place)


def _expectations(source: Source) -> tuple[list[Expectation], list[Diagnostic]]:
    found: list[Expectation] = []
    problems: list[Diagnostic] = []
    # Of `@below`, until a line without an expectation comes.
    waiting: list[tuple[re.Match[str], Place]] = []
    last_plain_line = 0
    for number, line in enumerate(source.text.splitlines(), start=1):
        match = _COMMENT.search(line.rstrip())
        if match is None:
            if (mention := _MENTIONS.search(line)) is not None:
                place = Place(source.name, number, mention.start() + 1)
                problems.append(Diagnostic("error", "cannot read this expectation", "", place))
            found += [_expectation(earlier, number, place) for earlier, place in waiting]
            waiting = []
            last_plain_line = number
            continue
        place = Place(source.name, number, match.start() + 1)
        if match["where"] == "@below":
            waiting.append((match, place))
        else:
            at = last_plain_line if match["where"] == "@above" else _line(match["where"], number)
            found.append(_expectation(match, at, place))
    found += [_expectation(earlier, place.line + 1, place) for earlier, place in waiting]
    return found, problems


def _expectation(match: re.Match[str], line: int, place: Place) -> Expectation:
    return Expectation(match["severity"], match["text"], bool(match["re"]), line, place)


def _line(where: str | None, number: int) -> int:
    if where is None:
        return number
    return 0 if where == "@unknown" else number + int(where[1:])


def _regular_expression(text: str) -> str:
    """Plain text with regular expressions in double braces."""
    parts = re.split(r"\{\{(.*?)\}\}", text)
    return "".join(part if number % 2 else re.escape(part) for number, part in enumerate(parts))
