"""One pipelined loop in a report: its source beside its parts, its time line, its buffers, and what
its barriers separate."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from mlir_async_pipe.reports import pictures
from mlir_async_pipe.reports.limits import Entry, Outline
from mlir_async_pipe.reports.markup import Paper, escape, size, table
from mlir_async_pipe.session.diagnostics import Place, count
from mlir_async_pipe.waits.witness_paths import REASONS

# More lines are nobody's loop body.
_LONGEST = 2000


def loop_section(
    number: int,
    loop: Any,
    outlines: Sequence[Outline],
    waits: Sequence[Any],
    uses: Sequence[Any],
    extra: Any | None,
    paper: Paper,
) -> str:
    """The section of the loop record `loop`, which became the loops `outlines`, one a role; `waits` are
    all records of waits, `uses` those of mbarriers, `extra` says why there are more stages than were asked for."""
    place = loop.place
    where = f"{place.file}:{place.line}" if place.line else "an unknown place"
    trips = (
        "a trip count of any size" if loop.trip_count is None else f"{loop.trip_count} iterations"
    )
    parts = [
        f"<h2>Loop {number}: {escape(where)}</h2>",
        f"<p>{count(loop.stages, 'stage')}{f' ({extra})' if extra else ''}, {count(loop.groups_per_iteration, 'group')} of copies "
        f"an iteration, {trips}; {loop.carried_registers} registers a thread travel from step to "
        "step.</p>",
    ]
    if outlines:
        stages = {
            place: stage
            for outline in outlines
            for place, stage in outline.stages(loop.stages).items()
        }
        source = f"<h3>Source</h3>{_source(loop, outlines, stages, paper)}"
        shown = [_role(outline, stages, waits, paper) for outline in outlines]
        parts.append('<div class="sides">')
        parts += [f'<div class="side">{side}</div>' for side in (source, *shown)]
        parts.append("</div>")
        parts += [_pictures(loop, outlines, stages), _mbarriers(loop, outlines, uses, paper)]
    parts += [_buffers(loop, paper), _barriers(loop, paper)]
    return "\n".join(parts)


def _role(outline: Outline, stages: dict[Place, int], waits: Sequence[Any], paper: Paper) -> str:
    title = f"<h3>Role: {escape(outline.title)}</h3>" if outline.title else ""
    return title + "\n".join(_part(part, outline, stages, waits, paper) for part in outline.parts)


def _source(loop: Any, outlines: Sequence[Outline], stages: dict[Place, int], paper: Paper) -> str:
    """The lines of the loop, with the stage of each statement; what is known of it without them."""
    by_line = {place.line: stage for place, stage in stages.items()}
    kernel = [entry for outline in outlines for entry in outline.of("kernel")]
    kinds = {entry.place.line: entry.kind for entry in kernel}
    lines = paper.sources.get(loop.place.file, ())
    if 1 <= loop.place.line <= len(lines):
        shown = list(_extent(lines, loop.place.line))
    else:
        names = {entry.place.line: entry.op for entry in kernel}
        shown = sorted(names.items())
    rows = []
    for line, text in shown:
        place = Place(loop.place.file, line)
        anchor = ""
        if (place.file, line) not in paper.shown:
            paper.shown.add((place.file, line))
            anchor = f' id="{paper.anchor(place)}"'
        badge = '<span class="badge" style="visibility:hidden">S0</span>'
        if line in by_line:
            kind = _colour(kinds.get(line, "statement"))
            badge = (
                f'<span class="badge {kind}" title="stage {by_line[line]}">S{by_line[line]}</span>'
            )
        # Types of 64 sums would fill the window.
        cut = text if len(text) <= 200 else f"{text[:140]} … {text[-40:]}"
        rows.append(f'<div{anchor}><span class="n">{line}</span>{badge} {escape(cut)}</div>')
    return f'<div class="source" tabindex="0">{"".join(rows)}</div>'


def _extent(lines: Sequence[str], first: int) -> Iterator[tuple[int, str]]:
    """The lines of a loop, from its first to the one that closes its braces, without the
    indentation that all have."""
    depth, found = 0, []
    for number in range(first, min(first + _LONGEST, len(lines) + 1)):
        code = lines[number - 1].partition("//")[0]
        depth += code.count("{") - code.count("}")
        found.append((number, lines[number - 1]))
        if depth <= 0 and any("{" in text for _, text in found):
            break
    indents = [len(text) - len(text.lstrip()) for _, text in found if text.strip()]
    common = min(indents, default=0)
    yield from ((number, text[common:]) for number, text in found)


def _part(
    part: str, outline: Outline, stages: dict[Place, int], waits: Sequence[Any], paper: Paper
) -> str:
    entries = outline.of(part)
    rows = []
    for (kind, op, _), run in itertools.groupby(
        entries, key=lambda entry: (entry.kind, entry.op, stages.get(entry.place))
    ):
        together = list(run)
        if kind == "wait":
            rows += [_wait(entry, outline, waits, paper) for entry in together]
        elif kind == "commit":
            rows += [_commit(entry, outline, paper) for entry in together]
        else:
            rows.append(_several(kind, op, together, outline, stages, paper))
            if together[-1].count is not None:
                rows.append(("", _left(together[-1], "product")))
    shown = "".join(f"<li{extra}>{text}</li>" for extra, text in rows) or "<li>nothing</li>"
    return f'<h3>{part.capitalize()}</h3><ul class="part {part}">{shown}</ul>'


def _several(
    kind: str,
    op: str,
    entries: Sequence[Entry],
    outline: Outline,
    stages: dict[Place, int],
    paper: Paper,
) -> tuple[str, str]:
    if kind == "barrier":
        return "", f'<span class="badge barrier">barrier</span> <code>{escape(op)}</code>'
    stage = stages.get(entries[0].place)
    badge = "" if stage is None else f"S{stage}"
    times = f"{len(entries)} × " if len(entries) > 1 else ""
    places = sorted({entry.place for entry in entries}, key=lambda place: place.line)
    lines = ", ".join(paper.link(place) for place in places[:1])
    if len(places) > 1:
        lines += f" to {paper.link(places[-1], str(places[-1].line))}"
    return "", (
        f'<span class="badge {_colour(kind)}">{badge or kind}</span> {times}<code>{escape(op)}</code> '
        f'<span class="dim">{lines}</span>{_group(entries[0], outline, paper)}'
    )


def _group(entry: Entry, outline: Outline, paper: Paper) -> str:
    """The other half of what is done with an mbarrier stands in the row of its group."""
    if entry.group is None or entry.group < 0:
        return ""
    return f', <a href="#{_group_anchor(outline.place, entry.group, paper)}">mbarriers {entry.group}</a>'


def _group_anchor(loop: Place, group: int, paper: Paper) -> str:
    return f"{paper.prefix}l{loop.line}m{group}"


def _colour(kind: str) -> str:
    """The class of the badge of a kind: copies and what announces them are blue, waits red."""
    if kind in ("copy", "commit", "announcement"):
        return "copy"
    return "wait" if kind.endswith("wait") else "barrier" if kind == "arrival" else kind


def _commit(entry: Entry, outline: Outline, paper: Paper) -> tuple[str, str]:
    name = _name(entry, outline)
    return (
        f' id="{_anchor(entry, outline, paper)}"',
        f'<span class="badge copy">commit</span> group {name} '
        f'<span class="dim">{paper.link(entry.place)}</span>',
    )


def _wait(entry: Entry, outline: Outline, waits: Sequence[Any], paper: Paper) -> tuple[str, str]:
    text = _left(entry, "group")
    if entry.commits:
        groups = (
            f'<a href="#{_anchor(outline.entries[n], outline, paper)}">'
            f"{_name(outline.entries[n], outline)}</a>"
            for n in entry.commits
        )
        text += f"; it is for {', '.join(groups)}"
    if entry.record is not None:
        text += _why(waits[entry.record], paper)
    return "", text


def _left(entry: Entry, what: str) -> str:
    """What a wait leaves in flight."""
    if entry.count is None:
        left, text = "?", f"as many {what}s as are known at run time"
    else:
        left, text = str(entry.count), count(entry.count, what) if entry.count else "nothing"
    return f'<span class="badge wait">wait {left}</span> {text} may stay in flight'


def _why(record: Any, paper: Paper) -> str:
    """Why a count is what it is, with the path that attains it behind a click."""
    reason = REASONS.get(record.reason)
    if reason is None:
        return ""
    remedy = escape(record.remedy(reason.remedy))
    steps = "".join(
        f"<li>{escape(step.what)} {paper.link(step.place)}</li>" for step in record.witness
    )
    return (
        f"<details><summary>why {record.count}: {escape(reason.meaning)}</summary>"
        f"<p>On this path no more may stay{remedy}.</p><ol>{steps}</ol></details>"
    )


def _name(entry: Entry, outline: Outline) -> str:
    """P1, P2, K1, E1: the commits of each part, counted."""
    commits = [e.number for e in outline.of(entry.part) if e.kind == "commit"]
    return f"{entry.part[0].upper()}{commits.index(entry.number) + 1}"


def _anchor(entry: Entry, outline: Outline, paper: Paper) -> str:
    return f"{paper.prefix}l{outline.place.line}c{entry.number}"


def _pictures(loop: Any, outlines: Sequence[Outline], stages: dict[Place, int]) -> str:
    kernel = [entry for outline in outlines for entry in outline.of("kernel")]
    kinds = [_kind_of_stage(stage, kernel, stages) for stage in range(loop.stages)]
    text = "The stages of each iteration, step by step."
    if len(outlines) > 1:
        text = "What the roles do in the same step: " + ", ".join(
            f"{escape(outline.title)} {_steps_of(outline, stages)}" for outline in outlines
        )
    # Copies that have a condition instead of an epilogue are skipped in the kernel's last iterations.
    apart = {
        part
        for outline in outlines
        for part in ("prologue", "epilogue")
        if any(entry.place in stages for entry in outline.of(part))
    }
    drawn = [(text, pictures.stages(kinds, apart=apart))]
    for buffer in loop.buffers[:1]:
        drawn.append(
            (
                f"The versions of {escape(buffer.buffer)}.",
                pictures.versions(
                    buffer.versions, buffer.write_stage, buffer.last_stage, loop.stages, apart=apart
                ),
            )
        )
    figures = "".join(
        f"<figure><figcaption>{text}</figcaption>{svg}</figure>" for text, svg in drawn
    )
    return f'<h3>Time line</h3><div class="pictures">{figures}</div>'


def _steps_of(outline: Outline, stages: dict[Place, int]) -> str:
    """Which iteration a role works on in step k: `iteration k` or `iteration k - 2`."""
    found = {stages[entry.place] for entry in outline.of("kernel") if entry.place in stages}
    back = min(found, default=0)
    return f"iteration k - {back}" if back else "iteration k"


_DOES = {"announcement": "announces", "copy": "copies", "arrival": "arrives"}


def _mbarriers(loop: Any, outlines: Sequence[Outline], uses: Sequence[Any], paper: Paper) -> str:
    """Both halves of each mbarrier: who arrives, announces and copies, and who waits; without roles,
    which ops do."""
    groups: dict[int, list[Any]] = {}
    for use in uses:
        if use.function == loop.function and use.group >= 0:
            groups.setdefault(use.group, []).append(use)
    rows = []
    kernel = [entry for outline in outlines for entry in outline.of("kernel")]
    waiting = [entry for entry in kernel if entry.kind == "phase wait"]
    if waiting and not groups:
        slots = f"one for each of {count(loop.buffers[0].versions, 'slot')}" if loop.buffers else ""
        does = [(_DOES[entry.kind], entry) for entry in kernel if entry.kind in _DOES]
        ends = [_end(one, "", entry, paper) for one, entry in does]
        rows.append(
            [slots, "<br>".join(ends), "<br>".join(_end("waits", "", e, paper) for e in waiting)]
        )
    for number, found in sorted(groups.items()):
        first = found[0]
        numbers = sorted({number for use in found for number in use.barriers})
        name = (
            f'<span id="{_group_anchor(loop.place, number, paper)}">mbarriers {number}</span>, made '
            f"{paper.link(first.made)}: {count(len(numbers), 'slot')}, "
            f"{count(first.arrivals, 'arrival')} end a phase"
        )
        waits = [use for use in found if use.does == "waits"]
        rows.append(
            [name, _halves([u for u in found if u not in waits], paper), _halves(waits, paper)]
        )
    return "<h3>Mbarriers</h3>" + table(["group", "who arrives", "who waits"], rows) if rows else ""


def _halves(uses: Sequence[Any], paper: Paper) -> str:
    shown = []
    for use in uses:
        phases = " and ".join(map(str, use.parities))
        who = f"threads {escape(use.threads)}, "
        shown.append(f"{_end(use.does, who, use, paper)}, in phases of parity {phases}")
    return "<br>".join(shown) or "nobody"


def _end(does: str, who: str, op: Any, paper: Paper) -> str:
    return f"{does}: {who}<code>{escape(op.op)}</code>, {paper.link(op.place)}"


def _kind_of_stage(stage: int, kernel: Sequence[Entry], stages: dict[Place, int]) -> str:
    kinds = {e.kind for e in kernel if stages.get(e.place) == stage}
    copies, computes = "copy" in kinds, bool(kinds & {"statement", "product"})
    return "work" if copies and computes else "copy" if copies else "compute" if computes else ""


def _buffers(loop: Any, paper: Paper) -> str:
    if not loop.buffers:
        return ""
    rows = [
        [
            escape(buffer.buffer),
            str(buffer.versions),
            size(buffer.slot_bytes),
            size(buffer.bytes),
            _why_versions(buffer, paper),
        ]
        for buffer in loop.buffers
    ]
    total = sum(buffer.bytes for buffer in loop.buffers)
    return f"<h3>Versions: {size(total)}</h3>" + table(
        ["buffer", "versions", "each", "together", "why"], rows, numbers=(1, 2, 3)
    )


def _why_versions(buffer: Any, paper: Paper) -> str:
    first, last = buffer.write_stage, buffer.last_stage
    lives = last - first
    text = (
        f"written in stage {first} ({paper.link(buffer.write_place)}), used last in stage {last} "
        f"({paper.link(buffer.last_place)}): a tile lives for {count(lives + 1, 'step')}"
    )
    if buffer.extra_wait:
        return f"{text}; memory has room for no more, so a wait stands before the write"
    more = buffer.versions - lives - 1
    if more > 0:
        return f"{text}, and {count(more, 'step')} more until a wait says that its copies are over"
    return text


def _barriers(loop: Any, paper: Paper) -> str:
    """What barriers separate; of pairs of the same ops the one that is nearest."""
    nearest: dict[tuple[str, str], Any] = {}
    for pair in loop.barriers:
        key = (pair.first, pair.second)
        if key not in nearest or pair.lag < nearest[key].lag:
            nearest[key] = pair
    if not nearest:
        return ""
    rows = [
        [
            f"<code>{escape(pair.first)}</code> {paper.link(pair.first_place)}",
            "in the same step" if pair.lag == 0 else f"{count(pair.lag, 'step')} before",
            f"<code>{escape(pair.second)}</code> {paper.link(pair.second_place)}",
            str(pair.pairs),
        ]
        for pair in nearest.values()
    ]
    return "<h3>What its barriers separate</h3>" + table(
        ["of one thread", "when", "from, of another thread", "pairs"], rows, numbers=(3,)
    )
