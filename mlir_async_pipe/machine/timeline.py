"""What the first thread did, in order (the trace), and when: the trace laid out in cycles by a cost model.

The thread runs its ops one after the other. A copy occupies its queue for bytes / throughput
cycles and arrives `latency` cycles later; groups of a queue complete in order. A wait stalls
until the last op that it covers has arrived:

    latency 500, compute 300, two stages: the copy is issued one iteration ahead, so each wait
    stalls 500 - 300 = 200 cycles; with three stages it is issued 600 cycles ahead: no stall.

The trace has one entry for each event that matters for time. `WaitLog` keeps for every wait with tokens how many younger
groups were committed when it ran: the smallest such number over a run is the largest count that is safe on its paths.
This is a model to see schedules by, not a simulator of a chip: one thread stands for all. A timeline
is written as Chrome trace JSON (opens in Perfetto) or as SVG.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mlir_async_pipe.facts.costs.cost_model import CostModel, QueueClock
from mlir_async_pipe.session.diagnostics import Place, UsageError

Event = Literal["op", "issue", "commit", "wait", "barrier", "loop", "iteration", "end"]


@dataclass(frozen=True)
class TraceEntry:
    """One event of thread 0.

    `queue` and `bytes` for issues; `group` is the number of the group that a commit makes;
    `left` the groups that a wait leaves in flight (-1 elsewhere), `covers` the number of ops
    of the queue that are over then; `cost` the cycles that stand on the op,
    `kind` under which else its cost is found.
    """

    event: Event
    op: str
    place: Place
    queue: str = ""
    bytes: int = 0
    group: int = -1
    left: int = -1
    covers: int = 0
    cost: int | None = None
    kind: str = ""


@dataclass
class Trace:
    """All entries of thread 0, in program order; `limit` bounds their number."""

    entries: list[TraceEntry] = field(default_factory=list)
    limit: int = 200_000

    def add(self, entry: TraceEntry) -> None:
        """Append an entry, silently dropping what is over the limit."""
        if len(self.entries) < self.limit:
            self.entries.append(entry)

    def executed(self, site: Any) -> None:
        """An op ran that is no event of its own; structured ops and async ops are left out."""
        if site.row.queue is None and site.row.barrier is None:
            self.add(TraceEntry("op", site.name, site.place, cost=site.cost, kind=site.kind))


@dataclass(frozen=True)
class WaitRun:
    """One wait op over a run: `count` is the largest N that it ran with, `exact` the smallest
    number of groups younger than the one that its token names, `times` how often it ran."""

    op: str
    place: Place
    queue: str
    count: int
    exact: int | None
    times: int


class WaitLog:
    """Gathers wait records by op."""

    def __init__(self) -> None:
        self._records: dict[int, WaitRun] = {}

    def add(self, site: Any, queue: str, count: int, younger: np.ndarray | None) -> None:
        """One execution; `younger` has an entry for each active lane, None without token."""
        exact = None if younger is None or len(younger) == 0 else int(younger.min())
        known = self._records.get(site.number)
        if known is not None:
            count = max(count, known.count)
            seen = [value for value in (exact, known.exact) if value is not None]
            exact = min(seen) if seen else None
        times = 1 if known is None else known.times + 1
        self._records[site.number] = WaitRun(site.name, site.place, queue, count, exact, times)

    def all(self) -> tuple[WaitRun, ...]:
        return tuple(self._records.values())


# Cycles ------------------------------------------------------------------------------------

Phase = Literal["prologue", "kernel", "epilogue"]


@dataclass(frozen=True)
class Bar:
    """One stretch of time on a lane, in cycles."""

    lane: str
    name: str
    kind: Literal["compute", "stall", "group"]
    start: float
    end: float


@dataclass(frozen=True)
class Timeline:
    """The bars, the waits (name, moment), the phases (name, start, end), and the stalls and
    starts of the kernel's iterations."""

    bars: tuple[Bar, ...]
    waits: tuple[tuple[str, float], ...]
    phases: tuple[tuple[Phase, float, float], ...]
    iteration_stalls: tuple[float, ...]
    iteration_starts: tuple[float, ...]
    total: float

    @property
    def stalls(self) -> float:
        return sum(bar.end - bar.start for bar in self.bars if bar.kind == "stall")

    @property
    def stall_an_iteration(self) -> float:
        """Stalled cycles of a kernel iteration on average, without the first, which fills the
        pipeline."""
        steady = self.iteration_stalls[1:] or self.iteration_stalls
        return sum(steady) / len(steady) if steady else 0

    def _repr_svg_(self) -> str:
        return svg(self)

    def summary(self) -> str:
        count = len(self.iteration_stalls)
        return (
            f"{self.total:g} cycles, {self.stalls:g} of them stalled; kernel: {count} iterations, "
            f"{self.stall_an_iteration:g} stalled cycles in each but the first"
        )


@dataclass
class _Queue:
    clock: QueueClock = field(default_factory=QueueClock)
    group_start: float | None = None


def lay_out(trace: Trace, model: CostModel) -> Timeline:
    return _Layout(model, _kernel_loop(trace)).run(trace)


