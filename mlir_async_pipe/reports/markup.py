"""Small pieces of HTML that the sections of a report share: links to lines, tables, style."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.session.diagnostics import Place

escape = html.escape

# Colours come from the page around where there is one, as in a notebook: text and lines are drawn
# in its own colour, thinned.
STYLE = """
.apr { line-height: 1.5; overflow-wrap: anywhere; }
.apr h1 { font-size: 1.35rem; margin: 0 0 .3rem; }
.apr h2 { font-size: 1.1rem; margin: 2rem 0 .4rem; }
.apr h3 { font-size: .95rem; margin: 1.2rem 0 .3rem; }
.apr p { margin: .3rem 0; }
.apr a { color: #3b82d0; }
.apr .sum { font-size: 1.05rem; padding: .6rem .8rem; border-left: .3rem solid #2e7d4f;
  background: color-mix(in srgb, currentColor 6%, transparent); }
.apr .sum.bad { border-color: #b3402a; } .apr .sum.open { border-color: #d9a400; }
.apr .dim { opacity: .85; }
.apr .sides { display: grid; grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr)); gap: 1rem; }
.apr .side { min-width: 0; }
.apr .source, .apr .wide { overflow: auto; max-width: 100%; }
.apr .source { max-height: 40rem; border: 1px solid color-mix(in srgb, currentColor 25%, transparent);
  border-radius: .3rem; font: 12px/1.6 ui-monospace, monospace; }
.apr .source div { white-space: pre-wrap; padding: 0 .5rem 0 9em; text-indent: -8.5em; }
.apr .source div > * { text-indent: 0; }
.apr .source div:target, .apr li:target { background: #d9a40055; }
.apr .source .n { display: inline-block; width: 3.2em; opacity: .6; text-align: right;
  padding-right: .8em; user-select: none; }
.apr .badge { display: inline-block; min-width: 1.7em; text-align: center; border-radius: .25rem;
  font: 11px/1.5 system-ui, sans-serif; color: #fff; background: #666; padding: 0 .3em; }
.apr .badge.copy { background: #2563a8; } .apr .badge.statement { background: #2e7d4f; }
.apr .badge.product { background: #0f766e; } .apr .badge.wait { background: #b3402a; } .apr .badge.barrier { background: #7a5195; }
.apr .badge.error { background: #b3402a; } .apr .badge.warning { background: #8a6400; }
.apr ul.part { list-style: none; margin: 0 0 .8rem; padding: .3rem .6rem; border-radius: .3rem; }
.apr ul.part > li { padding: .12rem 0; }
.apr .prologue { background: #d9a40022; } .apr .kernel { background: #2563a81c; }
.apr .epilogue { background: #2e7d4f22; }
.apr ul, .apr ol { margin: .2rem 0; padding-left: 1.3rem; }
.apr .pictures { display: flex; flex-wrap: wrap; gap: 1rem; }
.apr figure { margin: 0; max-width: 100%; } .apr figcaption { font-size: .9rem; }
.apr svg { max-width: 100%; height: auto; }
.apr table { border-collapse: collapse; font-size: .9rem; overflow-wrap: normal; }
.apr th { white-space: nowrap; } .apr td { min-width: 3rem; } .apr td:last-child { min-width: 14rem; }
.apr td.num:last-child { min-width: 3rem; } .apr .wide > svg { max-width: none; }
.apr th, .apr td { border-bottom: 1px solid color-mix(in srgb, currentColor 25%, transparent);
  padding: .25rem .7rem .25rem 0; text-align: left; vertical-align: top; }
.apr td.num, .apr th.num { text-align: right; }
.apr details > summary { cursor: pointer; }
.apr code { font: .92em ui-monospace, monospace; }
@media (max-width: 48rem) { .apr .sides { grid-template-columns: minmax(0, 1fr); }
  .apr .source { max-height: 20rem; }
  .apr th { display: none; } .apr tr { display: block; margin: .5rem 0; }
  .apr td { display: block; border: 0; padding: .1rem 0; }
  .apr td.num { text-align: left; } .apr td:empty { display: none; }
  .apr td::before { content: attr(data-column) ": "; opacity: .7; } }
"""
PAGE_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 1.5rem auto; max-width: 76rem; padding: 0 1rem;
  background: #fff; color: #1d1f23; }
@media (prefers-color-scheme: dark) { body { background: #16181d; color: #e4e6ea; } }
"""

Sources = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Paper:
    """What a report is written on: the lines of its files, and the prefix of its anchors, which
    tells it from others on the page. `shown` are the lines that have an anchor."""

    sources: Sources
    prefix: str
    shown: set[tuple[str, int]]

    def anchor(self, place: Place) -> str:
        return f"{self.prefix}l{place.line}"

    def link(self, place: Place, text: str = "") -> str:
        """A link to a line that is shown, else its text."""
        if not place.line:
            return escape(text or "at an unknown place")
        shown = escape(text or f"line {place.line}")
        if (place.file, place.line) not in self.shown:
            return f'<span title="{escape(str(place))}">{shown}</span>'
        return f'<a href="#{self.anchor(place)}" title="{escape(str(place))}">{shown}</a>'

    def path(self, witness: Iterable[Any]) -> str:
        """The steps of a path, each with its line."""
        steps = (f"<li>{escape(step.what)} {self.link(step.place)}</li>" for step in witness)
        return f"<ol>{''.join(steps)}</ol>"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """A table of cells that are HTML already; columns of `numbers` stand on the right. It scrolls
    by itself where it is too wide; in a narrow window each cell is a line that names its column."""
    names = [escape(name) for name in header]
    right = [" class=num" if column in numbers else "" for column in range(len(names))]
    heads = (f"<th{side}>{name}</th>" for name, side in zip(names, right, strict=True))
    parts = ['<div class="wide"><table>', f"<tr>{''.join(heads)}</tr>"]
    for row in rows:
        cells = zip(names, right, row, strict=True)
        shown = (f'<td data-column="{name}"{side}>{cell}</td>' for name, side, cell in cells)
        parts.append(f"<tr>{''.join(shown)}</tr>")
    return "\n".join([*parts, "</table></div>"])


def size(number: int) -> str:
    """Bytes, in KiB where that is a short number."""
    return f"{number / 1024:g} KiB" if number >= 1024 and number % 64 == 0 else f"{number} bytes"


def closing_brace(lines: Sequence[str], begin: int) -> tuple[int, int] | None:
    """Line, from 0, and column after the brace that closes what the first one from a line on opens."""
    depth = 0
    for number in range(begin, len(lines)):
        # Braces of strings and comments are none.
        code = re.sub(r'"(?:[^"\\]|\\.)*"|//.*', lambda found: " " * len(found[0]), lines[number])
        for column, character in enumerate(code):
            depth += (character == "{") - (character == "}")
            if character == "}" and depth == 0:
                return number, column + 1
    return None
