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

The producer's first wait is for parity 1, which an mbarrier in its first phase lets pass: all slots
are free. Each warp arrives once for a tile, after the wait that covers its products
(docs/phases.md); in a cluster, in each block that copies into its own (`slot_returns`). Values that only copies need are computed by the producer alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    before,
    operations,
    terminator,
)
from mlir_async_pipe.bindings.structured_ops import at_end_of, write_if
from mlir_async_pipe.facts.values.integer_writer import IntegerWriter
from mlir_async_pipe.facts.values.ring import Ring
from mlir_async_pipe.pipeliner.expand.write.carried_ring import RingPath, carry
from mlir_async_pipe.pipeliner.expand.write.idle_values import drop_idle_values
from mlir_async_pipe.pipeliner.expand.write.ring_mbarriers import (
    write_empty,
    write_mbarriers,
    write_wait,
)
from mlir_async_pipe.pipeliner.expand.write.role_threads import (
    add_threads,
    elect,
    name_barriers,
    set_registers,
    thread_along_x,
)
from mlir_async_pipe.pipeliner.expand.write.slot_returns import Blocks, SlotReturns, first_lane
from mlir_async_pipe.pipeliner.expand.write.versioned_buffers import VersionedBuffer
from mlir_async_pipe.pipeliner.expand.write.write_nest import NestWriter
from mlir_async_pipe.pipeliner.expand.write.write_ring import (
    RingLoop,
)
from mlir_async_pipe.pipeliner.expand.write.write_turns import write_turns
from mlir_async_pipe.pipeliner.plan.ring_plan import RingPlan
from mlir_async_pipe.pipeliner.plan.ring_sharing import SharedRing
from mlir_async_pipe.pipeliner.plan.role_block import WARP
from mlir_async_pipe.pipeliner.plan.role_parts import RolePlan


class _Loop(NamedTuple):
    """A loop, its buffers, the mbarriers of its ring, and the numbers of its slot and phase in the state
    of all rings."""

    plan: RingPlan
    buffers: list[VersionedBuffer]
    full: dict[Value, Value]
    empty: Value
    values: tuple[int, int]

    def way(self, write: Callable[..., list[Value]]) -> RingPath:
        """To the loop, which `write` writes."""
        return RingPath((*self.plan.outer, self.plan.loop), write, self.values)


def write_roles(rings: list[SharedRing], buffers: list[list[list[VersionedBuffer]]]) -> None:
    """Write the planned loops of a kernel, ring by ring with their buffers."""
    first = rings[0][0]
    roles, loc = roles_of(first), first.loop.location
    blocks = Blocks(roles.cluster, roles.block.warps)
    blocks.meet_first(first.setups)
    loops = _loops(rings, buffers, blocks)
    branch, thread = part_threads(first, roles)
    nest = NestWriter(roles.nest)
    region, _ = producer_region(branch.regions[1], thread, roles, loc)
    producers = [
        one.way(Producer(RingLoop(one.plan, one.buffers, one.full), one.empty, nest).write)
        for one in loops
    ]
    build = IntegerWriter(at_end_of(region), loc)
    state = [value for _ in rings for value in Ring.start(build, phase=1)]
    nest.write_at_end(region, roles.moved, producers, state)
    move_into(branch.regions[0], roles)
    start = before(operations(branch.regions[0].blocks[0])[0])
    if roles.block.registers is not None:
        set_registers("increase", roles.block.registers.consumer, start, loc)
    build, group = IntegerWriter(start, loc), None
    arrives = first_lane(thread, build)
    blocks.read_rank(build)
    consumers = []
    for one in loops:
        returns = SlotReturns(one.empty, blocks, arrives, roles_of(one.plan).meets_lanes)
        consumers.append(RingLoop(one.plan, one.buffers, one.full, returns, copies=False))
    if roles.turns is not None:
        group = write_turns(consumers[0], roles, roles.turns, thread, start)
    else:
        ways = [one.way(loop.write) for one, loop in zip(loops, consumers, strict=True)]
        carry(ways, [value for _ in rings for value in Ring.start(build)])
    # What a loop hands on to the next one is idle when that one does without.
    for loop in reversed(consumers):
        drop_idle_values(loop.loop)
    finish([ring[0] for ring in rings], roles, group)
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
            _Loop(plan, own, full, empty, values) for plan, own in zip(ring, of_ring, strict=True)
        ]
    place = {loop: number for number, loop in enumerate(roles_of(rings[0][0]).loops)}
    return sorted(found, key=lambda each: place[each.plan.loop])


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


def finish(plans: list[RingPlan], roles: RolePlan, group: Value | None = None) -> None:
    """Name the barriers of the input's threads, and drop its mbarriers; a plan of each ring."""
    name_barriers(roles.block, group)
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


class Producer:
    """Writes what the warps run of a loop that copy, in the nest around it: each copy after its slot was
    given back. `first_empty`: which mbarrier of the group `empty` says when slot 0 is free, as of the
    input's one."""

    def __init__(
        self, loop: RingLoop, empty: Value, nest: NestWriter, first_empty: int = 0
    ) -> None:
        self.loop = loop
        self.empty = empty
        self.nest = nest
        self.first_empty = first_empty

    def write(self, ip: Any, *state: Value) -> list[Value]:
        """The loop with its copies alone; returns the state after it."""
        plan, ring, nest = self.loop.plan, self.loop.ring, self.nest
        numbers = plan.issue.advanced
        made, body = nest.begin_loop(plan.loop, numbers, list(state), ip)
        slot, phase = list(made.regions[0].blocks[0].arguments)[-2:]
        write = IntegerWriter(body, made.location)
        write_wait(write, self.empty, ring.mbarrier(self.first_empty, slot, write), phase)
        # By one thread of this warp.
        self.loop.issue(slot, elect(body, made.location), nest.outside, body)
        yielded = terminator(plan.loop.regions[0].blocks[0]).operands
        advanced = [nest.here(yielded[number]) for number in numbers]
        after = ring.advance(slot, phase, write)
        return nest.end_loop(plan.loop, made, numbers, advanced, after, body)
