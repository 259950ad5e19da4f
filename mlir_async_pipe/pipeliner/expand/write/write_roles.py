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
(docs/phases.md); in a cluster, in each block that copies into its own (`cluster_arrivals`). Values that only copies need are computed by the producer alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    before,
    terminator,
)
from mlir_async_pipe.bindings.structured_ops import at_end_of, write_if
from mlir_async_pipe.facts.values.integer_writer import IntegerWriter
from mlir_async_pipe.facts.values.ring import Ring
from mlir_async_pipe.pipeliner.expand.write.carried_ring import Way
from mlir_async_pipe.pipeliner.expand.write.cluster_arrivals import BlockWriter
from mlir_async_pipe.pipeliner.expand.write.integers import Integers
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
from mlir_async_pipe.pipeliner.expand.write.versioned_buffers import VersionedBuffer
from mlir_async_pipe.pipeliner.expand.write.write_consumer import (
    ConsumerWriter,
    write_consumers,
)
from mlir_async_pipe.pipeliner.expand.write.write_nest import NestWriter
from mlir_async_pipe.pipeliner.expand.write.write_ring import RingWriter
from mlir_async_pipe.pipeliner.expand.write.write_turns import TurnsWriter
from mlir_async_pipe.pipeliner.plan.ring_plan import RingPlan
from mlir_async_pipe.pipeliner.plan.ring_sharing import SharedRing
from mlir_async_pipe.pipeliner.plan.role_block import WARP
from mlir_async_pipe.pipeliner.plan.role_parts import RolePlan


def write_roles(rings: list[SharedRing], buffers: list[list[list[VersionedBuffer]]]) -> None:
    """Write the planned loops of a kernel, ring by ring with their buffers."""
    first = rings[0][0]
    roles = roles_of(first)
    blocks = BlockWriter(roles.cluster, roles.block.warps)
    blocks.meet_first(first.setups)
    loops = _loops(rings, buffers, blocks)
    branch, thread = part_threads(first, roles)
    nest = NestWriter(roles.nest)
    region, _ = producer_region(branch.regions[1], thread, roles, first.loop.location)
    ways = [
        Way((*one.plan.outer, one.plan.loop), ProducerWriter(*one, nest).copy_loop, values)
        for one, values in loops
    ]
    build = IntegerWriter(at_end_of(region), first.loop.location)
    state = [value for _ in rings for value in Ring.start(build, phase=1)]
    nest.write_at_end(region, roles.moved, ways, state)
    move_into(branch.regions[0], roles)
    group = None
    if roles.turns is None:
        consumers = [(ConsumerWriter(*one, thread, blocks), values) for one, values in loops]
        write_consumers(consumers, branch.regions[0])
    else:
        in_turn = TurnsWriter(*loops[0][0], thread, blocks)
        in_turn.write_here(branch.regions[0])
        group = in_turn.group
    finish([ring[0] for ring in rings], roles, group)
    blocks.meet_last(terminator(roles.block.kernel.regions[0].blocks[0]))


class _Loop(NamedTuple):
    """What its writers take: a loop, its buffers, and the mbarriers of its ring."""

    plan: RingPlan
    roles: RolePlan
    buffers: list[VersionedBuffer]
    groups: dict[Value, Value]
    empty: Value


def _loops(
    rings: list[SharedRing], buffers: list[list[list[VersionedBuffer]]], blocks: BlockWriter
) -> list[tuple[_Loop, tuple[int, int]]]:
    """The loops in textual order, with the numbers of their slot and phase in the state of all rings;
    writes the mbarriers."""
    found = []
    for number, (ring, of_ring) in enumerate(zip(rings, buffers, strict=True)):
        first = ring[0]
        empty = write_empty(first.setups[0], first.versions, blocks.arrivals)
        groups = {s.create.results[0]: write_mbarriers(s, first.versions) for s in first.setups}
        found += [
            (_Loop(plan, roles_of(plan), own, groups, empty), (2 * number, 2 * number + 1))
            for plan, own in zip(ring, of_ring, strict=True)
        ]
    place = {loop: number for number, loop in enumerate(roles_of(rings[0][0]).loops)}
    return sorted(found, key=lambda each: place[each[0].plan.loop])


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


class ProducerWriter(RingWriter):
    """Writes what the warps run of a loop that copy, in the nest around it."""

    def __init__(
        self,
        plan: RingPlan,
        roles: RolePlan,
        buffers: list[VersionedBuffer],
        groups: dict[Value, Value],
        empty: Value,
        nest: NestWriter,
        first_empty: int = 0,
    ) -> None:
        """`first_empty`: which mbarrier of the group `empty` says when slot 0 is free, as of the
        input's one."""
        super().__init__(plan, buffers, groups)
        self.roles = roles
        self.nest = nest
        self.outside = nest.outside
        self.empty = empty
        self.first_empty = first_empty

    def copy_loop(self, ip: Any, *state: Value) -> list[Value]:
        """The loop with its copies alone, each after its slot was given back."""
        plan, loop = self.plan, self.plan.loop
        numbers = plan.issue.advanced
        made, body = self.nest.begin_loop(loop, numbers, list(state), ip)
        arguments = list(made.regions[0].blocks[0].arguments)
        slot, phase = arguments[-2:]
        self.integers = Integers(made, plan.ahead, 0, plan.trip_count, before(made))
        self.integers.enter(body)
        number = self.ring.mbarrier(self.first_empty, slot, self.integers)
        write_wait(self.integers, self.empty, number, phase)
        advanced = self._issue(arguments[0], arguments[1 : 1 + len(numbers)], slot, None)
        after = self.ring.advance(slot, phase, self.integers)
        return self.nest.end_loop(loop, made, numbers, advanced, after, body)

    def _in_one_thread(self, exists: Value | None) -> Value | None:
        """One of this warp."""
        return elect(self.integers.ip, self.integers.location)
