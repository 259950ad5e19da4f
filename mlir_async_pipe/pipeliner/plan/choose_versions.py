"""Which buffers get versions, and how many.

After the last iteration copies of a predicated kernel read nothing and fill their destination with
zeros (see `guarded`). That is right only in a slot that nobody reads any more, and inside of it: a
destination that moves with the iteration, `%b[%i]`, would leave the buffer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from mlir_async_pipe.pipeliner.dependence.distance import LoopIndex, static_shape
from mlir_async_pipe.pipeliner.dependence.memory_dependences import Analysis
from mlir_async_pipe.pipeliner.dependence.privatise import SameEachTime
from mlir_async_pipe.pipeliner.dependence.regions import CoveredRegion, by_root
from mlir_async_pipe.pipeliner.plan.buffer_plan import (
    BufferPlan,
    earlier_writes,
    last_writes,
    seen_writes,
    slot_bytes,
)
from mlir_async_pipe.pipeliner.plan.legality import not_predicated
from mlir_async_pipe.pipeliner.plan.sync_state import Group, Need, uses_of
from mlir_async_pipe.pipeliner.plan.units import Units, is_physical
from mlir_async_pipe.pipeliner.plan.version_rules import (
    BufferUse,
    GroupWait,
    asynchronous_versions,
    synchronous_versions,
)
from mlir_async_pipe.session.diagnostics import PipelineError


def plan_buffers(
    analysis: Analysis,
    units: Units,
    group_of: dict[int, Group],
    needs: list[Need],
    wait_at: Literal["consumer", "iteration"],
) -> tuple[BufferPlan, ...]:
    """Versions of each private buffer by the two rules, with the loosest waits."""
    regions, index, privatisation = analysis.regions, analysis.index, analysis.privatisation
    waits = []
    for need in needs:
        unit, group = need.unit, need.group
        order = -1 if wait_at == "iteration" and need.lag > 0 else unit.position
        commit = group.position, group.stage, group.queue, need.distance
        waits.append(GroupWait(unit.stage, order, *commit))
    plans = []
    for key, own in by_root(regions).items():
        found = tuple(own)
        if key not in privatisation.private or found[0].root is None:
            continue
        meeting, earlier = meeting_pairs(found, index), earlier_writes(found, index)
        in_zero = key in privatisation.seen_after
        size = slot_bytes(found)
        plan = BufferPlan(found[0].root, found, 1, size, False, meeting, earlier, in_zero)
        plans.append(_with_fewest_versions(plan, uses_of(found, units, group_of), waits, index))
    return tuple(plans)


def meeting_pairs(
    regions: tuple[CoveredRegion, ...], index: LoopIndex
) -> frozenset[tuple[int, int]]:
    """Which accesses may touch a common element in some two iterations, one of them writing.

    `fragments[0]` and `fragments[1]` never do, so neither waits for the other's slot."""
    return frozenset(
        (i, j)
        for i, a in enumerate(regions)
        for j, b in enumerate(regions)
        if (a.writes or b.writes)
        and index.distances(a, b, same_thread=a.root is not None and a.root.space == "private")
        is not None
    )


def _with_fewest_versions(
    plan: BufferPlan, uses: list[BufferUse], waits: list[GroupWait], index: LoopIndex
) -> BufferPlan:
    """The plan with the fewest versions that keep the loosest waits; where no number does, with
    the fewest that are right and an extra wait."""
    most = _with_versions_for(plan, uses, waits)
    last = replace(plan, seen=last_writes(plan.seen))
    if last.seen == plan.seen or _with_versions_for(last, uses, waits).versions == most.versions:
        return most
    exact = replace(plan, seen=seen_writes(plan.regions, plan.seen, index))
    return _with_versions_for(exact, uses, waits)


def _with_versions_for(
    plan: BufferPlan, uses: list[BufferUse], waits: list[GroupWait]
) -> BufferPlan:
    loosest = asynchronous_versions(uses, waits, plan.contents)
    if loosest is not None:
        return replace(plan, versions=loosest)
    return replace(plan, versions=synchronous_versions(uses, plan.contents), extra_wait=True)


def check_free_slots(
    units: Units, regions: list[CoveredRegion], buffers: tuple[BufferPlan, ...], index: LoopIndex
) -> None:
    """Raise PipelineError (predicate-unsupported) for a copy without a free place."""
    versioned = {buffer.root.identity: buffer for buffer in buffers}
    for region in regions:
        unit = units.unit_of(region.top)
        past_end = units.last_stage - unit.stage
        if not region.writes or not is_physical(region.top) or past_end == 0:
            continue
        buffer = None if region.root is None else versioned.get(region.root.identity)
        if buffer is None or (buffer.ends_in_slot_zero and buffer.versions <= past_end):
            raise _error(region, "what may be read later")
        if not _stays_inside(region, index):
            raise _error(region, "what may lie outside of the buffer")


def _error(region: CoveredRegion, what: str) -> PipelineError:
    return not_predicated(region.op, f"after the last iteration it would fill with zeros {what}")


def _stays_inside(region: CoveredRegion, index: LoopIndex) -> bool:
    """Whether the destination is inside of the buffer also for iterations after the last."""
    if region.subscripts is None or region.extent is None:
        return False
    sizes = static_shape(region) or (0,) * len(region.subscripts)
    for form, extent, size in zip(region.subscripts, region.extent, sizes, strict=True):
        if SameEachTime(index.loop).what_changes(form.symbols) is not None:
            low, high = index.arithmetic.range_of(form)
            if low is None or low < 0 or high is None or high + extent > size:
                return False
    return True
