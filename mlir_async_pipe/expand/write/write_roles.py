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

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    attributes_of,
    before,
    clone,
    create,
    is_function,
    operations,
    terminator,
)
from mlir_async_pipe.bindings.structured_ops import at_end_of, write_for, write_if
from mlir_async_pipe.expand.plan.ring_plan import RingPlan
from mlir_async_pipe.expand.plan.role_block import WARP
from mlir_async_pipe.expand.plan.role_plan import RolePlan
from mlir_async_pipe.expand.write.cluster_arrivals import BlockWriter
from mlir_async_pipe.expand.write.integers import Integers
from mlir_async_pipe.expand.write.ring_mbarriers import (
    mbarrier_of,
    write_empty,
    write_mbarriers,
)
from mlir_async_pipe.expand.write.role_threads import add_threads, name_barriers, set_registers
from mlir_async_pipe.expand.write.versioned_buffers import VersionedBuffer
from mlir_async_pipe.expand.write.write_consumer import ConsumerWriter
from mlir_async_pipe.expand.write.write_ring import RingWriter
from mlir_async_pipe.expand.write.write_turns import TurnsWriter
from mlir_async_pipe.loops import annotations as names
from mlir_async_pipe.values.integer_writer import IntegerWriter
from mlir_async_pipe.vocabulary.launch_ids import axis_attribute

# How long a try_wait sleeps at most before it looks again, in ticks.
TICKS = 10_000_000


def write_roles(plan: RingPlan, roles: RolePlan, buffers: list[VersionedBuffer]) -> Operation:
    """Write one planned loop; returns that of the consumers."""
    setups = plan.setups
    blocks = BlockWriter(roles.cluster, roles.block.warps)
    blocks.meet_first(setups)
    empty = write_empty(setups[0], plan.versions, blocks.arrivals)
    groups = {s.create.results[0]: write_mbarriers(s, plan.versions) for s in setups}
    branch, thread = part_threads(plan, roles)
    producer = ProducerWriter(plan, roles, buffers, groups, empty)
    producer.write_beside(branch.regions[1], thread)
    move_into(branch.regions[0], roles)
    writer = ConsumerWriter if roles.turns is None else TurnsWriter
    consumer = writer(plan, roles, buffers, groups, empty, thread, blocks)
    made = consumer.write_here(branch.regions[0])
    finish(plan, roles, consumer.group)
    blocks.meet_last(terminator(roles.block.kernel.regions[0].blocks[0]))
    return made


def part_threads(plan: RingPlan, roles: RolePlan) -> tuple[Operation, Value]:
    """The branch of the threads of the input, which grow by others, and the number of a thread."""
    add_threads(roles.block)
    kernel = roles.block.kernel
    end = terminator(kernel.regions[0].blocks[0])
    build = IntegerWriter(before(end), plan.loop.location)
    thread = _thread(kernel, build)
    mine = build.compare("ult", thread, roles.block.computing)
    return write_if(mine, (), (), before(end), plan.loop.location), thread


def move_into(region: Any, roles: RolePlan) -> None:
    """What the threads of the input run alone goes into their region."""
    inner_end = terminator(region.blocks[0])
    for op in roles.moved:
        op.move_before(inner_end)


def finish(plan: RingPlan, roles: RolePlan, group: Value | None = None) -> None:
    """Name the barriers of the input's threads, and drop its mbarriers."""
    name_barriers(roles.block, group)
    for setup in plan.setups:
        setup.create.erase()


def _thread(kernel: Operation, build: IntegerWriter) -> Value:
    if not is_function(kernel):
        # Blocks, then threads, each along x, y, z.
        return kernel.regions[0].blocks[0].arguments[3]
    axis = {"dimension": axis_attribute("x", kernel.context)}
    made = create("gpu.thread_id", (), [build.index], axis, ip=build.ip, loc=build.location)
    return made.results[0]


