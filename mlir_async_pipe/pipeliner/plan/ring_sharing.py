"""How many slots the loops of tensor copies have: those on the same mbarriers are one ring.

    for %i { copy, wait, use }     d = 2, p = 0         V = 3 slots of all tiles; slot and phase
    for %j { copy, wait, use }     d = 1, p = 1   -->   go on from the first loop to the second

With the copies last in an iteration, after the wait that leaves p products and a barrier, V = d + p;
with the copies first V = d + p + 1. What a loop copies before its first iteration overwrites what the
one before it left to be read, so V >= d + p for d of the one and p of the other, too, but not for products
that commits complete, for which all wait after the loop. Where warps of their own copy, V > p does, and
V > d holds as many tiles as were asked for (docs/phases.md).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from mlir_async_pipe.bindings.raw_ops import KERNEL_OPS, Operation, Value, enclosing
from mlir_async_pipe.facts.loops.transactions import Completion, Transaction
from mlir_async_pipe.pipeliner.dependence.surroundings import Surroundings
from mlir_async_pipe.pipeliner.plan.mbarrier_setup import shared
from mlir_async_pipe.pipeliner.plan.memory_limit import too_large, workgroup_bytes
from mlir_async_pipe.pipeliner.plan.ring_memory import users_of_memory
from mlir_async_pipe.pipeliner.plan.ring_plan import RingPlan
from mlir_async_pipe.session.diagnostics import AsyncPipeError, PipelineError

SharedRing = tuple[RingPlan, ...]
"""The loops on the same mbarriers, in the order in which they stand."""


def share_rings(plans: list[RingPlan], limit: int | None, around: Surroundings) -> list[SharedRing]:
    """The plans by ring, with the slots of each; fewer where `limit` bytes of workgroup memory have
    no room for all of a kernel.

    Raises PipelineError (mbarrier-shared, not-privatisable, smem-limit)."""
    rings: list[SharedRing] = []
    for plan in plans:
        loops = {other for setup in plan.setups for other in setup.sharing}
        ring = tuple(other for other in plans if other is plan or other.loop in loops)
        if ring[0] is not plan:
            continue
        try:
            _check_phases(ring)
            _check_tiles(ring)
        except AsyncPipeError as error:
            error.loop = plan.loop
            raise
        rings.append(ring)
    kernels: dict[Operation, list[SharedRing]] = {}
    for ring in rings:
        loop = ring[0].loop
        kernels.setdefault(enclosing(loop, KERNEL_OPS) or loop, []).append(ring)
    fitted = {
        ring[0].loop: ring for own in kernels.values() for ring in _fitted(own, limit, around)
    }
    return [fitted[ring[0].loop] for ring in rings]


def _check_phases(ring: SharedRing) -> None:
    """All loops use all mbarriers of the ring: tile t of either is phase t div V of each, of those of its
    products, too."""
    first, *others = ring
    create = first.setups[0].create
    for other in others:
        if _named(other.transactions) != _named(first.transactions):
            raise shared(create, other.loop, "another loop does not use the same ones")
        if _named(other.products.completions) != _named(first.products.completions):
            why = "the products of another loop do not complete on the same ones"
            raise shared(create, other.loop, why)


def _named(phases: tuple[Transaction, ...] | tuple[Completion, ...]) -> set[tuple[Value, int]]:
    return {(each.barriers, each.number) for each in phases}


def _check_tiles(ring: SharedRing) -> None:
    """A loop that uses a tile of another one fills it, too."""
    for one, other in product(ring, ring):
        own = {buffer.root.identity for buffer in other.buffers}
        for buffer in one.buffers:
            if buffer.root.identity in own:
                continue
            for op in users_of_memory(other.loop).get(buffer.root.identity, ()):
                raise PipelineError(
                    f"cannot pipeline: {buffer.root} gets a tile an iteration, and "
                    f"'{op.name}' of another loop uses it, too",
                    code="not-privatisable",
                    at=op,
                    notes=(("the loop", one.loop),),
                    advice="give the loop a buffer of its own",
                )


def _fitted(rings: list[SharedRing], limit: int | None, around: Surroundings) -> list[SharedRing]:
    """The rings of a kernel, with as many slots as they need; while they do not fit, the loop that copies
    furthest ahead, the last of several rings, copies one tile less."""
    made = [_with_slots(ring) for ring in rings]
    if limit is None:
        return made
    first = rings[0][0].loop
    planned = {b.root.identity for ring in rings for plan in ring for b in plan.memory}
    beside = around.workgroup_bytes_beside(first, planned)
    while True:
        tiles = {b.root.identity: b for ring in made for plan in ring for b in plan.memory}
        if workgroup_bytes(list(tiles.values())) <= limit - beside:
            return made
        most, last = max((max(p.ahead for p in ring), number) for number, ring in enumerate(made))
        if most == 1:
            error = too_large(limit, beside, first, tuple(tiles.values()))
            error.loop = first
            raise error
        made[last] = _with_slots(
            tuple(replace(p, ahead=p.ahead - 1) if p.ahead == most else p for p in made[last])
        )


def _with_slots(ring: SharedRing) -> SharedRing:
    versions = max(_slots(a, b) for a, b in product(ring, ring) if _may_follow(ring, a, b))
    return tuple(
        replace(
            plan,
            versions=versions,
            buffers=tuple(replace(buffer, versions=versions) for buffer in plan.buffers),
        )
        for plan in ring
    )


def _slots(before: RingPlan, after: RingPlan) -> int:
    """V for what `after` copies over the tiles of `before`."""
    if after.roles is not None:
        return max(after.ahead, after.in_flight) + 1
    if before is not after and before.products.completions:
        # After its loop all have waited for its last p tiles.
        return after.ahead + before.copies_first
    return after.ahead + before.still_read


def _may_follow(ring: SharedRing, before: RingPlan, after: RingPlan) -> bool:
    """Whether one loop, or its next execution, runs after the other one with nothing in between."""
    return ring.index(before) <= ring.index(after) or any(
        op in after.outer for op in before.outer if op.name == "scf.for"
    )
