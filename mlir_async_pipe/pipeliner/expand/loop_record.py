"""What the report holds of a pipelined loop: its buffers and why they have their versions, its
barriers and what they separate."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings.raw_ops import Operation, function_name
from mlir_async_pipe.pipeliner.plan.buffer_plan import BufferPlan
from mlir_async_pipe.pipeliner.plan.pipeline_plan import Plan
from mlir_async_pipe.pipeliner.plan.ring_plan import RingPlan
from mlir_async_pipe.pipeliner.plan.sync_state import Filling, filling
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
    return LoopRecord(
        Place.of(plan.loop),
        function_name(plan.loop),
        plan.last_stage + 1,
        len(plan.groups),
        plan.trip_count,
        plan.wait_at,
        plan.short_trip,
        filling(plan.synchronisation),
        tuple(_touched(plan, buffer, numbering) for buffer in plan.buffers),
        _separated(plan),
    )


def _touched(plan: Plan, buffer: BufferPlan, numbering: Any) -> BufferRecord:
    """A buffer, with its first write in an iteration and the last op that touches it."""
    touched = [(plan.units.unit_of(region.top), region) for region in buffer.regions]
    first, write = min(
        (entry for entry in touched if entry[1].writes),
        key=lambda entry: (entry[0].stage, entry[0].position),
        default=touched[0],
    )
    last, use = max(touched, key=lambda entry: (entry[0].stage, entry[0].position))
    return _buffer_record(buffer, numbering, (first.stage, write.op), (last.stage, use.op))


def _separated(plan: Plan) -> tuple[SeparatedPair, ...]:
    """The pairs that need a barrier, those of ops of the same names reported as one."""
    ends = [(pair.first.ops[0], pair.second.ops[0], pair.lag) for pair in plan.barriers]
    named = [(first.name, second.name, lag) for first, second, lag in ends]
    examples = dict(reversed(list(zip(named, ends, strict=True))))
    found = []
    for key, pairs in Counter(named).items():
        first, second, lag = examples[key]
        places = Place.of(first), Place.of(second)
        found.append(SeparatedPair(first.name, places[0], second.name, places[1], lag, pairs))
    return tuple(found)


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
            _buffer_record(buffer, numbering, (0, buffer.regions[0].op), (plan.ahead, use))
            for buffer in plan.buffers
        ),
    )


def _buffer_record(
    buffer: BufferPlan, numbering: Any, write: tuple[int, Operation], last: tuple[int, Operation]
) -> BufferRecord:
    """`write` and `last` are a stage and the op in it."""
    return BufferRecord(
        buffer.root.describe(numbering),
        buffer.versions,
        buffer.slot_bytes,
        buffer.versions * buffer.slot_bytes,
        buffer.extra_wait,
        write[0],
        Place.of(write[1]),
        last[0],
        Place.of(last[1]),
    )
