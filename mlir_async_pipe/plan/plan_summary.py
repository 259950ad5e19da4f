"""What is told of a plan, with the ops that it names: little of it, which outlives the rest."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_async_pipe.bindings.raw_ops import Operation
from mlir_async_pipe.plan.buffer_plan import BufferPlan
from mlir_async_pipe.plan.empty_groups import Filling, filling

if TYPE_CHECKING:
    from mlir_async_pipe.plan.pipeline_plan import Plan


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


def summary_of(plan: Plan) -> Summary:
    """The summary of a plan."""
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
    """The pairs that need a barrier, those of ops of the same names told as one."""
    ends = [(pair.first.ops[0], pair.second.ops[0], pair.lag) for pair in plan.barriers]
    named = [(first.name, second.name, lag) for first, second, lag in ends]
    numbers = Counter(named)
    examples = dict(reversed(list(zip(named, ends, strict=True))))
    return tuple(Separated(*examples[key], number) for key, number in numbers.items())
