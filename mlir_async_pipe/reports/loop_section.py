"""One pipelined loop in a report: its source beside its parts, its time line, its buffers, and what
its barriers separate."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mlir_async_pipe.reports import pictures
from mlir_async_pipe.reports.limits import Entry, Outline
from mlir_async_pipe.reports.markup import Paper, closing_brace, escape, size, table
from mlir_async_pipe.session.diagnostics import Place, count
from mlir_async_pipe.waits.witness_paths import REASONS

# More lines are nobody's loop body.
_LONGEST = 2000
_DOES = {"announcement": "announces", "copy": "copies", "arrival": "arrives"}


@dataclass(frozen=True)
class LoopSection:
    """The section of the loop record `loop`, which became the loops `outlines`, one a role; `waits` are
    all records of waits, `uses` those of mbarriers, `extra` says why there are more stages than were asked for."""

    number: int
    loop: Any
    outlines: Sequence[Outline]
    waits: Sequence[Any]
    uses: Sequence[Any]
    extra: Any | None
    paper: Paper

    def html(self) -> str:
        loop, place = self.loop, self.loop.place
        where = f"{place.file}:{place.line}" if place.line else "an unknown place"
        trips = loop.trip_count
        trips = "a trip count of any size" if trips is None else f"{trips} iterations"
        extra = f" ({self.extra})" if self.extra else ""
        groups = count(loop.groups_per_iteration, "group")
        parts = [
            f"<h2>Loop {self.number}: {escape(where)}</h2>",
            f"<p>{count(loop.stages, 'stage')}{extra}, {groups} of copies an iteration, {trips}; "
            f"{loop.carried_registers} registers a thread travel from step to step.</p>",
        ]
        if self.outlines:
            sides = [f"<h3>Source</h3>{self._source()}", *map(self._role, self.outlines)]
            parts.append('<div class="sides">')
            parts += [f'<div class="side">{side}</div>' for side in sides]
            parts += ["</div>", self._pictures(), self._mbarriers()]
        return "\n".join([*parts, self._buffers(), self._barriers()])

    @cached_property
    def stages(self) -> dict[Place, int]:
        found: dict[Place, int] = {}
        for outline in self.outlines:
            found |= outline.stages(self.loop.stages)
        return found

    @cached_property
    def kernel(self) -> list[Entry]:
        return [entry for outline in self.outlines for entry in outline.of("kernel")]

    # Source and parts ------------------------------------------------------------------------

    def _source(self) -> str:
        """The lines of the loop, with the stage of each statement; what is known of it without them."""
        begin, paper = self.loop.place, self.paper
        by_line = {place.line: stage for place, stage in self.stages.items()}
        kinds = {entry.place.line: entry.kind for entry in self.kernel}
        lines = paper.sources.get(begin.file, ())
        if 1 <= begin.line <= len(lines):
            shown = list(_extent(lines, begin.line))
        else:
            shown = sorted({entry.place.line: entry.op for entry in self.kernel}.items())
        rows = []
        for line, text in shown:
            anchor = ""
            if (begin.file, line) not in paper.shown:
                paper.shown.add((begin.file, line))
                anchor = f' id="{paper.anchor(Place(begin.file, line))}"'
            badge = '<span class="badge" style="visibility:hidden">S0</span>'
            if line in by_line:
                kind, stage = _colour(kinds.get(line, "statement")), by_line[line]
                badge = f'<span class="badge {kind}" title="stage {stage}">S{stage}</span>'
            # Types of 64 sums would fill the window.
            cut = text if len(text) <= 200 else f"{text[:140]} … {text[-40:]}"
            rows.append(f'<div{anchor}><span class="n">{line}</span>{badge} {escape(cut)}</div>')
        return f'<div class="source" tabindex="0">{"".join(rows)}</div>'

    def _role(self, outline: Outline) -> str:
        title = f"<h3>Role: {escape(outline.title)}</h3>" if outline.title else ""
        return title + "\n".join(self._part(part, outline) for part in outline.parts)

    def _part(self, part: str, outline: Outline) -> str:
        rows: list[str] = []
        for (kind, _, _), run in itertools.groupby(
            outline.of(part), key=lambda entry: (entry.kind, entry.op, self.stages.get(entry.place))
        ):
            together = list(run)
            if kind == "wait":
                rows += [f"<li>{self._wait(entry, outline)}</li>" for entry in together]
            elif kind == "commit":
                rows += [self._commit(entry, outline) for entry in together]
            else:
                rows.append(f"<li>{self._several(together, outline)}</li>")
                if together[-1].count is not None:
                    rows.append(f"<li>{_left(together[-1], 'product')}</li>")
        shown = "".join(rows) or "<li>nothing</li>"
        return f'<h3>{part.capitalize()}</h3><ul class="part {part}">{shown}</ul>'

    def _several(self, entries: Sequence[Entry], outline: Outline) -> str:
        first = entries[0]
        if first.kind == "barrier":
            return f'<span class="badge barrier">barrier</span> <code>{escape(first.op)}</code>'
        stage = self.stages.get(first.place)
        badge = first.kind if stage is None else f"S{stage}"
        times = f"{len(entries)} × " if len(entries) > 1 else ""
        places = sorted({entry.place for entry in entries}, key=lambda place: place.line)
        lines = self.paper.link(places[0])
        if len(places) > 1:
            lines += f" to {self.paper.link(places[-1], str(places[-1].line))}"
        group = ""
        # The other half of what is done with an mbarrier stands in the row of its group.
        if first.group is not None and first.group >= 0:
            anchor = self._group_anchor(outline.place, first.group)
            group = f', <a href="#{anchor}">mbarriers {first.group}</a>'
        return (
            f'<span class="badge {_colour(first.kind)}">{badge}</span> {times}'
            f'<code>{escape(first.op)}</code> <span class="dim">{lines}</span>{group}'
        )

    def _group_anchor(self, loop: Place, group: int) -> str:
        return f"{self.paper.prefix}l{loop.line}m{group}"

    def _commit(self, entry: Entry, outline: Outline) -> str:
        return (
            f'<li id="{self._anchor(entry, outline)}">'
            f'<span class="badge copy">commit</span> group {_name(entry, outline)} '
            f'<span class="dim">{self.paper.link(entry.place)}</span></li>'
        )

    def _wait(self, entry: Entry, outline: Outline) -> str:
        text = _left(entry, "group")
        if entry.commits:
            commits = [outline.entries[number] for number in entry.commits]
            groups = (
                f'<a href="#{self._anchor(commit, outline)}">{_name(commit, outline)}</a>'
                for commit in commits
            )
            text += f"; it is for {', '.join(groups)}"
        if entry.record is not None:
            text += self._why(self.waits[entry.record])
        return text

    def _why(self, record: Any) -> str:
        """Why a count is what it is, with the path that attains it behind a click."""
        reason = REASONS.get(record.reason)
        if reason is None:
            return ""
        remedy = escape(record.remedy(reason.remedy))
        return (
            f"<details><summary>why {record.count}: {escape(reason.meaning)}</summary>"
            f"<p>On this path no more may stay{remedy}.</p>{self.paper.path(record.witness)}</details>"
        )

    def _anchor(self, entry: Entry, outline: Outline) -> str:
        return f"{self.paper.prefix}l{outline.place.line}c{entry.number}"

    # Time line -------------------------------------------------------------------------------

    def _pictures(self) -> str:
        kinds = [self._kind_of_stage(stage) for stage in range(self.loop.stages)]
        text = "The stages of each iteration, step by step."
        if len(self.outlines) > 1:
            steps = (f"{escape(role.title)} {self._steps_of(role)}" for role in self.outlines)
            text = f"What the roles do in the same step: {', '.join(steps)}"
        # Copies that have a condition instead of an epilogue are skipped in the kernel's last iterations.
        apart = {
            part
            for outline in self.outlines
            for part in ("prologue", "epilogue")
            if any(entry.place in self.stages for entry in outline.of(part))
        }
        drawn = [(text, pictures.stages(kinds, apart=apart))]
        for of in self.loop.buffers[:1]:
            lives = of.versions, of.write_stage, of.last_stage, self.loop.stages
            svg = pictures.versions(*lives, apart=apart)
            drawn.append((f"The versions of {escape(of.buffer)}.", svg))
        figures = (f"<figure><figcaption>{text}</figcaption>{svg}</figure>" for text, svg in drawn)
        return f'<h3>Time line</h3><div class="pictures">{"".join(figures)}</div>'

    def _steps_of(self, outline: Outline) -> str:
        """Which iteration a role works on in step k: `iteration k` or `iteration k - 2`."""
        places = (entry.place for entry in outline.of("kernel"))
        back = min((self.stages[place] for place in places if place in self.stages), default=0)
        return f"iteration k - {back}" if back else "iteration k"

    def _kind_of_stage(self, stage: int) -> str:
        kinds = {entry.kind for entry in self.kernel if self.stages.get(entry.place) == stage}
        copies, computes = "copy" in kinds, bool(kinds & {"statement", "product"})
        return (
            "work" if copies and computes else "copy" if copies else "compute" if computes else ""
        )

    # Tables ----------------------------------------------------------------------------------

    def _mbarriers(self) -> str:
        """Both halves of each mbarrier: who arrives, announces and copies, and who waits; without roles,
        which ops do."""
        loop = self.loop
        groups: dict[int, list[Any]] = {}
        for use in self.uses:
            if use.function == loop.function and use.group >= 0:
                groups.setdefault(use.group, []).append(use)
        rows = []
        waiting = [entry for entry in self.kernel if entry.kind == "phase wait"]
        if waiting and not groups:
            slots = (
                f"one for each of {count(loop.buffers[0].versions, 'slot')}" if loop.buffers else ""
            )
            arriving = [entry for entry in self.kernel if entry.kind in _DOES]
            ends = [self._end(_DOES[entry.kind], "", entry) for entry in arriving]
            awaited = [self._end("waits", "", entry) for entry in waiting]
            rows.append([slots, "<br>".join(ends), "<br>".join(awaited)])
        for number, found in sorted(groups.items()):
            first = found[0]
            numbers = {number for use in found for number in use.barriers}
            name = (
                f'<span id="{self._group_anchor(loop.place, number)}">mbarriers {number}</span>, made '
                f"{self.paper.link(first.made)}: {count(len(numbers), 'slot')}, "
                f"{count(first.arrivals, 'arrival')} end a phase"
            )
            waits = [use for use in found if use.does == "waits"]
            others = [use for use in found if use.does != "waits"]
            rows.append([name, self._half(others), self._half(waits)])
        header = ["group", "who arrives", "who waits"]
        return "<h3>Mbarriers</h3>" + table(header, rows) if rows else ""

    def _half(self, uses: Sequence[Any]) -> str:
        shown = []
        for use in uses:
            phases = " and ".join(map(str, use.parities))
            end = self._end(use.does, f"threads {escape(use.threads)}, ", use)
            shown.append(f"{end}, in phases of parity {phases}")
        return "<br>".join(shown) or "nobody"

    def _end(self, does: str, who: str, op: Any) -> str:
        return f"{does}: {who}<code>{escape(op.op)}</code>, {self.paper.link(op.place)}"

    def _buffers(self) -> str:
        if not self.loop.buffers:
            return ""
        rows = [
            [
                escape(of.buffer),
                str(of.versions),
                size(of.slot_bytes),
                size(of.bytes),
                self._lives(of),
            ]
            for of in self.loop.buffers
        ]
        total = sum(buffer.bytes for buffer in self.loop.buffers)
        header = ["buffer", "versions", "each", "together", "why"]
        return f"<h3>Versions: {size(total)}</h3>" + table(header, rows, numbers=(1, 2, 3))

    def _lives(self, buffer: Any) -> str:
        """Why a buffer has so many versions."""
        first, last = buffer.write_stage, buffer.last_stage
        steps = last - first + 1
        text = (
            f"written in stage {first} ({self.paper.link(buffer.write_place)}), used last in stage {last} "
            f"({self.paper.link(buffer.last_place)}): a tile lives for {count(steps, 'step')}"
        )
        if buffer.extra_wait:
            return f"{text}; memory has room for no more, so a wait stands before the write"
        more = buffer.versions - steps
        if more > 0:
            return (
                f"{text}, and {count(more, 'step')} more until a wait says that its copies are over"
            )
        return text

    def _barriers(self) -> str:
        """What barriers separate; of pairs of the same ops the one that is nearest."""
        nearest: dict[tuple[str, str], Any] = {}
        for pair in self.loop.barriers:
            key = (pair.first, pair.second)
            if key not in nearest or pair.lag < nearest[key].lag:
                nearest[key] = pair
        if not nearest:
            return ""
        rows = [
            [
                f"<code>{escape(pair.first)}</code> {self.paper.link(pair.first_place)}",
                "in the same step" if pair.lag == 0 else f"{count(pair.lag, 'step')} before",
                f"<code>{escape(pair.second)}</code> {self.paper.link(pair.second_place)}",
                str(pair.pairs),
            ]
            for pair in nearest.values()
        ]
        header = ["of one thread", "when", "from, of another thread", "pairs"]
        return "<h3>What its barriers separate</h3>" + table(header, rows, numbers=(3,))


def _extent(lines: Sequence[str], first: int) -> Iterator[tuple[int, str]]:
    """The lines of a loop, from its first to the one that closes its braces, without the
    indentation that all have."""
    end = closing_brace(lines[: first + _LONGEST - 1], first - 1)
    last = first + _LONGEST - 1 if end is None else end[0] + 1
    found = list(enumerate(lines[first - 1 : last], first))
    indents = [len(text) - len(text.lstrip()) for _, text in found if text.strip()]
    common = min(indents, default=0)
    yield from ((number, text[common:]) for number, text in found)


def _colour(kind: str) -> str:
    """The class of the badge of a kind: copies and what announces them are blue, waits red."""
    if kind in ("copy", "commit", "announcement"):
        return "copy"
    return "wait" if kind.endswith("wait") else "barrier" if kind == "arrival" else kind


def _left(entry: Entry, what: str) -> str:
    """What a wait leaves in flight."""
    if entry.count is None:
        left, text = "?", f"as many {what}s as are known at run time"
    else:
        left, text = str(entry.count), count(entry.count, what) if entry.count else "nothing"
    return f'<span class="badge wait">wait {left}</span> {text} may stay in flight'


def _name(entry: Entry, outline: Outline) -> str:
    """P1, P2, K1, E1: the commits of each part, counted."""
    commits = [each.number for each in outline.of(entry.part) if each.kind == "commit"]
    return f"{entry.part[0].upper()}{commits.index(entry.number) + 1}"
