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

from typing import Any, NamedTuple

from mlir_async_pipe.bindings.raw_ops import Operation, Value, after, before, terminator
from mlir_async_pipe.bindings.structured_ops import at_end_of, end_of, write_if
from mlir_async_pipe.facts.values.integer_writer import IntegerWriter
from mlir_async_pipe.facts.values.ring import Ring
from mlir_async_pipe.pipeliner.expand.write.carried_ring import RingPath, carry
from mlir_async_pipe.pipeliner.expand.write.group_order import GroupOrder
from mlir_async_pipe.pipeliner.expand.write.idle_values import drop_idle_values
from mlir_async_pipe.pipeliner.expand.write.ring_mbarriers import write_empty, write_mbarriers
from mlir_async_pipe.pipeliner.expand.write.role_threads import (
    add_threads,
    name_barriers,
    set_registers,
    thread_along_x,
)
from mlir_async_pipe.pipeliner.expand.write.slot_returns import Blocks, SlotReturns, first_lane
from mlir_async_pipe.pipeliner.expand.write.versioned_buffers import VersionedBuffer
from mlir_async_pipe.pipeliner.expand.write.write_ping_pong import PingPongWriter
from mlir_async_pipe.pipeliner.expand.write.write_products import ProductsWriter
from mlir_async_pipe.pipeliner.expand.write.write_ring import (
    COPIES,
    RingLoop,
    drop_unused,
    write_partition,
)
from mlir_async_pipe.pipeliner.plan.product_turn import ProductTurn
from mlir_async_pipe.pipeliner.plan.ring_plan import RingPlan, RolePlan
from mlir_async_pipe.pipeliner.plan.ring_sharing import SharedRing
from mlir_async_pipe.pipeliner.plan.role_block import WARP, WARPGROUP


class _Loop(NamedTuple):
    """A loop, the mbarriers that say which slots of its ring are free, from which number on, and the numbers of
    its slot and phase in the state of all rings."""

    loop: RingLoop
    empty: Value
    first_empty: int
    values: tuple[int, int]


def write_roles(rings: list[SharedRing], buffers: list[list[list[VersionedBuffer]]]) -> None:
    """Write the planned loops of a kernel, ring by ring with their buffers."""
    first = rings[0][0]
    roles, loc = roles_of(first), first.loop.location
    blocks = Blocks(roles.cluster, roles.block.warps)
    blocks.meet_first(first.setups)
    role = roles.products
    products = None if role is None else ProductsWriter(first, roles, role)
    loops = _loops(rings, buffers, blocks)
    branch, thread = _part_threads(first, roles)
    copying, others = _producer_region(branch.regions[1], thread, roles, loc)
    end = end_of(branch.regions[0])
    for op in roles.moved:
        op.move_before(end)
    start = before(roles.moved[0])
    if roles.block.registers is not None:
        set_registers("increase", roles.block.registers.consumer, start, loc)
    build = IntegerWriter(start, loc)
    arrives = first_lane(thread, build)
    blocks.read_rank(build)
    for one in loops:
        if products is None:
            meets_lanes = roles_of(one.loop.plan).meets_lanes
            one.loop.returns = SlotReturns(one.empty, blocks, arrives, meets_lanes)
        one.loop.lower_apart(one.empty, one.first_empty)
    copies = [(one.loop, one.values) for one in loops]
    there = IntegerWriter(at_end_of(copying), loc)
    free = [value for _ in rings for value in Ring.start(there, phase=1)]
    write_partition(copying, roles.moved, COPIES, copies, RingLoop.expand, free)
    if products is not None:
        products.write(loops[0].loop, others, arrives)
    _write_uses(loops, roles, products, thread, build)
    for setup in (setup for ring in rings for setup in ring[0].setups):
        setup.create.erase()
    blocks.meet_last(terminator(roles.block.kernel.regions[0].blocks[0]))


def _write_uses(
    loops: list[_Loop],
    roles: RolePlan,
    products: ProductsWriter | None,
    thread: Value,
    build: IntegerWriter,
) -> None:
    """Expand the lowered loops of the threads of the input, which begin where `build` writes, or write what is
    left of one whose products another warp issues."""
    for one in loops:
        drop_unused(one.loop.loop)
    groups = None
    if roles.ping_pong is not None:
        groups = PingPongWriter(loops[0].loop, roles, thread, build)
    rings = dict.fromkeys(one.values for one in loops)
    state = [value for _ in rings for value in Ring.start(build)]
    paths = [
        RingPath((*one.loop.plan.outer, one.loop.loop), one.loop.write_uses, one.values)
        for one in loops
    ]
    if roles.turn is not None:
        _write_turns(loops[0].loop.plan, roles, roles.turn, thread, build)
    if groups is not None:
        paths = [paths[0]._replace(write=groups.write_tile, values=(0, 1, 2, 3))]
        state += groups.start(build)
    else:
        if products is not None:
            paths = [path._replace(write=products.write_loads) for path in paths]
        # The first op of these threads may be a barrier.
        name_barriers(roles.block)
    ends = carry(paths, state)
    # What a loop forwards to the next one is idle when that one does without.
    for one in reversed(loops if products is None else []):
        drop_idle_values(one.loop.loop)
    if groups is not None:
        groups.end(ends[2])


def _write_turns(
    plan: RingPlan, roles: RolePlan, turn: ProductTurn, thread: Value, build: IntegerWriter
) -> None:
    """Let two warpgroups issue their products in turn: the body still is that of the input."""
    order = GroupOrder(build.divide(thread, WARPGROUP), roles.block, build, plan.loop.location)
    order.begin_turn(before(turn.first))
    order.end_turn(after(turn.last))
    # Both have as many turns, and the first group had the first one.
    order.end(order.is_first, (*plan.outer, plan.loop)[0])


def _loops(
    rings: list[SharedRing], buffers: list[list[list[VersionedBuffer]]], blocks: Blocks
) -> list[_Loop]:
    """The loops in textual order; writes the mbarriers."""
    found = []
    roles = roles_of(rings[0][0])
    for number, (ring, of_ring) in enumerate(zip(rings, buffers, strict=True)):
        first, values, first_empty = ring[0], (2 * number, 2 * number + 1), 0
        if roles.products is None:
            empty = write_empty(first.setups[0], first.versions, blocks.arrivals)
        full = {s.create.results[0]: write_mbarriers(s, first.versions) for s in first.setups}
        if roles.products is not None:
            # The commit of an iteration gives its slot back.
            completion = roles.products.completion
            empty, first_empty = full[completion.barriers], completion.number
        found += [
            _Loop(RingLoop(plan, own, full), empty, first_empty, values)
            for plan, own in zip(ring, of_ring, strict=True)
        ]
    place = {loop: number for number, loop in enumerate(roles.loops)}
    return sorted(found, key=lambda each: place[each.loop.loop])


def roles_of(plan: RingPlan) -> RolePlan:
    """Those of a loop that has some."""
    assert plan.roles is not None
    return plan.roles


def _part_threads(plan: RingPlan, roles: RolePlan) -> tuple[Operation, Value]:
    """The branch of the threads of the input, which grow by others, and the number of a thread."""
    add_threads(roles.block)
    kernel = roles.block.kernel
    end = terminator(kernel.regions[0].blocks[0])
    build = IntegerWriter(before(end), plan.loop.location)
    thread = thread_along_x(kernel, build)
    mine = build.compare("ult", thread, roles.block.computing)
    return write_if(mine, (), (), before(end), plan.loop.location), thread


def _producer_region(region: Any, thread: Value, roles: RolePlan, loc: Any) -> tuple[Any, Any]:
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
