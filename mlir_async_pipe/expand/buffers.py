"""Which buffers get versions, how many, and what that costs in bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product as product_of
from math import prod
from typing import Any, Literal

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.buffers import Root
from mlir_async_pipe.dependence.distance import LoopIndex
from mlir_async_pipe.dependence.regions import Region
from mlir_async_pipe.diagnostics import Diagnostics, PipelineError
from mlir_async_pipe.expand.groups import Group
from mlir_async_pipe.expand.privatisation import Privatisation
from mlir_async_pipe.expand.slot_views import can_move
from mlir_async_pipe.expand.units import Units
from mlir_async_pipe.integer_ops import product
from mlir_async_pipe.ir_helpers import (
    Operation,
    ancestors,
    defining_op,
)
from mlir_async_pipe.versions import (
    GroupWait,
    Use,
    asynchronous_versions,
    synchronous_versions,
)
from mlir_async_pipe.vocabulary.extents import element_bits

# Ways to share workgroup memory that are tried; 8 buffers with two choices each are 256.
LARGEST_SEARCH = 4096


@dataclass(frozen=True)
class BufferPlan:
    """One privatised buffer of a loop.

    `versions` is V, `slot_bytes` the distance of two slots; `extra_wait` is set where fewer
    versions than the loosest waits want were taken, so that a wait stands before the write.
    `meeting` holds the pairs of `regions` (by index) that may touch a common element of a
    slot, one of them writing. `ends_in_slot_zero`: the last iteration's version has to lie in
    slot 0, because somebody outside of the loop reads it.
    """

    root: Root
    regions: tuple[Region, ...]
    versions: int
    slot_bytes: int
    extra_wait: bool
    meeting: frozenset[tuple[int, int]]
    ends_in_slot_zero: bool = False

    def meets(self, x: Use, w: Use) -> bool:
        """Whether two accesses may touch a common element."""
        return (x.access, w.access) in self.meeting


def plan_buffers(
    loop: Operation,
    regions: list[Region],
    privatisation: Privatisation,
    units: Units,
    index: LoopIndex,
    group_of: dict[int, Group],
    needs: list[Any],
    wait_at: Literal["consumer", "iteration"],
    limit: int | None,
    diagnostics: Diagnostics,
) -> tuple[BufferPlan, ...]:
    """Versions of each private buffer by the two rules; raises PipelineError (smem-limit)."""
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
            _meeting(found, index),
            key in privatisation.seen_behind,
        )
        uses = _uses(plan, units, group_of)
        least = synchronous_versions(uses, plan.meets)
        loosest = asynchronous_versions(uses, waits, plan.meets)
        versions = least if loosest is None else max(least, loosest)
        plans.append(replace(plan, versions=versions, extra_wait=loosest is None))
    if limit is not None:
        plans = _within(limit, loop, plans, units, group_of, diagnostics)
    for plan in plans:
        if plan.versions > 1:
            _check_versionable(plan, loop)
    return tuple(plans)


def _meeting(regions: tuple[Region, ...], index: LoopIndex) -> frozenset[tuple[int, int]]:
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


def _uses(plan: BufferPlan, units: Units, group_of: dict[int, Group]) -> list[Use]:
    found = []
    for number, region in enumerate(plan.regions):
        unit = units.unit_of(region.top)
        group = group_of.get(unit.position) if unit.asynchronous else None
        found.append(
            Use(
                unit.stage,
                unit.position,
                region.writes,
                None if group is None else group.position,
                None if group is None else group.queue,
                number,
            )
        )
    return found


def buffer_value(regions: tuple[Region, ...]) -> Any:
    """The memref that the accesses name: the root, or the view of dynamic shared memory."""
    root = regions[0].root
    assert root is not None
    return regions[0].base if root.kind == "dynamic" else root.value


def buffer_type(regions: tuple[Region, ...]) -> Any:
    """The type of one version."""
    return ir.MemRefType(buffer_value(regions).type)


def slot_bytes(regions: tuple[Region, ...]) -> int:
    """The buffer's size rounded up to its largest access, in bytes."""
    root = regions[0].root
    assert root is not None
    kind = buffer_type(regions)
    if not kind.has_static_shape:
        return 0
    bits = element_bits(kind)
    size = product(kind.shape) * bits // 8
    widest = max(max(r.elements_at_once for r in regions) * bits // 8, 1)
    return -(-size // widest) * widest


def _within(
    limit: int,
    loop: Operation,
    plans: list[BufferPlan],
    units: Units,
    group_of: dict[int, Group],
    diagnostics: Diagnostics,
) -> list[BufferPlan]:
    """Fit workgroup memory into `limit` bytes: tighten waits where that saves versions."""
    if _workgroup_bytes(plans) <= limit:
        return plans
    least = [
        synchronous_versions(_uses(p, units, group_of), p.meets)
        if p.root.space == "workgroup"
        else p.versions
        for p in plans
    ]
    tight = [_with_versions(p, v) for p, v in zip(plans, least, strict=True)]
    if _workgroup_bytes(tight) <= limit:
        chosen = _loosest(plans, least, limit) or tight
        for before, now in zip(plans, chosen, strict=True):
            if now.versions < before.versions:
                diagnostics.remark(
                    f"{before.root} gets {now.versions} versions instead of {before.versions} to "
                    f"fit {limit} bytes of workgroup memory; a wait stands before its reuse",
                    code="waits-tightened",
                    at=loop,
                )
        return chosen
    one_stage = sum(p.slot_bytes for p in plans if p.root.space == "workgroup")
    fits = limit // one_stage if one_stage else 0
    raise PipelineError(
        f"cannot pipeline: the versions need {_workgroup_bytes(tight)} bytes of workgroup memory, "
        f"the limit is {limit}",
        code="smem-limit",
        at=loop,
        advice=f"{fits} versions of every buffer would fit"
        if fits
        else "not even one version of every buffer fits",
    )


def _workgroup_bytes(plans: Sequence[BufferPlan]) -> int:
    return sum(p.versions * p.slot_bytes for p in plans if p.root.space == "workgroup")


def _with_versions(plan: BufferPlan, versions: int) -> BufferPlan:
    return replace(plan, versions=versions, extra_wait=plan.extra_wait or versions < plan.versions)


def _loosest(plans: list[BufferPlan], least: list[int], limit: int) -> list[BufferPlan] | None:
    """The versions that fit with the fewest tightened buffers, then with the most versions
    (each version more lets K more groups stay in flight). None where there are too many ways
    to try all."""
    ranges = [range(low, p.versions + 1) for p, low in zip(plans, least, strict=True)]
    if prod(len(r) for r in ranges) > LARGEST_SEARCH:
        return None
    ways = (
        [_with_versions(p, v) for p, v in zip(plans, way, strict=True)]
        for way in product_of(*ranges)
    )

    def looseness(way: list[BufferPlan]) -> tuple[int, int]:
        kept = sum(now.versions == p.versions for p, now in zip(plans, way, strict=True))
        return kept, sum(now.versions for now in way)

    return max((way for way in ways if _workgroup_bytes(way) <= limit), key=looseness)


def _check_versionable(plan: BufferPlan, loop: Operation) -> None:
    kind = buffer_type(plan.regions)
    strides, offset = kind.get_strides_and_offset()
    dense = [product(kind.shape[i + 1 :]) for i in range(kind.rank)]
    if not kind.has_static_shape or list(strides) != dense or offset != 0:
        raise PipelineError(
            f"cannot pipeline: {plan.root} needs {plan.versions} versions, but its type "
            f"{kind} is not a dense array of static shape",
            code="buffer-not-versionable",
            at=plan.regions[0].op,
        )
    for region in plan.regions:
        if region.access is None or not _reaches_directly(region, plan.root, loop):
            raise PipelineError(
                f"cannot pipeline: {plan.root} needs {plan.versions} versions, but "
                f"'{region.op.name}' reaches it through a view that cannot take a slot",
                code="escapes",
                at=region.op,
            )


def _reaches_directly(region: Region, root: Root, loop: Operation) -> bool:
    """Whether the access uses the buffer itself, or views made inside the loop only."""
    assert region.access is not None
    memory = region.access.memory
    while True:
        op = defining_op(memory)
        if op is not None and op.name == "memref.view":
            return root.kind == "dynamic" and loop not in list(ancestors(op))
        if op is None or op.name == "memref.get_global" or memory == root.value:
            return True
        if not can_move(op) or loop not in list(ancestors(op)):
            return False
        memory = op.operands[0]
