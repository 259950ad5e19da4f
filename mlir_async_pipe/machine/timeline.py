"""When things happen: the trace of thread 0 laid out in cycles by a cost model.

The thread runs its ops one after the other. A copy occupies its queue for bytes / throughput
cycles and arrives `latency` cycles later; groups of a queue complete in order. A wait stalls
until the last op that it covers has arrived:

    latency 500, compute 300, two stages: the copy is issued one iteration ahead, so each wait
    stalls 500 - 300 = 200 cycles; with three stages it is issued 600 cycles ahead: no stall.

This is a model to see schedules by, not a simulator of a chip: one thread stands for all.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import Literal

from mlir_async_pipe.costs.cost_model import CostModel, QueueClock
from mlir_async_pipe.machine.trace import Entry, Trace

__all__ = ["Bar", "CostModel", "Phase", "Timeline", "lay_out"]

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
        """Stalled cycles in all."""
        return sum(bar.end - bar.start for bar in self.bars if bar.kind == "stall")

    @property
    def stall_an_iteration(self) -> float:
        """Stalled cycles of a kernel iteration on average, without the first, which fills the
        pipeline."""
        steady = self.iteration_stalls[1:] or self.iteration_stalls
        return sum(steady) / len(steady) if steady else 0

    def _repr_svg_(self) -> str:
        """The picture, as notebooks show it."""
        output = importlib.import_module("mlir_async_pipe.machine.timeline_output")
        return str(output.svg(self))

    def summary(self) -> str:
        """The figures in one line."""
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
    """Give every entry of a trace its cycles."""
    return _Layout(model, _kernel_loop(trace)).run(trace)


def _kernel_loop(trace: Trace) -> tuple[str, int, int] | None:
    """The place of the loop that commits most groups by itself, None if none does."""
    open_loops: list[tuple[str, int, int]] = []
    commits: dict[tuple[str, int, int], int] = {}
    for entry in trace.entries:
        place = (entry.place.file, entry.place.line, entry.place.column)
        if entry.event == "loop":
            open_loops.append(place)
        elif entry.event == "end":
            open_loops.pop()
        elif entry.event == "commit" and open_loops:
            commits[open_loops[-1]] = commits.get(open_loops[-1], 0) + 1
    return max(commits, key=lambda place: commits[place]) if commits else None


class _Layout:
    """Walks a trace with a clock."""

    def __init__(self, model: CostModel, kernel: tuple[str, int, int] | None) -> None:
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
        """Lay out all entries."""
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

    def _op(self, entry: Entry) -> None:
        self._compute(entry.op, self.model.held(entry.op, entry.kind, entry.cost))

    def _barrier(self, entry: Entry) -> None:
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

    def _issue(self, entry: Entry) -> None:
        queue = self.queues.setdefault(entry.queue, _Queue())
        queue.clock.issue(
            self.now,
            self.model.occupancy(entry.queue, entry.bytes),
            self.model.arrival(entry.queue, entry.cost),
        )
        if queue.group_start is None:
            queue.group_start = self.now
        self._compute(entry.op, self.model.ops.get(entry.op, 0))

    def _commit(self, entry: Entry) -> None:
        queue = self.queues.setdefault(entry.queue, _Queue())
        if queue.group_start is not None:
            name = f"group {entry.group}"
            arrival = queue.clock.arrivals[-1]
            self.bars.append(Bar(entry.queue, name, "group", queue.group_start, arrival))
        queue.group_start = None

    def _wait(self, entry: Entry) -> None:
        queue = self.queues.setdefault(entry.queue, _Queue())
        ready = queue.clock.arrivals[entry.covers - 1] if entry.covers > 0 else 0
        if ready > self.now:
            self.bars.append(Bar("thread", f"wait {entry.left}", "stall", self.now, ready))
            if self.begin is not None and self.stalled:
                self.stalled[-1] += ready - self.now
            self.now = ready
        self.waits.append((f"wait {entry.left}", self.now))

    def _loop(self, entry: Entry) -> None:
        if self._is_kernel(entry):
            self.begin = self.now

    def _iteration(self, entry: Entry) -> None:
        if self._is_kernel(entry):
            self.starts.append(self.now)
            self.stalled.append(0)

    def _end(self, entry: Entry) -> None:
        if self._is_kernel(entry) and self.begin is not None:
            self.marks.append((self.begin, self.now))
            self.begin = None

    def _is_kernel(self, entry: Entry) -> bool:
        place = (entry.place.file, entry.place.line, entry.place.column)
        return entry.op != "" and place == self.kernel

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
