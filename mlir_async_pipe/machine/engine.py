"""Executes decoded instructions for all threads of a unit in lock step.

Lanes that take different paths run one after the other under a mask, and meet again
after the structured op, or, for branches between blocks, at the first block in textual
order that some lane still has to run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mlir_async_pipe.machine.decode import DecodedBlock, DecodedRegion, Function, Site
from mlir_async_pipe.machine.fifos import Marks, Queues
from mlir_async_pipe.machine.lane_values import NONE, merge
from mlir_async_pipe.machine.terms import is_array
from mlir_async_pipe.machine.trace import Event, TraceEntry
from mlir_async_pipe.session.diagnostics import MachineError
from mlir_async_pipe.vocabulary import Queue

Array = np.ndarray


@dataclass(eq=False)
class Activation:
    """One activation of a function: its values, and its marks of function-scope queues."""

    values: dict[int, Any] = field(default_factory=dict)
    marks: dict[str, Marks] = field(default_factory=dict)


class Polling:
    """A loop that reads flags lets others run after each iteration. One that carries the values of
    the one before it, with memory unchanged since, repeats it until another thread writes."""

    def __init__(self, unit: Unit, site: Any) -> None:
        self.unit, self.site = unit, site
        self._last: tuple[Any, ...] = ()

    def next_iteration(self, *carried: Any) -> None:
        """The next iteration begins, with the values `carried`. Raises StuckError."""
        launch = self.unit.launch
        now = (launch.memory.changes, *carried)
        is_idle = len(now) == len(self._last) and all(map(_same, now, self._last))
        self._last = now
        launch.scheduler.next_iteration(self.unit, self.site, is_idle)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if is_array(one) and is_array(other):
        return bool(np.array_equal(one, other))
    return one is other or (isinstance(one, int) and one == other)


@dataclass(eq=False)
class Unit:
    """Threads that run in lock step.

    `threads` are their linear ids in the block, which has the number `rank` in its cluster, `mask` the lanes that are active now (None:
    all). `launch` holds what all units of the grid share, `depth` counts the calls that run. `deferred` is the running
    async_pipe.scope, None outside. `registers` are those of sums, None if no product needs a fence. `kept`
    is the mask of the vector.mask around, if there is one.
    """

    launch: Any
    threads: Array
    queues: Queues
    mask: Array | None = None
    frame: Activation = field(default_factory=Activation)
    deferred: Any = None
    rank: int = 0
    registers: Any = None
    kept: Array | None = None
    rounds: dict[int, int] = field(default_factory=dict)
    depth: int = 0

    @property
    def width(self) -> int:
        return len(self.threads)

    def active(self) -> Array:
        """The active lanes as an array of booleans."""
        return np.ones(self.width, np.bool_) if self.mask is None else self.mask

    def grid_threads(self, lanes: Any) -> Array:
        """The linear ids in the grid of the threads in some lanes."""
        return np.asarray(self.launch.grid_threads(self.threads[lanes]))

    def mask_of(self, lanes: Any) -> Array:
        """Some lanes as an array of booleans."""
        mask = np.zeros(self.width, np.bool_)
        mask[lanes] = True
        return mask

    def first_lanes(self) -> Array:
        """The first active lane of each warp that has one."""
        lanes = np.flatnonzero(self.active())
        _, first = np.unique(self.threads[lanes] // self.launch.options.warp, return_index=True)
        return np.asarray(lanes[first])

    def report(
        self,
        code: str,
        site: Site,
        lane: int | np.integer[Any] = 0,
        other: int | None = None,
        **details: Any,
    ) -> None:
        """Log a finding of the thread in a lane; `other` is the site at its other end."""
        thread = int(self.grid_threads([lane])[0])
        self.launch.detector.report(code, site.number, other, thread=thread, **details)

    def note(self, event: Event, site: Site, **more: Any) -> None:
        """Add an event to the trace, if this unit is traced."""
        trace = self.launch.trace_of(self)
        if trace is not None:
            trace.add(TraceEntry(event, site.name, site.place, **more))

    def tick(self) -> None:
        """Where data of async ops arrive at random moments, now may be one."""
        if self.launch.random_completion:
            self.queues.tick()

    def marks(self, queue: Queue) -> Marks:
        """The marks that a wait on `queue` counts here."""
        if queue.scope == "thread":
            return self.queues.fifo(queue).thread_marks
        if queue.name not in self.frame.marks:
            self.frame.marks[queue.name] = Marks(self.width)
        return self.frame.marks[queue.name]

    def call(self, function: Function, arguments: tuple[Any, ...]) -> list[Any]:
        """Run a function in a frame of its own, with copies of what it is passed by value."""
        if self.depth >= self.launch.depth_limit:
            raise MachineError(
                f"calls are nested more than {self.launch.depth_limit} deep",
                code="recursion-limit",
                at=function.site.place,
            )
        if function.by_value:
            arguments = self.launch.copies_by_value(self, function, arguments)
        outer, self.frame = self.frame, Activation()
        self.depth += 1
        try:
            return self.run_region(function.body, arguments)
        finally:
            self.frame = outer
            self.depth -= 1

    def run_region(self, region: DecodedRegion, arguments: tuple[Any, ...] = ()) -> list[Any]:
        """Run a region; returns what its terminator hands out."""
        if len(region.blocks) == 1:
            block = region.blocks[0]
            values = self.frame.values
            for key, value in zip(block.arguments, arguments, strict=True):
                values[key] = value
            self._run(block)
            return [values[key] for key in block.leave]
        return self._run_blocks(region, arguments)

    def under(self, mask: Any, region: DecodedRegion, arguments: tuple[Any, ...] = ()) -> list[Any]:
        """Run a region with other lanes active."""
        outer, self.mask = self.mask, mask
        try:
            return self.run_region(region, arguments)
        finally:
            self.mask = outer

    def _run(self, block: DecodedBlock) -> None:
        # The terminator is one too, or an empty loop would never come to its limit.
        self.launch.take_steps(len(block.instructions) + 1)
        values = self.frame.values
        trace = self.launch.trace_of(self)
        for instruction in block.instructions:
            result = instruction.execute(self, *[values[key] for key in instruction.operands])
            keys = instruction.results
            if len(keys) == 1:
                values[keys[0]] = result
            elif keys:
                for key, value in zip(keys, result, strict=True):
                    values[key] = value
            if trace is not None:
                trace.executed(instruction.site)

    def _run_blocks(self, region: DecodedRegion, arguments: tuple[Any, ...]) -> list[Any]:
        entry_mask = self.mask
        waiting: dict[int, tuple[Any, tuple[Any, ...]]] = {0: (entry_mask, arguments)}
        left: list[Any] | None = None
        polling: Polling | None = None
        try:
            while waiting:
                number = min(waiting)
                self.mask, passed = waiting.pop(number)
                block = region.blocks[number]
                # Lanes that are ahead and wait elsewhere keep the values that they have.
                diverged = self.mask is not entry_mask
                self._bind(block.arguments, passed, diverged)
                if diverged:
                    self._run_keeping(block)
                else:
                    self._run(block)
                if block.jump is None:
                    out = [self.frame.values[key] for key in block.leave]
                    left = out if left is None else list(merge(self.mask, out, left))
                    continue
                values = [self.frame.values[key] for key in block.jump.operands]
                for target, mask, out in block.jump.execute(self, *values):
                    if mask is NONE:
                        continue
                    if region.polls and target <= number:
                        polling = polling or Polling(self, block.jump.site)
                        polling.next_iteration((target, mask, *out))
                    waiting[target] = self._join(waiting.get(target), mask, tuple(out), entry_mask)
        finally:
            self.mask = entry_mask
        return left or []

    def _bind(self, keys: tuple[int, ...], passed: tuple[Any, ...], keep: bool) -> None:
        values = self.frame.values
        for key, value in zip(keys, passed, strict=True):
            values[key] = merge(self.mask, value, values.get(key)) if keep else value

    def _run_keeping(self, block: DecodedBlock) -> None:
        values = self.frame.values
        keys = [key for instruction in block.instructions for key in instruction.results]
        before = {key: values[key] for key in keys if key in values}
        self._run(block)
        for key, old in before.items():
            values[key] = merge(self.mask, values[key], old)

    @staticmethod
    def _join(
        known: tuple[Any, tuple[Any, ...]] | None,
        mask: Any,
        passed: tuple[Any, ...],
        everyone: Any,
    ) -> tuple[Any, tuple[Any, ...]]:
        if known is None:
            return mask, passed
        both = known[0] | mask
        merged = tuple(merge(mask, new, old) for new, old in zip(passed, known[1], strict=True))
        whole = both.all() if everyone is None else (both == everyone).all()
        return (everyone if whole else both), merged
