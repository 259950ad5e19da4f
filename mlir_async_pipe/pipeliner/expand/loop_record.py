"""What the report holds of a pipelined loop: its buffers and why they have their versions, its
barriers and what they separate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings.raw_ops import function_name
from mlir_async_pipe.pipeliner.plan.pipeline_plan import Plan
from mlir_async_pipe.pipeliner.plan.ring_plan import RingPlan
from mlir_async_pipe.pipeliner.plan.sync_state import Filling
from mlir_async_pipe.session.diagnostics import Place


@dataclass(frozen=True)
class BufferRecord:
    """One versioned buffer in the report; bytes of one slot and of all versions.

    The loop writes it first in `write_stage`, at `write_place`, and touches it last in
    `last_stage`, at `last_place`: V versions let an iteration's slot be written again V iterations
    later. `extra_wait`: there are fewer than the loosest waits want.
    """

    buffer: str
    versions: int
    slot_bytes: int
    bytes: int
    extra_wait: bool
    write_stage: int
    write_place: Place
    last_stage: int
    last_place: Place


@dataclass(frozen=True)
class SeparatedPair:
    """Two ops that barriers of the loop keep apart: `second` may meet what another thread did
    with `first` in the same step, or `lag` steps before. `pairs` of ops of these names do."""

    first: str
    first_place: Place
    second: str
    second_place: Place
    lag: int
    pairs: int


@dataclass(frozen=True)
class LoopRecord:
    """One pipelined loop in the report.

    `function` is the name of the function around it. `filling` says what keeps the counts of a queue steady that several stages share,
    `carried_registers` are those of 32 bits, in each thread, of the values that travel from step
    to step.
    """

    place: Place
    function: str
    stages: int
    groups_per_iteration: int
    trip_count: int | None
    wait_at: str
    short_trip: str
    filling: Filling
    buffers: tuple[BufferRecord, ...]
    barriers: tuple[SeparatedPair, ...] = ()
    carried_registers: int = 0


def record_of(plan: Plan, numbering: Any) -> LoopRecord:
    """The report's entry; `numbering` (ir.AsmState) has the names of all values."""
    summary = plan.summary
    return LoopRecord(
        Place.of(plan.loop),
        function_name(plan.loop),
        plan.last_stage + 1,
        summary.groups,
        plan.trip_count,
        plan.wait_at,
        plan.short_trip,
        summary.filling,
        tuple(
            BufferRecord(
                buffer.root.describe(numbering),
                buffer.versions,
                buffer.slot_bytes,
                buffer.versions * buffer.slot_bytes,
                buffer.extra_wait,
                touches.write_stage,
                Place.of(touches.write),
                touches.last_stage,
                Place.of(touches.last),
            )
            for buffer, touches in zip(plan.buffers, summary.touches, strict=True)
        ),
        tuple(
            SeparatedPair(
                each.first.name,
                Place.of(each.first),
                each.second.name,
                Place.of(each.second),
                each.lag,
                each.pairs,
            )
            for each in summary.separated
        ),
    )


def ring_record(plan: RingPlan, numbering: Any) -> LoopRecord:
    """The same of a loop of tensor copies."""
    # A product reads its tile until a wait says that it is over; other readers come after the phase.
    use = (*plan.products.waits, *(each.wait for each in plan.transactions))[0]
    return LoopRecord(
        Place.of(plan.loop),
        function_name(plan.loop),
        plan.ahead + 1,
        len(plan.transactions),
        plan.trip_count,
        "consumer",
        "predicate",
        Filling(0, 0),
        tuple(
            BufferRecord(
                buffer.root.describe(numbering),
                buffer.versions,
                buffer.slot_bytes,
                buffer.versions * buffer.slot_bytes,
                buffer.extra_wait,
                0,
                Place.of(buffer.regions[0].op),
                plan.ahead,
                Place.of(use),
            )
            for buffer in plan.buffers
        ),
    )
