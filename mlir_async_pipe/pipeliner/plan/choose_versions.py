"""Which buffers get versions, and how many."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from mlir_async_pipe.pipeliner.dependence.distance import LoopIndex
from mlir_async_pipe.pipeliner.dependence.regions import Region
from mlir_async_pipe.pipeliner.plan.analysis import Analysis
from mlir_async_pipe.pipeliner.plan.buffer_plan import BufferPlan, slot_bytes
from mlir_async_pipe.pipeliner.plan.form_groups import Group
from mlir_async_pipe.pipeliner.plan.needs import Need, uses_of
from mlir_async_pipe.pipeliner.plan.slot_contents import earlier_writes, last_writes, seen_writes
from mlir_async_pipe.pipeliner.plan.units import Units
from mlir_async_pipe.pipeliner.plan.version_rules import (
    GroupWait,
    Use,
    asynchronous_versions,
    synchronous_versions,
)


def plan_buffers(
    analysis: Analysis,
    units: Units,
    group_of: dict[int, Group],
    needs: list[Need],
    wait_at: Literal["consumer", "iteration"],
) -> tuple[BufferPlan, ...]:
    """Versions of each private buffer by the two rules, with the loosest waits."""
    regions, index, privatisation = analysis.regions, analysis.index, analysis.privatisation
    waits = [
        GroupWait(
            need.unit.stage,
            -1 if wait_at == "iteration" and need.lag > 0 else need.unit.position,
            need.group.position,
            need.group.stage,
            need.group.queue,
            need.distance,
        )
        for need in needs
    ]
    plans = []
    for key in dict.fromkeys(r.root.identity for r in regions if r.root is not None):
        if key not in privatisation.private:
            continue
        found = tuple(r for r in regions if r.root is not None and r.root.identity == key)
        assert found[0].root is not None
        plan = BufferPlan(
            found[0].root,
            found,
            1,
            slot_bytes(found),
            False,
            meeting_pairs(found, index),
            earlier_writes(found, index),
            key in privatisation.seen_behind,
        )
        plans.append(_with_fewest_versions(plan, uses_of(found, units, group_of), waits, index))
    return tuple(plans)


def meeting_pairs(regions: tuple[Region, ...], index: LoopIndex) -> frozenset[tuple[int, int]]:
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
    plan: BufferPlan, uses: list[Use], waits: list[GroupWait], index: LoopIndex
) -> BufferPlan:
    """The plan with the fewest versions that keep the loosest waits; where no number does, with
    the fewest that are right and an extra wait."""
    most = _with_versions_for(plan, uses, waits)
    last = replace(plan, seen=last_writes(plan.seen))
    if last.seen == plan.seen or _with_versions_for(last, uses, waits).versions == most.versions:
        return most
    exact = replace(plan, seen=seen_writes(plan.regions, plan.seen, index))
    return _with_versions_for(exact, uses, waits)


def _with_versions_for(plan: BufferPlan, uses: list[Use], waits: list[GroupWait]) -> BufferPlan:
    loosest = asynchronous_versions(uses, waits, plan.contents)
    if loosest is not None:
        return replace(plan, versions=loosest)
    return replace(plan, versions=synchronous_versions(uses, plan.contents), extra_wait=True)
