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
    set_integer,
    source_op,
    walk,
)
from mlir_async_pipe.bindings.structured_ops import at_end_of, write_if
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.facts.loops.transactions import mbarrier_pointer
from mlir_async_pipe.facts.values.integer_writer import IntegerWriter
from mlir_async_pipe.facts.values.ring import Ring
from mlir_async_pipe.pipeliner.expand.write.carried_ring import RingPath, carry
from mlir_async_pipe.pipeliner.expand.write.ring_mbarriers import (
    write_empty,
    write_mbarriers,
    write_wait,
)
from mlir_async_pipe.pipeliner.expand.write.role_threads import elect, name_barriers
from mlir_async_pipe.pipeliner.expand.write.slot_returns import first_lane
from mlir_async_pipe.pipeliner.expand.write.versioned_buffers import VersionedBuffer
from mlir_async_pipe.pipeliner.expand.write.write_ring import COPIES, RingLoop
from mlir_async_pipe.pipeliner.expand.write.write_roles import (
    drop_mbarriers,
    move_into,
    part_threads,
    producer_region,
    write_partition,
)
from mlir_async_pipe.pipeliner.plan.product_role import ProductRole
from mlir_async_pipe.pipeliner.plan.ring_plan import RingPlan
from mlir_async_pipe.pipeliner.plan.role_parts import RolePlan
from mlir_async_pipe.pipeliner.plan.sum_versions import SumVersions
from mlir_async_pipe.vocabulary import tensor_use
from mlir_async_pipe.vocabulary.memory_names import POINTER_OF_ADDRESS
from mlir_async_pipe.vocabulary.tensor_memory import FENCE_OP, fence_side

# The partition of the statements that issue products; the input's threads run what is in none.
PRODUCTS = 1


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
    loc = plan.loop.location
    copies, others = producer_region(branch.regions[1], thread, roles, loc)
    loop = RingLoop(plan, buffers, groups)
    loop.lower_apart(groups[role.completion.barriers], role.completion.number)
    elected = elect(before(role.branch), loc)
    names.remove(role.branch, names.OP_NAMES)
    role.branch.operands[0] = elected
    for op in (*(t.wait for t in plan.transactions), source_op(elected), role.branch):
        set_integer(op, names.PARTITION, PRODUCTS, 64)
    free = Ring.start(IntegerWriter(at_end_of(copies), loc), phase=1)
    write_partition(copies, roles, COPIES, [(loop, (0, 1))], RingLoop.expand, free)
    # The first slot and its phase; the first version, which is free.
    build = IntegerWriter(at_end_of(others), loc)
    state = [*Ring.start(build), *Ring.start(build, phase=1)]
    write = ProductWriter(role, sums).write
    write_partition(others, roles, PRODUCTS, [(loop, (0, 1, 2, 3))], write, state)
    move_into(branch.regions[0], roles)
    LoadWriter(plan, roles, role, sums, thread).write_here(branch.regions[0])
    name_barriers(roles.block)
    drop_mbarriers([plan])


class ProductWriter:
    """Writes what the warp runs that issues products: those of a tile of the loop around, into a version that
    was loaded."""

    def __init__(self, role: ProductRole, sums: Sums) -> None:
        self.role, self.sums = role, sums

    def write(
        self, ring: RingLoop, slot: Value, phase: Value, version: Value, turn: Value
    ) -> list[Value]:
        """The lowered loop, between the wait for its version and the commit of this; returns the state after
        it."""
        loop = ring.loop
        # Not the constants of the input's loop, which stand with other threads.
        write = IntegerWriter(before(loop), loop.location)
        self.sums.wait(self.sums.drained, version, turn, write)
        fence("after", write.ip, write.location)
        offset = self.sums.offset(version, write)
        for op in list(walk(loop)):
            if tensor_use(op) == "product":
                show_version(op, offset)
        following = ring.expand(slot, phase)
        write = IntegerWriter(after(ring.loop), write.location)
        self._commit_sums(version, write)
        return [*following, *self.sums.ring.advance(version, turn, write)]

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
