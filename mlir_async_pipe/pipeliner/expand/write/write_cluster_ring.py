"""Writes a loop of multicasts which all warps of all blocks of a cluster run.

    for k { expect, copy, wait, use, meet }        all blocks meet; copy tiles 0 … d-1
                                             -->   for k, slot, phase {
                                                     wait for the phase of the slot; use the slot; leave p products
                                                     arrive at empty[slot of k - p] of all who copy into it
                                                     warp 0: wait for empty[slot of k + d]; copy tile k + d
                                                   }
                                                   arrive for the last p tiles; all blocks meet

Of another block's readers no barrier says that they are through: so each warp arrives, and no barrier
of the block is needed for the copies. Who copies waits for tile k + d - V, which all give back before
they wait for anything later (docs/phases.md).
"""

from __future__ import annotations

from mlir_async_pipe.bindings.raw_ops import Operation, Value, before, terminator
from mlir_async_pipe.bindings.structured_ops import at_end_of, write_if
from mlir_async_pipe.facts.values.integer_writer import IntegerWriter
from mlir_async_pipe.pipeliner.expand.write.cluster_arrivals import BlockWriter
from mlir_async_pipe.pipeliner.expand.write.ring_mbarriers import write_empty, write_wait
from mlir_async_pipe.pipeliner.expand.write.role_threads import thread_along_x
from mlir_async_pipe.pipeliner.expand.write.slot_returns import ReturningWriter
from mlir_async_pipe.pipeliner.expand.write.versioned_buffers import VersionedBuffer
from mlir_async_pipe.pipeliner.expand.write.write_ring import RingWriter, write_ring
from mlir_async_pipe.pipeliner.plan.cluster_plan import Together
from mlir_async_pipe.pipeliner.plan.ring_plan import RingPlan
from mlir_async_pipe.pipeliner.plan.role_block import WARP


def write_cluster_ring(plan: RingPlan, together: Together, buffers: list[VersionedBuffer]) -> None:
    blocks = BlockWriter(together.cluster, together.warps)
    blocks.meet_first(plan.setups)
    empty = write_empty(plan.setups[0], plan.versions, blocks.arrivals)

    def make(ring: RingPlan, tiles: list[VersionedBuffer], full: dict[Value, Value]) -> RingWriter:
        return ClusterWriter(ring, tiles, full, empty, blocks, together)

    write_ring((plan,), [buffers], make)
    blocks.meet_last(terminator(together.kernel.regions[0].blocks[0]))


class ClusterWriter(ReturningWriter):
    """Writes the loop as `RingWriter` does, with arrivals and waits for slots instead of a barrier."""

    def __init__(
        self,
        plan: RingPlan,
        buffers: list[VersionedBuffer],
        groups: dict[Value, Value],
        empty: Value,
        blocks: BlockWriter,
        together: Together,
    ) -> None:
        super().__init__(plan, buffers, groups, empty, blocks, meets_lanes=together.meets_lanes)
        start = before([*plan.outer, plan.loop][0])
        build = IntegerWriter(start, plan.loop.location)
        thread = thread_along_x(together.kernel, build)
        self._begin_returns(thread, build)
        self.issues = build.compare("ult", thread, WARP)

    def _kernel(self, carried: int) -> None:
        super()._kernel(carried)
        block = self.kernel.regions[0].blocks[0]
        if self.plan.copies_first:
            slot, _, ahead = list(block.arguments)[-carried:][:3]
            self.integers.enter(before(terminator(block)))
            self._return_slot(block.arguments[0], slot, ahead)

    def _free_slot(
        self, variable: Value, slot: Value, phase: Value, ahead: Value, place: Operation
    ) -> Value:
        if not self.plan.copies_first:
            self._return_slot(variable, slot, ahead)
        exists = self.integers.goes_on_for(variable, self.plan.ahead)
        self._wait_for_slot(slot, phase, ahead, self.plan.ahead, exists)
        return exists

    def _return_slot(self, variable: Value, slot: Value, ahead: Value) -> None:
        """That of tile t - p, whose products are over."""
        integers, its_slot = self.integers, slot
        if self.plan.in_flight:
            known = {0: slot, self.plan.ahead: ahead}
            its_slot = self.ring.at(-self.plan.in_flight, known, integers)
        self._give_back(its_slot, self._has_before(variable))

    def _wait_for_slot(
        self, slot: Value, phase: Value, ahead: Value, tiles: int, exists: Value | None
    ) -> None:
        """The warp that copies tile t + `tiles` into the slot `ahead` waits for the arrivals of the
        tile before: for the other parity than that of the tile, which passes at first."""
        integers = self.integers
        if integers.value_of(slot) is not None:
            # The first tiles of all: every slot is free.
            return
        # In a slot that is not a higher one the phase is the next one, of which this is the other.
        ends = integers.binary("arith.xori", phase, integers.constant(1, phase.type))
        parity = self.ring.earlier_phase(phase, slot, ahead, integers) if tiles else ends
        waits = self.issues
        if exists is not None:
            waits = integers.binary("arith.andi", exists, waits)
        branch = write_if(waits, (), None, integers.ip, integers.location)
        inside = IntegerWriter(at_end_of(branch.regions[0]), integers.location)
        write_wait(inside, self.empty, ahead, parity)
