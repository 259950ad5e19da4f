"""The pipelined form of one loop as data: everything that the writer needs to know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mlir_async_pipe.bindings.raw_ops import Operation, Value
from mlir_async_pipe.facts.values.memory_roots import Space
from mlir_async_pipe.pipeliner.plan.barrier_pairs import BarrierPair, Boundary, KeptBarrier
from mlir_async_pipe.pipeliner.plan.buffer_plan import BufferPlan
from mlir_async_pipe.pipeliner.plan.form_groups import Group
from mlir_async_pipe.pipeliner.plan.sync_state import Need, Synchronisation
from mlir_async_pipe.pipeliner.plan.units import Units


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
