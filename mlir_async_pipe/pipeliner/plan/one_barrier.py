"""One more version where that saves a barrier.

    wait, barrier, read slot of i, barrier, copy i + 2 into the slot of i         two versions
    wait, barrier, read slot of i, copy i + 2 into the slot of i - 1              three

With waits at the top of a step (`wait_at = "iteration"`) the barrier after them also stands between
the last step's reads and this step's copies, so a copy that fills none of the slots that are read in
its own step needs no barrier of its own. Where memory has no room for that the second one stays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mlir_async_pipe.pipeliner.plan.buffer_plan import BufferPlan, check_versionable
from mlir_async_pipe.pipeliner.plan.memory_limit import workgroup_bytes
from mlir_async_pipe.pipeliner.plan.needs import uses_of
from mlir_async_pipe.pipeliner.plan.pipeline_plan import Plan
from mlir_async_pipe.pipeliner.plan.version_rules import fits, taken_distances
from mlir_async_pipe.session.diagnostics import PipelineError

Buffers = tuple[BufferPlan, ...]


def with_one_barrier(plan: Plan, complete: Callable[[Buffers], Plan], limit: int | None) -> Plan:
    """The plan, or one with more versions and fewer barriers in the kernel; `complete` plans waits
    and barriers for given versions, `limit` is the workgroup memory in bytes (None: enough)."""
    if _barriers(plan) < 2:
        return plan
    best = plan
    wider = tuple(_one_more(buffer, plan) for buffer in plan.buffers)
    if limit is None or workgroup_bytes(wider) <= limit:
        found = complete(wider)
        if _barriers(found) < _barriers(plan):
            best = _without_idle_versions(found, plan.buffers, complete)
    return best


def _without_idle_versions(
    best: Plan, before: Buffers, complete: Callable[[Buffers], Plan]
) -> Plan:
    """Take back the versions that save nothing."""
    for number, buffer in enumerate(before):
        if best.buffers[number].versions == buffer.versions:
            continue
        fewer = (*best.buffers[:number], buffer, *best.buffers[number + 1 :])
        found = complete(fewer)
        if _barriers(found) == _barriers(best):
            best = found
    return best


def _one_more(buffer: BufferPlan, plan: Plan) -> BufferPlan:
    """A buffer in workgroup memory with one version more, if it may have that."""
    if buffer.root.space != "workgroup" or buffer.extra_wait:
        return buffer
    group_of = {member.position: group for group in plan.groups for member in group.members}
    taken = taken_distances(uses_of(buffer.regions, plan.units, group_of), buffer.contents)
    more = replace(buffer, versions=buffer.versions + 1)
    try:
        check_versionable(more, plan.loop)
    except PipelineError:
        return buffer
    return more if fits(more.versions, taken) else buffer


def _barriers(plan: Plan) -> int:
    return sum(before.barrier for before in plan.synchronisation.kernel.before.values())
