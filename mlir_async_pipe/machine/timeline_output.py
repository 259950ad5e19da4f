"""Timelines as files: Chrome trace JSON (opens in Perfetto) and SVG."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path

from mlir_async_pipe.machine.timeline import Bar, Timeline
from mlir_async_pipe.session.diagnostics import UsageError

_COLOURS = {"compute": "#4c78a8", "stall": "#e45756", "group": "#72b7b2"}
_PHASES = {"prologue": "#fff3d6", "kernel": "#e8f0fe", "epilogue": "#e6f4ea"}
_LEGEND = {"compute": "computation", "stall": "stalled in a wait", "group": "a group in flight"}
_WIDTH, _LEFT, _TOP, _ROW, _FOOT = 1100, 110, 46, 24, 58


def write_timeline(timeline: Timeline, path: str) -> None:
    """Write `path` as SVG or Chrome trace JSON, by its ending; raises UsageError (bad-timeline)."""
    target = Path(path)
    if target.suffix == ".svg":
        target.write_text(svg(timeline), encoding="utf-8")
    elif target.suffix == ".json":
        target.write_text(chrome_trace(timeline), encoding="utf-8")
    else:
        raise UsageError(f"timeline file '{path}' must end in .svg or .json", code="bad-timeline")


def chrome_trace(timeline: Timeline) -> str:
    """The timeline in the Trace Event Format; a cycle is shown as a microsecond."""
    lanes = _lanes(timeline)
    events: list[dict[str, object]] = []
    for number, lane in enumerate(lanes):
        events.append(_named("thread_name", number, lane))
    for phase, start, end in timeline.phases:
        events.append(_event(phase, "phase", len(lanes), start, end))
    if timeline.phases:
        events.append(_named("thread_name", len(lanes), "phases"))
    for row, bar in _rows(timeline, lanes):
        events.append(_event(bar.name, bar.kind, row, bar.start, bar.end))
    for name, at in timeline.waits:
        events.append(
            {"name": name, "cat": "wait", "ph": "i", "ts": at, "pid": 0, "tid": 0, "s": "t"}
        )
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}, indent=1)


def _event(name: str, kind: str, row: int, start: float, end: float) -> dict[str, object]:
    return {
        "name": name, "cat": kind, "ph": "X", "ts": start, "dur": end - start, "pid": 0, "tid": row
    }  # fmt: skip


def _named(what: str, row: int, name: str) -> dict[str, object]:
    return {"name": what, "ph": "M", "pid": 0, "tid": row, "args": {"name": name}}


def _lanes(timeline: Timeline) -> list[str]:
    """A lane for the thread, and as many for each queue as groups of it overlap."""
    lanes = ["thread"]
    queues = dict.fromkeys(bar.lane for bar in timeline.bars if bar.kind == "group")
    for queue in queues:
        depth = max(place for place, _ in _stack(timeline, queue)) + 1
        lanes += [queue if number == 0 else f"{queue} +{number}" for number in range(depth)]
    return lanes


def _stack(timeline: Timeline, queue: str) -> list[tuple[int, Bar]]:
    """Each group of a queue with the first row that is free when it starts."""
    ends: list[float] = []
    placed = []
    for bar in timeline.bars:
        if bar.kind != "group" or bar.lane != queue:
            continue
        row = next((n for n, end in enumerate(ends) if end <= bar.start), len(ends))
        ends[row:] = [bar.end, *ends[row + 1 :]]
        placed.append((row, bar))
    return placed


def _rows(timeline: Timeline, lanes: list[str]) -> list[tuple[int, Bar]]:
    """Every bar with the number of its lane."""
    rows = [(0, bar) for bar in timeline.bars if bar.kind != "group"]
    for queue in dict.fromkeys(bar.lane for bar in timeline.bars if bar.kind == "group"):
        first = lanes.index(queue)
        rows += [(first + place, bar) for place, bar in _stack(timeline, queue)]
    return rows


def svg(timeline: Timeline) -> str:
    """The timeline as a picture: lanes below each other, time from left to right in cycles."""
    lanes = _lanes(timeline)
    height = _TOP + _ROW * len(lanes) + _FOOT
    scale = (_WIDTH - _LEFT - 20) / max(timeline.total, 1)

    def x(cycles: float) -> float:
        return round(_LEFT + cycles * scale, 2)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{_LEFT}" y="14">{escape(timeline.summary())}</text>',
    ]
    for phase, start, end in timeline.phases:
        parts.append(
            f'<rect x="{x(start)}" y="{_TOP - 16}" width="{round((end - start) * scale, 2)}" '
            f'height="{_ROW * len(lanes) + 16}" fill="{_PHASES[phase]}"/>'
            f'<text x="{x(start) + 3}" y="{_TOP - 5}" fill="#555">{phase}</text>'
        )
    for start in timeline.iteration_starts:
        parts.append(
            f'<line x1="{x(start)}" y1="{_TOP}" x2="{x(start)}" '
            f'y2="{_TOP + _ROW * len(lanes)}" stroke="#bbb" stroke-dasharray="2 3"/>'
        )
    for number, lane in enumerate(lanes):
        parts.append(f'<text x="6" y="{_TOP + _ROW * number + 16}">{escape(lane)}</text>')
    for row, bar in _rows(timeline, lanes):
        parts.append(_rectangle(bar, x(bar.start), (bar.end - bar.start) * scale, row))
    for name, at in timeline.waits:
        parts.append(
            f'<g><title>{escape(name)} at {at:g}</title><path d="M{x(at) - 4} {_TOP - 3}h8l-4 6z" '
            f'fill="#b3252c"/></g>'
        )
    parts += _axis(timeline.total, scale, _TOP + _ROW * len(lanes))
    parts += _legend(_TOP + _ROW * len(lanes) + 38)
    return "\n".join([*parts, "</svg>", ""])


def _rectangle(bar: Bar, left: float, width: float, row: int) -> str:
    top = _TOP + _ROW * row + 3
    told = f"{bar.name}: {bar.start:g} to {bar.end:g}, {bar.end - bar.start:g} cycles"
    label = bar.name if bar.kind != "stall" else f"{bar.end - bar.start:g}"
    text = ""
    if width > 6 * len(label) + 4:
        text = f'<text x="{left + 3}" y="{top + 13}" fill="white">{escape(label)}</text>'
    return (
        f'<g><title>{escape(told)}</title><rect x="{left}" y="{top}" '
        f'width="{round(max(width, 0.5), 2)}" height="{_ROW - 6}" rx="2" '
        f'fill="{_COLOURS[bar.kind]}"/>{text}</g>'
    )


def _axis(total: float, scale: float, top: float) -> list[str]:
    step = _round_step(total / 10)
    marks = [f'<line x1="{_LEFT}" y1="{top + 4}" x2="{_WIDTH - 20}" y2="{top + 4}" stroke="#888"/>']
    at: float = 0
    while at <= total:
        here = round(_LEFT + at * scale, 2)
        marks.append(
            f'<line x1="{here}" y1="{top + 4}" x2="{here}" y2="{top + 8}" stroke="#888"/>'
            f'<text x="{here}" y="{top + 20}" text-anchor="middle" fill="#555">{at:g}</text>'
        )
        at += step
    return marks


def _legend(top: float) -> list[str]:
    """What the colours mean, below the axis, from left to right."""
    parts, left = [], _LEFT
    for kind, text in _LEGEND.items():
        parts.append(
            f'<rect x="{left}" y="{top}" width="12" height="12" rx="2" fill="{_COLOURS[kind]}"/>'
            f'<text x="{left + 17}" y="{top + 10}">{text}</text>'
        )
        left += 150
    parts.append(f'<path d="M{left} {top + 2}h8l-4 6z" fill="#b3252c"/>')
    parts.append(f'<text x="{left + 17}" y="{top + 10}">the end of a wait</text>')
    parts.append(f'<text x="{left + 150}" y="{top + 10}">times in cycles</text>')
    return parts


def _round_step(least: float) -> float:
    """The smallest of 1, 2, 5, 10, 20, 50 … that is not below `least`."""
    step = 1.0
    while True:
        for factor in (1, 2, 5):
            if step * factor >= least:
                return step * factor
        step *= 10
