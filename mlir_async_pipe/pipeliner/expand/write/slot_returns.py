"""Gives slots back to those who fill them: to one's own block, or to all blocks of the cluster that copy
into it. One lane of each warp arrives, after the wait that covers the products of the tile (docs/phases.md).

nvgpu.mbarrier.arrive %empty[slot]     -->     %at = nvgpu.mbarrier.get %empty[slot]
                                               %there = nvvm.mapa %at, 0; nvvm.mbarrier.arrive %there
                                               %there = nvvm.mapa %at, 1; nvvm.mbarrier.arrive %there

All blocks meet when the mbarriers are initialised, and at the end: a block must not end while others
arrive at its mbarriers. Where blocks do not all copy into each other, bit q of a constant for block r says
whether the readers of block q arrive there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation, Value, after, before, create, operations
from mlir_async_pipe.bindings.structured_ops import at_end_of, write_if
from mlir_async_pipe.facts.loops.transactions import mbarrier_pointer
from mlir_async_pipe.facts.values.integer_ops import IntegerWriter
from mlir_async_pipe.pipeliner.plan.cluster_plan import ClusterPlan
from mlir_async_pipe.pipeliner.plan.mbarrier_setup import MbarrierSetup
from mlir_async_pipe.pipeliner.plan.role_block import WARP
from mlir_async_pipe.vocabulary.launch_ids import CLUSTER_RANK, MAPA


@dataclass(frozen=True)
class SlotReturns:
    """Arrivals at `empty` of each warp that has read a slot: of the lane for which `arrives` holds.
    `meets_lanes`: lanes read tiles one by one, so that a warp meets before one arrives for all."""

    empty: Value
    blocks: Blocks
    arrives: Value
    meets_lanes: bool

    def write(self, slot: Value, exists: Value | None, write: IntegerWriter) -> None:
        """One lane of each warp arrives for all, if there is such a tile."""
        ip, loc, arrives = write.ip, write.location, self.arrives
        if self.meets_lanes:
            i32 = ir.IntegerType.get_signless(32, write.context)
            create("nvvm.bar.warp.sync", [write.constant(-1, i32)], ip=ip, loc=loc)
        if exists is not None:
            arrives = write.binary("arith.andi", exists, arrives)
        branch = write_if(arrives, (), None, ip, loc)
        self.blocks.arrive(self.empty, slot, IntegerWriter(at_end_of(branch.regions[0]), loc))


class Blocks:
    """Writes arrivals of `warps` of each block; without a `cluster` for one block."""

    def __init__(self, cluster: ClusterPlan | None, warps: int) -> None:
        self.cluster = cluster
        self.warps = warps
        # Whether the readers of this block arrive in each block; None: all do.
        self.reach: list[Value | None] = []

    def arrivals(self, write: IntegerWriter) -> Value:
        """How many give a slot of this block back."""
        if self.cluster is None:
            return write.constant(self.warps)
        counts = [self.warps * targets.bit_count() for targets in self.cluster.targets]
        made = write.constant(counts[0])
        if len(set(counts)) > 1:
            rank = _rank(write)
            for number, count in enumerate(counts[1:], 1):
                here = write.compare("eq", rank, number)
                made = write.select(here, write.constant(count), made)
        return made

    def meet_first(self, setups: tuple[MbarrierSetup, ...]) -> None:
        """All blocks see the mbarriers of all others; the input's other meetings go."""
        if self.cluster is None:
            return
        for op in self.cluster.dropped:
            op.erase()
        if self.cluster.met is None:
            order = operations(setups[0].create.block)
            last = max((setup.meeting or setup.last_init for setup in setups), key=order.index)
            _meet(after(last), last.location)

    def meet_last(self, end: Operation) -> None:
        """No block ends before all others are done with its mbarriers."""
        if self.cluster is not None:
            _meet(before(end), end.location)

    def read_rank(self, write: IntegerWriter) -> None:
        """Ask once which block this is."""
        if self.cluster is None:
            return
        count = len(self.cluster.targets)
        everybody, rank = (1 << count) - 1, None
        for targets in self.cluster.targets:
            if targets == everybody:
                self.reach.append(None)
                continue
            rank = rank or _rank(write)
            bit = write.binary("arith.shrui", write.constant(targets, rank.type), rank)
            i1 = ir.IntegerType.get_signless(1, write.context)
            self.reach.append(write.cast("arith.trunci", bit, i1))

    def arrive(self, empty: Value, slot: Value, write: IntegerWriter) -> None:
        """One arrival in each block that waits for it."""
        context, loc = write.context, write.location
        if self.cluster is None:
            token = ir.Type.parse("!nvgpu.mbarrier.token", context)
            create("nvgpu.mbarrier.arrive", [empty, slot], [token], ip=write.ip, loc=loc)
            return
        i32 = ir.IntegerType.get_signless(32, context)
        here = mbarrier_pointer(write, empty, slot, ir.Type.parse("!llvm.ptr<3>", context))
        of_cluster = ir.Type.parse("!llvm.ptr<7>", context)
        for rank, reaches in enumerate(self.reach):
            number, ip = write.constant(rank, i32), write.ip
            if reaches is not None:
                ip = at_end_of(write_if(reaches, (), None, ip, loc).regions[0])
            there = create(MAPA, [here, number], [of_cluster], ip=ip, loc=loc)
            create("nvvm.mbarrier.arrive", list(there.results), ip=ip, loc=loc)


def first_lane(thread: Value, write: IntegerWriter) -> Value:
    """An i1 that holds in one thread of each warp."""
    return write.compare("eq", write.remainder(thread, WARP), 0)


def _rank(write: IntegerWriter) -> Value:
    i32 = ir.IntegerType.get_signless(32, write.context)
    return create(CLUSTER_RANK, (), [i32], ip=write.ip, loc=write.location).results[0]


def _meet(ip: Any, loc: Any) -> None:
    create("nvvm.cluster.arrive", ip=ip, loc=loc)
    create("nvvm.cluster.wait", ip=ip, loc=loc)