def _kernel_loop(trace: Trace) -> Place | None:
    """The place of the loop that commits most groups by itself, None if none does."""
    open_loops: list[Place] = []
    commits: dict[Place, int] = {}
    for entry in trace.entries:
        if entry.event == "loop":
            open_loops.append(entry.place)
        elif entry.event == "end":
            open_loops.pop()
        elif entry.event == "commit" and open_loops:
            commits[open_loops[-1]] = commits.get(open_loops[-1], 0) + 1
    return max(commits, key=lambda place: commits[place]) if commits else None


class _Layout:
    """Walks a trace with a clock."""

    def __init__(self, model: CostModel, kernel: Place | None) -> None:
        self.model = model
        self.kernel = kernel
        self.now: float = 0
        self.queues: dict[str, _Queue] = {}
        self.bars: list[Bar] = []
        self.waits: list[tuple[str, float]] = []
        self.marks: list[tuple[float, float]] = []
        self.begin: float | None = None
        self.starts: list[float] = []
        self.stalled: list[float] = []

    def run(self, trace: Trace) -> Timeline:
        for entry in trace.entries:
            getattr(self, f"_{entry.event}")(entry)
        end = max([self.now, *(bar.end for bar in self.bars)])
        return Timeline(
            tuple(self.bars),
            tuple(self.waits),
            self._phases(end),
            tuple(self.stalled),
            tuple(self.starts),
            end,
        )

    def _op(self, entry: TraceEntry) -> None:
        self._compute(entry.op, self.model.held(entry.op, entry.kind, entry.cost))

    def _barrier(self, entry: TraceEntry) -> None:
        self._compute(entry.op, self.model.barrier)

    def _compute(self, name: str, cycles: float) -> None:
        if cycles <= 0:
            return
        last = self.bars[-1] if self.bars else None
        start = self.now
        self.now += cycles
        # Equal ops without a wait between them are one bar.
        waited = bool(self.waits) and self.waits[-1][1] >= start
        same = last is not None and (last.kind, last.name, last.end) == ("compute", name, start)
        if last is not None and same and not waited:
            self.bars[-1] = Bar("thread", name, "compute", last.start, self.now)
        else:
            self.bars.append(Bar("thread", name, "compute", start, self.now))

    def _issue(self, entry: TraceEntry) -> None:
        queue = self.queues.setdefault(entry.queue, _Queue())
        queue.clock.issue(
            self.now,
            self.model.occupancy(entry.queue, entry.bytes),
            self.model.arrival(entry.queue, entry.cost),
        )
        if queue.group_start is None:
            queue.group_start = self.now
        self._compute(entry.op, self.model.ops.get(entry.op, 0))

    def _commit(self, entry: TraceEntry) -> None:
        queue = self.queues.setdefault(entry.queue, _Queue())
        if queue.group_start is not None:
            name = f"group {entry.group}"
            arrival = queue.clock.arrivals[-1]
            self.bars.append(Bar(entry.queue, name, "group", queue.group_start, arrival))
        queue.group_start = None

    def _wait(self, entry: TraceEntry) -> None:
        queue = self.queues.setdefault(entry.queue, _Queue())
        ready = queue.clock.arrivals[entry.covers - 1] if entry.covers > 0 else 0
        if ready > self.now:
            self.bars.append(Bar("thread", f"wait {entry.left}", "stall", self.now, ready))
            if self.begin is not None and self.stalled:
                self.stalled[-1] += ready - self.now
            self.now = ready
        self.waits.append((f"wait {entry.left}", self.now))

    def _loop(self, entry: TraceEntry) -> None:
        if self._is_kernel(entry):
            self.begin = self.now

    def _iteration(self, entry: TraceEntry) -> None:
        if self._is_kernel(entry):
            self.starts.append(self.now)
            self.stalled.append(0)

    def _end(self, entry: TraceEntry) -> None:
        if self._is_kernel(entry) and self.begin is not None:
            self.marks.append((self.begin, self.now))
            self.begin = None

    def _is_kernel(self, entry: TraceEntry) -> bool:
        return entry.op != "" and entry.place == self.kernel

    def _phases(self, end: float) -> tuple[tuple[Phase, float, float], ...]:
        if not self.marks:
            return ()
        found: list[tuple[Phase, float, float]] = []
        before: float = 0
        for start, stop in self.marks:
            found += [("prologue", before, start), ("kernel", start, stop)]
            before = stop
        found.append(("epilogue", self.marks[-1][1], end))
        return tuple(phase for phase in found if phase[2] > phase[1])


# -- as files ------------------------------------------------------------------------------------------

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
    title = f"{bar.name}: {bar.start:g} to {bar.end:g}, {bar.end - bar.start:g} cycles"
    label = bar.name if bar.kind != "stall" else f"{bar.end - bar.start:g}"
    text = ""
    if width > 6 * len(label) + 4:
        text = f'<text x="{left + 3}" y="{top + 13}" fill="white">{escape(label)}</text>'
    return (
        f'<g><title>{escape(title)}</title><rect x="{left}" y="{top}" '
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
