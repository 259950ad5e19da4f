"""The pipelined form of one loop as data: everything that the writer needs to know."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from mlir_async_pipe.bindings.raw_ops import Operation
from mlir_async_pipe.plan.barrier_pairs import BarrierPair, Boundary
from mlir_async_pipe.plan.buffer_plan import BufferPlan
from mlir_async_pipe.plan.form_groups import Group
from mlir_async_pipe.plan.kept_barriers import KeptBarrier
from mlir_async_pipe.plan.needs import Need
from mlir_async_pipe.plan.plan_summary import Summary, summary_of
from mlir_async_pipe.plan.sync_state import Synchronisation
from mlir_async_pipe.plan.units import Units
from mlir_async_pipe.values.memory_roots import Space


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
        """What is told of it."""
        return summary_of(self)
