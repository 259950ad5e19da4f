"""Writes a loop of tensor copies whose products add up in tensor memory as three: copies, products, loads.

                                          scf.if %thread < threads {
                                            for tile, sums, phase {
    for tile {                                wait for filled[sums]; load; arrive at drained[sums]; store
      for k {                               }
        expect, copy, wait,               } else if the first warp of the others {
        product, commit, wait     -->       for tile { for k, slot { wait for empty[slot]; expect, copy } }
      }                                   } else {
      load; store                           for tile, sums {
    }                                         wait for drained[sums]
                                              for k, slot { wait for full[slot]; product, commit empty[slot] }
                                              commit filled[sums]
                                            } }

The commit of an iteration gives its slot back, so the input's mbarrier of products is `empty`. Of two
versions the sums of one are loaded while the other adds up (docs/phases.md).
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    after,
    attribute,
    before,
    clone,
    constant,
    create,
    defining_op,
    operations,
    terminator,
    walk,
)
from mlir_async_pipe.bindings.structured_ops import at_end_of, write_if
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.facts.loops.transactions import mbarrier_pointer, operand_number
from mlir_async_pipe.facts.values.integer_writer import IntegerWriter
from mlir_async_pipe.facts.values.ring import Ring
from mlir_async_pipe.pipeliner.expand.write.carried_ring import RingPath, carry
from mlir_async_pipe.pipeliner.expand.write.ring_mbarriers import (
    write_empty,
    write_mbarriers,
    write_wait,
)
from mlir_async_pipe.pipeliner.expand.write.ring_slots import show_slot
from mlir_async_pipe.pipeliner.expand.write.role_threads import elect
from mlir_async_pipe.pipeliner.expand.write.slot_returns import first_lane
from mlir_async_pipe.pipeliner.expand.write.versioned_buffers import VersionedBuffer
from mlir_async_pipe.pipeliner.expand.write.write_nest import NestWriter
from mlir_async_pipe.pipeliner.expand.write.write_ring import RingLoop
from mlir_async_pipe.pipeliner.expand.write.write_roles import (
    Producer,
    finish,
    move_into,
    part_threads,
    producer_region,
)
from mlir_async_pipe.pipeliner.plan.product_role import ProductRole
from mlir_async_pipe.pipeliner.plan.ring_plan import RingPlan
from mlir_async_pipe.pipeliner.plan.role_parts import RolePlan
from mlir_async_pipe.pipeliner.plan.sum_versions import SumVersions
from mlir_async_pipe.vocabulary import tensor_use, use_of
from mlir_async_pipe.vocabulary.memory_names import POINTER_OF_ADDRESS
from mlir_async_pipe.vocabulary.tensor_memory import FENCE_OP, fence_side


class Sums:
    """The mbarriers of the versions of the sums, and what slots of them are."""

    def __init__(self, plan: RingPlan, roles: RolePlan, versions: SumVersions) -> None:
        self.plan, self.columns = plan, versions.columns
        self.versions = versions.versions
        self.ring = Ring(self.versions)
        self.filled = write_empty(plan.setups[0], self.versions, lambda write: write.constant(1))
        self.drained = write_empty(
            plan.setups[0], self.versions, lambda write: write.constant(roles.block.warps)
        )
        if self.versions > 1:
            for op in versions.sized:
                count = op.operands[1]
                grown = self.versions * self.columns
                op.operands[1] = constant(grown, count.type, before(op), op.location)

    def wait(self, barriers: Value, slot: Value, phase: Value, write: IntegerWriter) -> None:
        """Wait for a version; what others did to it counts after the next fence."""
        write_wait(write, barriers, slot, phase)

    def offset(self, slot: Value, write: IntegerWriter) -> Value | None:
        """The columns before a version, None where there is one."""
        if self.versions == 1:
            return None
        i32 = ir.IntegerType.get_signless(32, write.context)
        number = write.cast("arith.index_cast", slot, i32)
        return write.multiply(number, write.constant(self.columns, i32))


def fence_following(op: Operation, side: str) -> Operation | None:
    """The fence that the input has right after an op, if it is of that side."""
    order = operations(op.block)
    following = order[order.index(op) + 1]
    return following if fence_side(following) == side else None


def fence(side: str, ip: Any, loc: Any) -> None:
    """What others did counts for tensor ops `after` it, or what these did for others `before`."""
    kind = {"kind": attribute(f"#nvvm.tcgen05_fence<{side}>", loc.context)}
    create(FENCE_OP, (), (), kind, ip=ip, loc=loc)


def show_version(op: Operation, offset: Value | None) -> None:
    """Let an op use the columns of a version."""
    if offset is None:
        return
    address, write = op.operands[0], IntegerWriter(before(op), op.location)
    made = defining_op(address)
    if (
        made is not None
        and made.name == POINTER_OF_ADDRESS
        and made.operands[0].type == offset.type
    ):
        number = made.operands[0]
    else:
        number = write.cast("llvm.ptrtoint", address, offset.type)
    op.operands[0] = write.cast(POINTER_OF_ADDRESS, write.add(number, offset), address.type)


def write_product_roles(
    plan: RingPlan, roles: RolePlan, role: ProductRole, buffers: list[VersionedBuffer]
) -> None:
    sums = Sums(plan, roles, role.sums)
    groups = {s.create.results[0]: write_mbarriers(s, plan.versions) for s in plan.setups}
    branch, thread = part_threads(plan, roles)
    empty = groups[role.completion.barriers]
    chain = (*plan.outer, plan.loop)
    copies = NestWriter(roles.nest)
    number = role.completion.number
    loop = RingLoop(plan, buffers, groups)
    producer = Producer(loop, empty, copies, number)
    region, others = producer_region(branch.regions[1], thread, roles, plan.loop.location)
    build = IntegerWriter(at_end_of(region), plan.loop.location)
    ways = [RingPath(chain, producer.write)]
    copies.write_at_end(region, roles.moved, ways, Ring.start(build, phase=1))
    issued = NestWriter(role.nest)
    issuer = ProductWriter(loop, issued, role, sums)
    # The first slot and its phase; the first version, which is free.
    build = IntegerWriter(at_end_of(others), plan.loop.location)
    state = [*Ring.start(build), *Ring.start(build, phase=1)]
    ways = [RingPath(chain, issuer.write, (0, 1, 2, 3))]
    issued.write_at_end(others, roles.moved, ways, state)
    move_into(branch.regions[0], roles)
    LoadWriter(plan, roles, role, sums, thread).write_here(branch.regions[0])
    finish([plan], roles)


class ProductWriter:
    """Writes what the warp runs that issues products: the nest around the loop, and the products."""

    def __init__(self, loop: RingLoop, nest: NestWriter, role: ProductRole, sums: Sums) -> None:
        self.loop, self.nest, self.role, self.sums = loop, nest, role, sums

    def write(self, ip: Any, *state: Value) -> list[Value]:
        """The products of one tile of the loop around, into a version that was loaded."""
        slot, phase, version, turn = state
        ring, loop = self.loop.ring, self.loop.plan.loop
        # Not the constants of the input's loop, which stand with other threads.
        around = IntegerWriter(ip, loop.location)
        self.sums.wait(self.sums.drained, version, turn, around)
        fence("after", ip, loop.location)
        offset = self.sums.offset(version, around)
        numbers = self.role.slice.advanced
        made, body = self.nest.begin_loop(loop, numbers, [slot, phase], ip)
        inside = list(made.regions[0].blocks[0].arguments)[-2:]
        advanced = self._products(inside, offset, body)
        inside = ring.advance(inside[0], inside[1], IntegerWriter(body, loop.location))
        slot, phase = self.nest.end_loop(loop, made, numbers, advanced, inside, body)
        after_loop = IntegerWriter(ip, loop.location)
        self._commit_sums(version, after_loop)
        return [slot, phase, *self.sums.ring.advance(version, turn, after_loop)]

    def _products(self, state: list[Value], offset: Value | None, ip: Any) -> list[Value]:
        """Wait for the tiles of an iteration, and multiply them in one thread; returns what the loop
        carries on."""
        slot, phase = state
        copies = {op: clone(op, self.nest.outside, ip) for op in self.role.slice.ops}
        for transaction in self.loop.plan.transactions:
            wait = copies[transaction.wait]
            self.loop.name_mbarrier(wait, transaction, slot)
            wait.operands[operand_number(wait, "phase")] = phase
        branch = copies[self.role.branch]
        names.remove(branch, names.OP_NAMES)
        branch.operands[0] = elect(before(branch), branch.location)
        for op in list(walk(branch)):
            if tensor_use(op) == "product":
                show_version(op, offset)
            elif use_of(op) == "commit":
                self._name_commit(op, slot)
        show_slot(self.loop.buffers, slot, list(copies.values()))
        yielded = list(terminator(self.loop.plan.loop.regions[0].blocks[0]).operands)
        return [self.nest.here(yielded[number]) for number in self.role.slice.advanced]

    def _name_commit(self, commit: Operation, slot: Value) -> None:
        """It gives the slot back."""
        pointer = defining_op(commit.operands[0])
        self.loop.name_mbarrier(commit, self.role.completion, slot)
        if pointer is not None:
            handle = defining_op(pointer.operands[0])
            pointer.erase()
            if handle is not None:
                handle.erase()

    def _commit_sums(self, version: Value, write: IntegerWriter) -> None:
        """The sums are there when all products of the thread are over."""
        elected = elect(write.ip, write.location)
        branch = write_if(elected, (), None, write.ip, write.location)
        inside = IntegerWriter(at_end_of(branch.regions[0]), write.location)
        made = clone(self.role.completion.commit, {}, inside.ip)
        kind = made.operands[0].type
        made.operands[0] = mbarrier_pointer(
            IntegerWriter(before(made), write.location), self.sums.filled, version, kind
        )


class LoadWriter:
    """Writes what the threads of the input run: all but the loop, after waits for its sums."""

    def __init__(
        self, plan: RingPlan, roles: RolePlan, role: ProductRole, sums: Sums, thread: Value
    ) -> None:
        self.plan, self.roles, self.role, self.sums = plan, roles, role, sums
        self.thread = thread

    def write_here(self, region: Any) -> None:
        """Write the waits, and carry version and phase through the loops around."""
        start = before(operations(region.blocks[0])[0])
        build = IntegerWriter(start, self.plan.loop.location)
        self.arrives = first_lane(self.thread, build)
        way = RingPath((*self.plan.outer, self.plan.loop), self.write)
        carry([way], Ring.start(build))

    def write(self, version: Value, phase: Value) -> list[Value]:
        """The wait in the place of the loop, and the arrivals after the loads."""
        loop, role = self.plan.loop, self.role
        write = IntegerWriter(before(loop), loop.location)
        self.sums.wait(self.sums.filled, version, phase, write)
        if fence_following(loop, "after") is None:
            fence("after", write.ip, write.location)
        offset = self.sums.offset(version, write)
        for op in role.loads:
            show_version(op, offset)
        last = role.last or loop
        fenced = fence_following(last, "before")
        write = IntegerWriter(after(fenced or last), loop.location)
        if fenced is None:
            fence("before", write.ip, loop.location)
        self._arrive(version, write)
        following = self.sums.ring.advance(version, phase, write)
        for number, result in enumerate(loop.results):
            result.replace_all_uses_with(loop.operands[3 + number])
        loop.erase()
        return following

    def _arrive(self, version: Value, write: IntegerWriter) -> None:
        """One lane of each warp arrives for all."""
        ip, loc, context = write.ip, write.location, write.context
        i32 = ir.IntegerType.get_signless(32, context)
        create("nvvm.bar.warp.sync", [write.constant(-1, i32)], ip=ip, loc=loc)
        branch = write_if(self.arrives, (), None, ip, loc)
        token = ir.Type.parse("!nvgpu.mbarrier.token", context)
        inside = at_end_of(branch.regions[0])
        create("nvgpu.mbarrier.arrive", [self.sums.drained, version], [token], ip=inside, loc=loc)
