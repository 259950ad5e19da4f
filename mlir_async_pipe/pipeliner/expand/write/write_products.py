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
from mlir_async_pipe.pipeliner.expand.write.ring_mbarriers import write_empty, write_wait
from mlir_async_pipe.pipeliner.expand.write.role_threads import elect
from mlir_async_pipe.pipeliner.expand.write.slot_returns import Blocks, SlotReturns
from mlir_async_pipe.pipeliner.expand.write.write_ring import RingLoop, write_partition
from mlir_async_pipe.pipeliner.plan.product_role import ProductRole
from mlir_async_pipe.pipeliner.plan.ring_plan import RingPlan, RolePlan
from mlir_async_pipe.vocabulary import tensor_use
from mlir_async_pipe.vocabulary.memory_names import POINTER_OF_ADDRESS
from mlir_async_pipe.vocabulary.tensor_memory import FENCE_OP, fence_side

# The partition of the statements that issue products; the input's threads run what is in none.
PRODUCTS = 1


class ProductsWriter:
    """Writes what the warp runs that issues products, and what the threads of the input run instead of the loop.
    They wait for each other by the mbarriers of the versions of the sums, which are made here, with room for
    these."""

    def __init__(self, plan: RingPlan, roles: RolePlan, role: ProductRole) -> None:
        self.plan, self.roles, self.role = plan, roles, role
        self.ring = Ring(role.sums.versions)
        setup, count = plan.setups[0], role.sums.versions
        self.filled = write_empty(setup, count, lambda write: write.constant(1))
        self.drained = write_empty(setup, count, lambda write: write.constant(roles.block.warps))
        for op in role.sums.sized if count > 1 else ():
            columns = op.operands[1]
            grown = count * role.sums.columns
            op.operands[1] = constant(grown, columns.type, before(op), op.location)

    def write(self, loop: RingLoop, region: Any, arrives: Value) -> None:
        """Write the products of a lowered loop at the end of a region; `arrives` holds in one lane of each warp of
        the threads of the input, which `write_loads` is for."""
        branch, loc = self.role.branch, self.plan.loop.location
        elected = elect(before(branch), loc)
        names.remove(branch, names.OP_NAMES)
        branch.operands[0] = elected
        for op in (*(t.wait for t in self.plan.transactions), source_op(elected), branch):
            set_integer(op, names.PARTITION, PRODUCTS, 64)
        # The first slot and its phase; the first version, which is free.
        there = IntegerWriter(at_end_of(region), loc)
        state = [*Ring.start(there), *Ring.start(there, phase=1)]
        values = [(loop, (0, 1, 2, 3))]
        write_partition(region, self.roles.moved, PRODUCTS, values, self._write_products, state)
        self.returns = SlotReturns(self.drained, Blocks(None, 0), arrives, meets_lanes=True)

    def _write_products(
        self, ring: RingLoop, slot: Value, phase: Value, version: Value, phase_of_sums: Value
    ) -> list[Value]:
        """The products of one tile of the loop around, into a version that was loaded; returns the state after
        them."""
        loop = ring.loop
        # Not the constants of the input's loop, which stand with other threads.
        write = IntegerWriter(before(loop), loop.location)
        # What others did to a version counts after the next fence.
        write_wait(write, self.drained, version, phase_of_sums)
        fence("after", write.ip, write.location)
        offset = self._offset(version, write)
        for op in list(walk(loop)):
            if tensor_use(op) == "product":
                show_version(op, offset)
        following = ring.expand(slot, phase)
        write = IntegerWriter(after(ring.loop), write.location)
        self._commit(version, write)
        return [*following, *self.ring.advance(version, phase_of_sums, write)]

    def _commit(self, version: Value, write: IntegerWriter) -> None:
        """The sums are there when all products of the thread are over."""
        elected = elect(write.ip, write.location)
        branch = write_if(elected, (), None, write.ip, write.location)
        made = clone(self.role.completion.commit, {}, at_end_of(branch.regions[0]))
        inside = IntegerWriter(before(made), write.location)
        made.operands[0] = mbarrier_pointer(inside, self.filled, version, made.operands[0].type)

    def write_loads(self, version: Value, phase: Value) -> list[Value]:
        """The wait in the place of the loop, and the arrivals after the loads."""
        loop, role = self.plan.loop, self.role
        write = IntegerWriter(before(loop), loop.location)
        write_wait(write, self.filled, version, phase)
        if fence_following(loop, "after") is None:
            fence("after", write.ip, write.location)
        offset = self._offset(version, write)
        for op in role.loads:
            show_version(op, offset)
        last = role.last or loop
        fenced = fence_following(last, "before")
        write = IntegerWriter(after(fenced or last), loop.location)
        if fenced is None:
            fence("before", write.ip, loop.location)
        self.returns.write(version, None, write)
        for number, result in enumerate(loop.results):
            result.replace_all_uses_with(loop.operands[3 + number])
        loop.erase()
        return self.ring.advance(version, phase, write)

    def _offset(self, version: Value, write: IntegerWriter) -> Value | None:
        """The columns before a version, None where there is one."""
        if self.ring.slots == 1:
            return None
        i32 = ir.IntegerType.get_signless(32, write.context)
        number = write.cast("arith.index_cast", version, i32)
        return write.multiply(number, write.constant(self.role.sums.columns, i32))


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
