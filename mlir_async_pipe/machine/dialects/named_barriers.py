"""nvvm.barrier of some threads of a block, and nvvm.barrier.arrive, which does not stop.

A named barrier is an mbarrier without memory: as many arrivals as its threads make a phase, and a
thread that syncs waits for the phase that it arrived in (PTX ISA, barrier).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mlir_async_pipe.machine.barrier_phases import Mbarrier
from mlir_async_pipe.machine.decode import Site
from mlir_async_pipe.machine.dialects import gpu
from mlir_async_pipe.machine.dialects.async_ops import refuse_in_scope
from mlir_async_pipe.machine.dialects.mbarriers import warps_of
from mlir_async_pipe.machine.engine import Unit
from mlir_async_pipe.machine.lane_values import lanes_of, uniform
from mlir_async_pipe.machine.registry import Execute, semantics
from mlir_async_pipe.vocabulary import groups_of

Array = np.ndarray


@semantics("nvvm.barrier")
def barrier(site: Site) -> Execute:
    """All threads of the block, or as many as the op says, meet at the barrier of its number."""
    groups = groups_of(site.op)
    number, threads, predicate = groups["number"], groups["threads"], groups["predicate"]
    if not site.meets_some:
        return _reducing(site, predicate[0]) if predicate else gpu.barrier(site)
    if predicate:
        raise site.unsupported("barriers of some threads that reduce a predicate")

    def execute(unit: Unit, *operands: Array) -> None:
        count = operands[threads[0]] if threads else uniform(unit.launch.block_size)
        name = operands[number[0]] if number else uniform(0)
        found, lanes = _arrive(unit, site, name, count)
        barrier, phase = found
        unit.launch.scheduler.block(unit, site, [barrier], lambda: barrier.phase > phase)
        unit.launch.mbarriers.waited(barrier, warps_of(unit, lanes))

    return execute


# What `#nvvm.reduction` makes of the predicates of all threads (PTX ISA, barrier.red).
_REDUCTIONS: dict[str, Callable[[Array], Any]] = {"popc": np.sum, "and": np.all, "or": np.any}


def _reducing(site: Site, predicate: int) -> Execute:
    """All threads of the block meet, and each is given what their predicates make."""
    reduce = _REDUCTIONS[site.text("reductionOp").split("<")[-1].strip("<> ")]
    meet, kind = gpu.barrier(site), site.result_kind()

    def execute(unit: Unit, *operands: Array) -> Array:
        gpu.whole_block(unit, site)
        meet(unit)
        return uniform(kind.settle(reduce(lanes_of(operands[predicate], unit.width) != 0)))

    return execute


@semantics("nvvm.barrier.arrive")
def arrive(site: Site) -> Execute:
    """The active threads arrive, and go on."""
    named = len(site.op.operands) > 1

    def execute(unit: Unit, *operands: Array) -> None:
        _arrive(unit, site, operands[0] if named else uniform(0), operands[-1])

    return execute


def _arrive(
    unit: Unit, site: Site, numbers: Array, counts: Array
) -> tuple[tuple[Mbarrier, int], Array]:
    """The active lanes arrive; gives the barrier, the phase that they arrived in, and the lanes."""
    refuse_in_scope(unit, site)
    lanes = np.flatnonzero(unit.active())
    given = {
        (int(number), int(count))
        for number, count in zip(
            lanes_of(numbers, unit.width)[lanes], lanes_of(counts, unit.width)[lanes], strict=True
        )
    }
    if len(given) != 1:
        raise site.unsupported("lanes of a unit that name different barriers")
    ((number, count),) = given
    # Negative, and so the address of no mbarrier.
    key, barriers = -1 - number - 16 * unit.rank, unit.launch.mbarriers
    if key not in barriers.at:
        barriers.init(key, f"barrier {number}{unit.launch.here}", site.number, count)
    barrier: Mbarrier = barriers.at[key]
    if barrier.count != count:
        raise site.unsupported(f"barrier {number} of {count} threads, and of {barrier.count}")
    phase = barrier.phase
    if not barriers.arrive(barrier, warps_of(unit, lanes), len(lanes), 0):
        raise site.unsupported(f"more than {count} threads at barrier {number}")
    return (barrier, phase), lanes
