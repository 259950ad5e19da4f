"""What things cost, in cycles: the one table of the timeline and of the modulo scheduler.

A thread runs its ops one after the other, and each holds it for some cycles. A copy occupies its
queue for bytes / throughput cycles and arrives `latency` cycles later; groups of one queue
complete in order. This is a model to compare schedules by, not a simulator of a chip.

Costs are found under the name of an op, else under its *kind*: what it does to which memory
(`read.global`, `write.workgroup`, …), or its dialect (`math`). What stands on the op itself
(`async_pipe.latency`, `async_pipe.cycles`) comes before both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mlir_async_pipe.bindings.raw_ops import (
    ancestors,
    integer_attribute,
    is_function,
    walk,
)
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.facts.loops.annotations import CYCLES, LATENCY
from mlir_async_pipe.facts.values.memory_roots import root_of
from mlir_async_pipe.session.diagnostics import UsageError
from mlir_async_pipe.vocabulary import accesses, row_of

# `--cost` begins with the chip's own table where this stands in it.
CHIP = "chip"


@dataclass(frozen=True)
class CostModel:
    """What things cost, in cycles.

    `latency`: from the end of a copy's issue on its queue to its arrival, by queue name; queues
    that are not listed take `default_latency`. `bytes_per_cycle`: throughput of a queue for this
    thread's copies, none for unlimited. `ops`: cycles that an op holds the thread, by name or
    kind, fractions for several issued together; ops in neither cost nothing.
    """

    latency: Mapping[str, int] = field(default_factory=dict)
    bytes_per_cycle: Mapping[str, float] = field(default_factory=dict)
    ops: Mapping[str, float] = field(default_factory=dict)
    default_latency: int = 500
    barrier: int = 0

    @staticmethod
    def parse(text: str, target: Target | None = None) -> CostModel:
        """Read `latency=500,latency.QUEUE=400,throughput.QUEUE=8,barrier=20,OP=300`.

        Nothing but what is listed costs anything, unless `chip` is listed: then the table of
        the target's chip is the base. Empty text is that table alone.
        Raises UsageError (bad-cost) for what is none of these.
        """
        items = [item for item in text.split(",") if item]
        base = costs_of(target) if CHIP in items or not items else CostModel()
        latency = dict(base.latency)
        throughput = dict(base.bytes_per_cycle)
        ops = dict(base.ops)
        general = {"latency": base.default_latency, "barrier": base.barrier}
        for item in items:
            if item == CHIP:
                continue
            key, number = _read_item(item)
            if key in general:
                general[key] = int(number)
            elif key.startswith("latency."):
                latency[key.removeprefix("latency.")] = int(number)
            elif key.startswith("throughput."):
                throughput[key.removeprefix("throughput.")] = number
            else:
                ops[key] = number
        return CostModel(latency, throughput, ops, general["latency"], general["barrier"])

    def held(self, name: str, kind: str, given: float | None) -> float:
        """Cycles that an op holds the thread; `given` is what stands on the op."""
        if given is not None:
            return given
        found = self.ops.get(name)
        return self.ops.get(kind, 0) if found is None else found

    def arrival(self, queue: str, given: float | None) -> float:
        """Cycles from the end of a copy's issue on its queue to its arrival."""
        return self.latency.get(queue, self.default_latency) if given is None else given

    def occupancy(self, queue: str, size: int) -> float:
        """Cycles for which a copy of `size` bytes occupies its queue."""
        rate = self.bytes_per_cycle.get(queue)
        return size / rate if rate else 0


def _read_item(item: str) -> tuple[str, float]:
    key, equals, value = item.partition("=")
    try:
        number = float(value)
    except ValueError:
        number = -1
    if not equals or number < 0:
        raise UsageError(
            f"bad cost '{item}'",
            code="bad-cost",
            advice="NAME=CYCLES, for instance latency=500,nvgpu.mma.sync=16",
        )
    return key, number


# Cycles for which one op of a warp holds its thread: the latency where the value is used right
# away (loads from global memory), else the reciprocal of the throughput. 128 bytes a cycle of
# shared memory: 4 cycles for the 512 bytes of an ldmatrix.x4. m16n8k16 in f16 is 2048 multiply
# and adds, of which a quarter of an sm_80 does 256 a cycle: 8 cycles. (NVIDIA A100 whitepaper;
# Abdelkhalik et al., "Demystifying the NVIDIA Ampere Architecture through Microbenchmarking",
# 2022, for latencies: 290 cycles of global memory where it hits nothing, 500 under load.)
_NVIDIA = CostModel(
    ops={
        "read.global": 500,
        "write.global": 4,
        "read.workgroup": 4,
        "write.workgroup": 4,
        "nvgpu.mma.sync": 8,
        "math": 8,
    },
    barrier=20,
)
# One SIMD issues a 16x16x16 f16 mfma every 8 passes of 4 cycles (AMD CDNA3 ISA, "Dependency
# resolution: required independent instructions"); a copy to LDS comes from memory that is
# about 350 ns away at 2.1 GHz.
_AMD = CostModel(
    ops={
        "read.global": 700,
        "write.global": 4,
        "read.workgroup": 4,
        "write.workgroup": 4,
        "amdgpu.mfma": 32,
        "amdgpu.wmma": 16,
        "math": 16,
    },
    default_latency=700,
    barrier=20,
)
_BY_LOWERING = {"nvvm": _NVIDIA, "rocdl": _AMD}


def costs_of(target: Target | None) -> CostModel:
    """The table of a target; without one that of NVIDIA's chips."""
    return _NVIDIA if target is None else _BY_LOWERING[target.lowering]


def kind_of_op(op: Any) -> str:
    """What an op does to which memory, `read.global` for instance; else its dialect."""
    found = accesses(op)
    if not found:
        return str(op.name).partition(".")[0]
    slowest = next((a for a in found if root_of(a.memory).space == "global"), found[0])
    verb = "write" if slowest.writes else "read"
    return f"{verb}.{root_of(slowest.memory).space}"


def given_cycles(op: Any) -> int | None:
    """The cycles that stand on the op itself."""
    for name in (LATENCY, CYCLES):
        found = integer_attribute(op, name)
        if found is not None:
            return found
    return None


def own_cycles(op: Any) -> int | None:
    """The cycles of one op where the input gives them; None: the model decides.

    Cycles on an op with regions stand for all of it: the ops inside are free, but copies take
    them as their latency, and then the op itself is free. Ops in a scope are part of the copy.
    """
    own = given_cycles(op)
    if own is not None:
        return 0 if len(op.regions) and _copies_inside(op) else own
    for above in ancestors(op):
        if is_function(above):
            return None
        given = given_cycles(above)
        if given is not None:
            return given if _is_async(op) else 0
        if _is_async(above):
            return 0
    return None


def _is_async(op: Any) -> bool:
    row = row_of(op)
    return row.queue is not None and row.asynchronous(op)


def _copies_inside(op: Any) -> bool:
    return not _is_async(op) and any(_is_async(inner) for inner in walk(op))


@dataclass
class QueueClock:
    """When the copies of one queue arrive.

    `free` is when the queue has served what was issued, `arrivals` has the moment at which
    everything up to each copy has arrived.
    """

    free: float = 0
    arrivals: list[float] = field(default_factory=list)

    def issue(self, now: float, occupancy: float, latency: float) -> float:
        """A copy is issued; returns when it and all before it have arrived."""
        self.free = max(now, self.free) + occupancy
        before = self.arrivals[-1] if self.arrivals else 0
        self.arrivals.append(max(before, self.free + latency))
        return self.arrivals[-1]