class ProducerWriter(RingWriter):
    """Writes what the warps run that copy: the nest around the loop, and the copies in it."""

    def __init__(
        self,
        plan: RingPlan,
        roles: RolePlan,
        buffers: list[VersionedBuffer],
        groups: dict[Value, Value],
        empty: Value,
    ) -> None:
        super().__init__(plan, buffers, groups)
        self.roles = roles
        self.nest = roles.nest
        self.empty = empty
        # The first mbarrier of the group that says when slots are free.
        self.first_empty = 0

    def write_beside(self, region: Any, thread: Value) -> Any:
        """Write all of it at the end of a region; the first warp of those that are added copies.
        Returns the region of the others, if there are some."""
        block, loc = self.roles.block, self.plan.loop.location
        if block.registers is not None:
            set_registers("decrease", block.registers.producer, at_end_of(region), loc)
        if block.copying == WARP:
            self.write_at_end(region)
            return None
        build = IntegerWriter(at_end_of(region), loc)
        first = build.compare("ult", thread, block.computing + WARP)
        others = () if self.roles.products is not None else None
        branch = write_if(first, (), others, at_end_of(region), loc)
        self.write_at_end(branch.regions[0])
        return branch.regions[1]

    def write_at_end(self, region: Any) -> None:
        """Write the nest and the copies at the end of a region."""
        build = IntegerWriter(at_end_of(region), self.plan.loop.location)
        chain = [*self.nest.outer, self.plan.loop]
        self._copy_block(self.roles.moved, chain, self._start(build), at_end_of(region))

    def _start(self, build: IntegerWriter) -> list[Value]:
        """The first slot, and the parity that passes at once."""
        i1 = ir.IntegerType.get_signless(1, self.context)
        return [build.constant(0), build.constant(1, i1)]

    def _copy_block(
        self, ops: Any, chain: list[Operation], state: list[Value], ip: Any
    ) -> list[Value]:
        """Compute again what is needed of a block; returns slot and phase after it."""
        for op in ops:
            if op == chain[0]:
                state = self._copy_outer(op, chain[1:], state, ip)
            elif op in self.nest.ops:
                clone(op, self.outside, ip)
        return state

    def _copy_outer(
        self, op: Operation, inner: list[Operation], state: list[Value], ip: Any
    ) -> list[Value]:
        if not inner:
            return self._copy_loop(state, ip)
        if op.name == "scf.if":
            return self._copy_branch(op, inner, state, ip)
        numbers = self.nest.advanced.get(op, ())
        made, body = self._begin_loop(op, numbers, state, ip)
        inside = list(made.regions[0].blocks[0].arguments)[-len(state) :]
        inside = self._copy_block(operations(op.regions[0].blocks[0]), inner, inside, body)
        yielded = terminator(op.regions[0].blocks[0]).operands
        following = [self._here(yielded[number]) for number in numbers]
        return self._end_loop(op, made, numbers, following, inside, body)

    def _begin_loop(
        self, op: Operation, numbers: tuple[int, ...], state: list[Value], ip: Any
    ) -> tuple[Operation, Any]:
        """A loop with the bounds of `op` that carries those of its values, and `state`."""
        bounds = [self._here(value) for value in list(op.operands)[:3]]
        initial = [self._here(op.operands[3 + number]) for number in numbers]
        kept = {
            name: value
            for name, value in attributes_of(op).items()
            if name not in names.KNOWN_NAMES
        }
        made = write_for(bounds, [*initial, *state], ip, op.location, kept)
        old, new = op.regions[0].blocks[0].arguments, made.regions[0].blocks[0].arguments
        self.outside[old[0]] = new[0]
        for place, number in enumerate(numbers):
            self.outside[old[number + 1]] = new[place + 1]
        return made, ir.InsertionPoint(made.regions[0].blocks[0])

    def _end_loop(
        self,
        op: Operation,
        made: Operation,
        numbers: tuple[int, ...],
        following: list[Value],
        state: list[Value],
        ip: Any,
    ) -> list[Value]:
        create("scf.yield", [*following, *state], ip=ip, loc=op.location)
        for place, number in enumerate(numbers):
            self.outside[op.results[number]] = made.results[place]
        return list(made.results)[-len(state) :]

    def _copy_branch(
        self, op: Operation, inner: list[Operation], state: list[Value], ip: Any
    ) -> list[Value]:
        kinds = [value.type for value in state]
        condition = [self._here(op.operands[0])]
        made = create("scf.if", condition, kinds, regions=2, ip=ip, loc=op.location)
        for old, new in zip(op.regions, made.regions, strict=True):
            blocks = list(old.blocks)
            inside, body = state, ir.InsertionPoint(new.blocks.append())
            if inner[0].block in blocks:
                inside = self._copy_block(operations(blocks[0]), inner, state, body)
            create("scf.yield", inside, ip=body, loc=op.location)
        return list(made.results)

    def _copy_loop(self, state: list[Value], ip: Any) -> list[Value]:
        """The loop with its copies alone, each after its slot was given back."""
        plan, loop = self.plan, self.plan.loop
        numbers = plan.issue.advanced
        made, body = self._begin_loop(loop, numbers, state, ip)
        arguments = list(made.regions[0].blocks[0].arguments)
        slot, phase = arguments[-2:]
        self.integers = Integers(made, plan.ahead, 0, plan.trip_count, before(made))
        self.integers.enter(body)
        ticks = self.integers.constant(TICKS)
        number = mbarrier_of(self.integers, self.first_empty, slot, plan.versions)
        wait = [self.empty, phase, ticks, number]
        create("nvgpu.mbarrier.try_wait.parity", wait, ip=body, loc=loop.location)
        advanced = self._issue(arguments[0], arguments[1 : 1 + len(numbers)], slot, None)
        following = self._next_slot(slot)
        state = [following, self._next_phase(phase, following)]
        return self._end_loop(loop, made, numbers, advanced, state, body)

    def _in_one_thread(self, exists: Value | None) -> Value | None:
        """One of this warp."""
        i1 = ir.IntegerType.get_signless(1, self.context)
        ip, loc = self.integers.ip, self.integers.location
        return create("nvvm.elect.sync", (), [i1], ip=ip, loc=loc).results[0]

    def _here(self, value: Value) -> Value:
        return self.outside.get(value, value)
