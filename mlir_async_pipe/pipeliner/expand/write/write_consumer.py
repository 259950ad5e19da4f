"""Writes what the threads of the input run: the loop without its copies.

for k {                                 for k, slot, phase, earlier {
  expect, copy, wait, use, barrier        wait for full[slot]; use; leave p products
}                                -->      arrive at empty[earlier] if k has p before it
store                                   }
                                        arrive for the last p tiles; store
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings.raw_ops import (
    Value,
    again,
    before,
    operations,
    terminator,
)
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.facts.values.integer_writer import IntegerWriter
from mlir_async_pipe.facts.values.ring import Ring
from mlir_async_pipe.pipeliner.expand.write.carried_ring import Way, carry
from mlir_async_pipe.pipeliner.expand.write.cluster_arrivals import BlockWriter
from mlir_async_pipe.pipeliner.expand.write.idle_values import drop_idle_values
from mlir_async_pipe.pipeliner.expand.write.integers import Integers
from mlir_async_pipe.pipeliner.expand.write.ring_slots import show_slot
from mlir_async_pipe.pipeliner.expand.write.role_threads import set_registers
from mlir_async_pipe.pipeliner.expand.write.slot_returns import ReturningWriter
from mlir_async_pipe.pipeliner.expand.write.versioned_buffers import VersionedBuffer
from mlir_async_pipe.pipeliner.plan.ring_plan import RingPlan
from mlir_async_pipe.pipeliner.plan.role_parts import RolePlan

Consumer = tuple["ConsumerWriter", tuple[int, int]]
"""A loop, and the numbers of its slot and phase in the state of all rings."""


def write_consumers(consumers: list[Consumer], region: Any) -> None:
    """Write the loops, in textual order, and slot and phase of each ring from one to the next and through
    those around them, all of them in the region."""
    writers = [writer for writer, _ in consumers]
    start = before(operations(region.blocks[0])[0])
    build = writers[0].begin(start)
    for writer in writers:
        writer.arrives = writers[0].arrives
    ways = [Way((*w.plan.outer, w.kernel), w.write, values) for w, values in consumers]
    rings = {values for _, values in consumers}
    carry(ways, [value for _ in rings for value in Ring.start(build)])
    # What a loop hands on to the next one is idle when that one does without.
    for writer in reversed(writers):
        drop_idle_values(writer.kernel)


class ConsumerWriter(ReturningWriter):
    """Writes what the threads of the input run: the loop without its copies."""

    def __init__(
        self,
        plan: RingPlan,
        roles: RolePlan,
        buffers: list[VersionedBuffer],
        groups: dict[Value, Value],
        empty: Value,
        thread: Value,
        blocks: BlockWriter,
    ) -> None:
        super().__init__(plan, buffers, groups, empty, blocks, meets_lanes=roles.meets_lanes)
        self.roles = roles
        self.thread = thread
        # Which group of threads a thread is in, where several take tiles in turn.
        self.group: Value | None = None

    def begin(self, start: Any) -> IntegerWriter:
        """What all that these threads run begins with."""
        loc, registers = self.plan.loop.location, self.roles.block.registers
        if registers is not None:
            set_registers("increase", registers.consumer, start, loc)
        build = IntegerWriter(start, loc)
        self._begin_returns(self.thread, build)
        return build

    def write(self, slot: Value, phase: Value) -> list[Value]:
        """The kernel, and what gives back the slots of its last tiles."""
        plan, loop = self.plan, self.kernel
        self.integers = Integers(loop, plan.ahead, 0, plan.trip_count, before(loop))
        carried = [slot, phase, *[slot] * plan.in_flight]
        kinds = [value.type for value in [*loop.results, *carried]]
        self.kernel = again(loop, [*loop.operands, *carried], kinds)
        self._kernel(len(carried))
        names.forget(self.kernel)
        names.remove(self.kernel, names.LOOP_NAMES)
        results = list(self.kernel.results)[-len(carried) :]
        if plan.in_flight:
            self._drain(results[0])
        return results[:2]

    def _kernel(self, carried: int) -> None:
        block = self.kernel.regions[0].blocks[0]
        kinds = [value.type for value in list(self.kernel.operands)[-carried:]]
        slot, phase, *earlier = [block.add_argument(kind, self.kernel.location) for kind in kinds]
        integers = self.integers
        end = terminator(block)
        self._wait_for_tiles(slot, phase)
        self._drop_input()
        show_slot(self.buffers, slot, operations(block))
        self._leave_products()
        integers.enter(before(end))
        self._give_back([slot, *earlier][-1], self._has_before(block.arguments[0]))
        yielded = [*self.ring.advance(slot, phase, integers), slot, *earlier]
        again(end, [*end.operands, *yielded[:carried]])
