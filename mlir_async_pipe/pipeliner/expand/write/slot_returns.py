"""Gives slots back to those who fill them: what warps run that read tiles which others copy.

for k { wait; use }        -->    for k { wait; use; leave p products; arrive at empty[slot of k - p] }
                                  wait for all products; arrive for the last p tiles

One lane of each warp arrives, after the wait that covers the products of the tile (docs/phases.md).
"""

from __future__ import annotations

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Value, after, create
from mlir_async_pipe.bindings.structured_ops import at_end_of, write_if
from mlir_async_pipe.facts.values.integer_writer import IntegerWriter
from mlir_async_pipe.pipeliner.expand.write.cluster_arrivals import BlockWriter
from mlir_async_pipe.pipeliner.expand.write.versioned_buffers import VersionedBuffer
from mlir_async_pipe.pipeliner.expand.write.write_ring import RingWriter
from mlir_async_pipe.pipeliner.plan.ring_plan import RingPlan
from mlir_async_pipe.pipeliner.plan.role_block import WARP


class ReturningWriter(RingWriter):
    """Writes a loop whose warps arrive at `empty` of the slots that they have read, in the blocks that
    fill these."""

    def __init__(
        self,
        plan: RingPlan,
        buffers: list[VersionedBuffer],
        groups: dict[Value, Value],
        empty: Value,
        blocks: BlockWriter,
        *,
        meets_lanes: bool,
    ) -> None:
        super().__init__(plan, buffers, groups)
        self.empty = empty
        self.blocks = blocks
        self.meets_lanes = meets_lanes

    def _begin_returns(self, thread: Value, build: IntegerWriter) -> None:
        """What each arrival asks, once: whether this lane arrives, and where."""
        self.arrives = build.compare("eq", build.remainder(thread, WARP), 0)
        self.blocks.read_rank(build)

    def _drain(self, slot: Value) -> None:
        """Wait for the last p products and give back their slots, if there are so many: those
        before the one that comes next. Not as the loop carried them: what it hands on from where
        it does not run would stand in a block of its own, with the zeros of its accumulators, and
        ptxas would wait for each product (C7515)."""
        self.integers.leave(after(self._wait_for_products()))
        for number in range(self.plan.in_flight):
            slot = self.ring.before(slot, 1, self.integers)
            self._give_back(slot, self._has_iteration(number))

    def _has_before(self, variable: Value) -> Value | None:
        """Whether p iterations were before this one, as an i1."""
        left, integers = self.plan.in_flight, self.integers
        return integers.has_come_for(variable, left) if left else None

    def _give_back(self, slot: Value, exists: Value | None) -> None:
        """One lane of each warp arrives for all."""
        integers = self.integers
        ip, loc = integers.ip, integers.location
        if self.meets_lanes:
            i32 = ir.IntegerType.get_signless(32, self.context)
            create("nvvm.bar.warp.sync", [integers.constant(-1, i32)], ip=ip, loc=loc)
        arrives = self.arrives
        if exists is not None:
            arrives = integers.binary("arith.andi", exists, arrives)
        branch = write_if(arrives, (), None, ip, loc)
        self.blocks.arrive(self.empty, slot, IntegerWriter(at_end_of(branch.regions[0]), loc))
