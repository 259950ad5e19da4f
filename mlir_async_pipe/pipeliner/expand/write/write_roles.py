"""Writes a loop of tensor copies as two: warps of their own copy, all others compute.

                                              scf.if %thread < threads {
    for k {                                     for k, slot, phase, earlier {
      expect, copy, wait, use, barrier            wait for full[slot]; use; leave p products
    }                                  -->        arrive at empty[earlier] if k has p before it
    store                                       }
                                                arrive for the last p tiles; store
                                              } else {
                                                for k, slot, phase {
                                                  wait for empty[slot]; expect, copy
                                                }
                                              }

Each loop is lowered where it stands; then those that copy get a copy of all that the threads of the input run
alone, without the statements of other partitions and what only these need. The producer's first wait is for parity 1, which an mbarrier in its first phase lets pass: all slots
are free. Each warp arrives once for a tile, after the wait that covers its products
(docs/phases.md); in a cluster, in each block that copies into its own (`slot_returns`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    before,
    clone,
    operations,
    terminator,
    walk,
)
from mlir_async_pipe.bindings.structured_ops import at_end_of, write_if
from mlir_async_pipe.facts.values.integer_writer import IntegerWriter
from mlir_async_pipe.facts.values.ring import Ring
from mlir_async_pipe.pipeliner.expand.write.carried_ring import RingPath, between, carry
from mlir_async_pipe.pipeliner.expand.write.idle_values import drop_idle_values, keep_partition
from mlir_async_pipe.pipeliner.expand.write.ring_mbarriers import (
    write_empty,
    write_mbarriers,
)
from mlir_async_pipe.pipeliner.expand.write.role_threads import (
    add_threads,
    name_barriers,
    set_registers,
    thread_along_x,
)
from mlir_async_pipe.pipeliner.expand.write.slot_returns import Blocks, SlotReturns, first_lane
from mlir_async_pipe.pipeliner.expand.write.versioned_buffers import VersionedBuffer
from mlir_async_pipe.pipeliner.expand.write.write_ring import (
    COPIES,
    TILE,
    RingLoop,
    drop_unused,
)
from mlir_async_pipe.pipeliner.expand.write.write_turns import TurnsWriter
from mlir_async_pipe.pipeliner.plan.ring_plan import RingPlan
from mlir_async_pipe.pipeliner.plan.ring_sharing import SharedRing
from mlir_async_pipe.pipeliner.plan.role_block import WARP
from mlir_async_pipe.pipeliner.plan.role_parts import RolePlan


class _Loop(NamedTuple):
    """A loop, the mbarriers that say which slots of its ring are free, and the numbers of its slot and phase
    in the state of all rings."""

    loop: RingLoop
    empty: Value
    values: tuple[int, int]


def write_roles(rings: list[SharedRing], buffers: list[list[list[VersionedBuffer]]]) -> None:
    """Write the planned loops of a kernel, ring by ring with their buffers."""
    first = rings[0][0]
    roles, loc = roles_of(first), first.loop.location
    blocks = Blocks(roles.cluster, roles.block.warps)
    blocks.meet_first(first.setups)
    loops = _loops(rings, buffers, blocks)
    branch, thread = part_threads(first, roles)
    region, _ = producer_region(branch.regions[1], thread, roles, loc)
    move_into(branch.regions[0], roles)
    start = before(operations(branch.regions[0].blocks[0])[0])
    if roles.block.registers is not None:
        set_registers("increase", roles.block.registers.consumer, start, loc)
    build = IntegerWriter(start, loc)
    arrives = first_lane(thread, build)
    blocks.read_rank(build)
    for one in loops:
        meets_lanes = roles_of(one.loop.plan).meets_lanes
        one.loop.returns = SlotReturns(one.empty, blocks, arrives, meets_lanes)
        one.loop.lower_apart(one.empty)
    copies = [(one.loop, one.values) for one in loops]
    free = [value for _ in rings for value in Ring.start(IntegerWriter(at_end_of(region), loc), 1)]
    write_partition(region, roles, COPIES, copies, RingLoop.expand, free)
    for one in loops:
        drop_unused(one.loop.loop)
    if roles.turns is not None:
        TurnsWriter(loops[0].loop, roles, roles.turns, thread, start).write()
    else:
        name_barriers(roles.block)
        paths = [
            RingPath((*one.loop.plan.outer, one.loop.loop), one.loop.write_uses, one.values)
            for one in loops
        ]
        carry(paths, [value for _ in rings for value in Ring.start(build)])
    # What a loop hands on to the next one is idle when that one does without.
    for one in reversed(loops):
        drop_idle_values(one.loop.loop)
    drop_mbarriers([ring[0] for ring in rings])
    blocks.meet_last(terminator(roles.block.kernel.regions[0].blocks[0]))


def _loops(
    rings: list[SharedRing], buffers: list[list[list[VersionedBuffer]]], blocks: Blocks
) -> list[_Loop]:
    """The loops in textual order; writes the mbarriers."""
    found = []
    for number, (ring, of_ring) in enumerate(zip(rings, buffers, strict=True)):
        first, values = ring[0], (2 * number, 2 * number + 1)
        empty = write_empty(first.setups[0], first.versions, blocks.arrivals)
        full = {s.create.results[0]: write_mbarriers(s, first.versions) for s in first.setups}
        found += [
            _Loop(RingLoop(plan, own, full), empty, values)
            for plan, own in zip(ring, of_ring, strict=True)
        ]
    place = {loop: number for number, loop in enumerate(roles_of(rings[0][0]).loops)}
    return sorted(found, key=lambda each: place[each.loop.loop])


def write_partition(
    region: Any,
    roles: RolePlan,
    partition: int,
    loops: Sequence[tuple[RingLoop, tuple[int, ...]]],
    write: Callable[..., list[Value]],
    state: list[Value],
) -> None:
    """Write at the end of a region what the warps of a partition run: its statements, and what these need.
    `loops` are the lowered ones in textual order, each with its values of the state, by their numbers; from
    these `write` writes its copy, and returns those after it."""
    mapping: dict[Value, Value] = {}
    block = region.blocks[0]
    keep_partition([clone(op, mapping, at_end_of(region)) for op in roles.moved], partition)
    tiles = [op for top in operations(block) for op in walk(top) if op.name == TILE]
    paths = []
    for tile, (loop, values) in zip(tiles, loops, strict=True):
        copied = loop.in_copy(tile)
        chain = (*between(terminator(block), copied.loop), copied.loop)
        paths.append(RingPath(chain, partial(write, copied), values))
    carry(paths, state)


def roles_of(plan: RingPlan) -> RolePlan:
    """Those of a loop that has some."""
    assert plan.roles is not None
    return plan.roles


def part_threads(plan: RingPlan, roles: RolePlan) -> tuple[Operation, Value]:
    """The branch of the threads of the input, which grow by others, and the number of a thread."""
    add_threads(roles.block)
    kernel = roles.block.kernel
    end = terminator(kernel.regions[0].blocks[0])
    build = IntegerWriter(before(end), plan.loop.location)
    thread = thread_along_x(kernel, build)
    mine = build.compare("ult", thread, roles.block.computing)
    return write_if(mine, (), (), before(end), plan.loop.location), thread


def move_into(region: Any, roles: RolePlan) -> None:
    """What the threads of the input run alone goes into their region."""
    inner_end = terminator(region.blocks[0])
    for op in roles.moved:
        op.move_before(inner_end)


def drop_mbarriers(plans: list[RingPlan]) -> None:
    """Drop those of the input; a plan of each ring."""
    for plan in plans:
        for setup in plan.setups:
            setup.create.erase()


def producer_region(region: Any, thread: Value, roles: RolePlan, loc: Any) -> tuple[Any, Any]:
    """Where the first warp of those that are added runs, which copies, and where the others do (None if
    nobody does)."""
    block = roles.block
    if block.registers is not None:
        set_registers("decrease", block.registers.producer, at_end_of(region), loc)
    if block.copying == WARP:
        return region, None
    build = IntegerWriter(at_end_of(region), loc)
    first = build.compare("ult", thread, block.computing + WARP)
    others = () if roles.products is not None else None
    branch = write_if(first, (), others, at_end_of(region), loc)
    return branch.regions[0], branch.regions[1]
