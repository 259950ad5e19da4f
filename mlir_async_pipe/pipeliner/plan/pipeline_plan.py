"""The pipelined form of one loop as data: everything that the writer needs to know."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from mlir_async_pipe.bindings.raw_ops import Operation, Value
from mlir_async_pipe.facts.values.memory_roots import Space
from mlir_async_pipe.pipeliner.plan.barrier_pairs import BarrierPair, Boundary, KeptBarrier
from mlir_async_pipe.pipeliner.plan.buffer_plan import BufferPlan
from mlir_async_pipe.pipeliner.plan.form_groups import Group
from mlir_async_pipe.pipeliner.plan.needs import Need
from mlir_async_pipe.pipeliner.plan.sync_state import Filling, Synchronisation, filling
from mlir_async_pipe.pipeliner.plan.units import Units


@dataclass(frozen=True)
class Touches:
    """The first write of a buffer in an iteration, and the last op that touches it."""

    write_stage: int
    write: Operation
    last_stage: int
    last: Operation


@dataclass(frozen=True)
class Separated:
    """Two ops that a barrier keeps apart, for `pairs` of ops of these names at this lag."""

    first: Operation
    second: Operation
    lag: int
    pairs: int


@dataclass(frozen=True)
class Summary:
    """How many groups an iteration has, what keeps the counts of their queues steady, of each buffer
    who touches it, and what barriers separate."""

    groups: int
    filling: Filling
    touches: tuple[Touches, ...]
    separated: tuple[Separated, ...]


@dataclass(frozen=True)
class RingCounter:
    """Slot and phase of the tiles of a ring of so many `versions`, one tile an iteration: `slot` and `phase`
    stand for those of an iteration wherever its ops use them, and after the loop for those of the next
    tile; `start` are those of the first. `earlier` stands for the slot `tiles` before, in the last stage."""

    versions: int
    slot: Value
    phase: Value
    earlier: Value
    tiles: int
    start: tuple[Value, Value]


@dataclass(frozen=True)
class Plan:
    """The pipelined form of one loop, decided but not yet written.

    `trip_count` is None if it is not constant; `last_stage` = S - 1 prologue steps run
    before the kernel. `needs`, `barriers` and `kept_barriers` say what has to be over before what,
    `synchronisation` where the waits and barriers stand that see to it.
    """

    loop: Operation
    units: Units
    groups: tuple[Group, ...]
    buffers: tuple[BufferPlan, ...]
    needs: tuple[Need, ...]
    barriers: tuple[BarrierPair, ...]
    kept_barriers: tuple[KeptBarrier, ...]
    synchronisation: Synchronisation
    wait_at: Literal["consumer", "iteration"]
    epilogue: Literal["peel", "predicate"]
    short_trip: Literal["version", "predicate", "assume"]
    trip_count: int | None
    last_stage: int
    boundary: Boundary
    counters: tuple[RingCounter, ...] = ()
    # What the prologue leaves out: what it waits for is over from the start.
    kernel_only: tuple[Operation, ...] = ()

    @property
    def may_be_short(self) -> bool:
        """Whether the loop stays beside its pipeline, for trip counts that are too small."""
        return self.trip_count is None and self.last_stage > 0 and self.short_trip == "version"

    @property
    def fenced(self) -> frozenset[Space]:
        """The memory spaces that a barrier between threads has to order."""
        return frozenset(space for pair in self.barriers for space in pair.spaces)

    @property
    def peeled_epilogue(self) -> int:
        """How many steps stand after the kernel; a predicated kernel runs them itself."""
        return 0 if self.epilogue == "predicate" else self.last_stage

    @cached_property
    def summary(self) -> Summary:
        return summary_of(self)


def summary_of(plan: Plan) -> Summary:
    return Summary(
        len(plan.groups),
        filling(plan.synchronisation),
        tuple(_touches(plan, buffer) for buffer in plan.buffers),
        _separated(plan),
    )


def _touches(plan: Plan, buffer: BufferPlan) -> Touches:
    touched = [(plan.units.unit_of(region.top), region) for region in buffer.regions]
    first, write = min(
        (entry for entry in touched if entry[1].writes),
        key=lambda entry: (entry[0].stage, entry[0].position),
        default=touched[0],
    )
    last, use = max(touched, key=lambda entry: (entry[0].stage, entry[0].position))
    return Touches(first.stage, write.op, last.stage, use.op)


def _separated(plan: Plan) -> tuple[Separated, ...]:
    """The pairs that need a barrier, those of ops of the same names reported as one."""
    ends = [(pair.first.ops[0], pair.second.ops[0], pair.lag) for pair in plan.barriers]
    named = [(first.name, second.name, lag) for first, second, lag in ends]
    numbers = Counter(named)
    examples = dict(reversed(list(zip(named, ends, strict=True))))
    return tuple(Separated(*examples[key], number) for key, number in numbers.items())
